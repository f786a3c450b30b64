#include "io/atomic_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/file_error.h"
#include "io/output_file.h"
#include "io/temporary.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

void sync_file(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw_file_error(path, "open");
    const int error = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    if (error != 0 && error != EINVAL && error != EROFS) throw_file_error(path, "bring to the disk", error);
}

// Files before the folders that name them.
void sync_tree(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.is_symlink()) continue;
        if (entry.is_directory()) {
            sync_tree(entry.path());
        } else if (entry.is_regular_file()) {
            sync_file(entry.path());
        }
    }
    sync_folder(folder);
}

void remove_quietly(const fs::path& path) noexcept {
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& target) {
    recover_folder(target);
    target_ = resolve_target(target);
    std::error_code error;
    if (!target_.parent_path().empty()) fs::create_directories(target_.parent_path(), error);
    if (error)
        throw DataError(
            fmt::format("{}: cannot create: {}", target_.parent_path().string(), error.message()));
    if (fs::exists(target_) && !fs::is_directory(target_))
        throw DataError(fmt::format("{}: expected a folder to replace, found a file", target.string()));
    bool locked = false;
    while (!locked) {
        temporary_ = temporary_name(target_, "tmp");
        fs::create_directory(temporary_, error);
        if (error) throw_file_error(target_, "create", error.value());
        lock_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock_ < 0 && errno != ENOENT) throw_file_error(target_, "create");
        locked = lock_ >= 0 && lock_temporary(lock_, temporary_);
        if (!locked && lock_ >= 0) ::close(std::exchange(lock_, -1));
    }
}

AtomicFolder::~AtomicFolder() {
    if (!committed_) remove_quietly(temporary_);
    if (lock_ >= 0) ::close(lock_);
}

void AtomicFolder::commit() {
    try {
        sync_tree(temporary_);
    } catch (const fs::filesystem_error& error) {
        throw DataError(
            fmt::format("{}: cannot bring to the disk: {}", target_.string(), error.code().message()));
    }
    if (!fs::exists(target_)) {
        if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw_file_error(target_, "create");
    } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
        if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) throw_file_error(target_, "replace");
        replace_by_two_renames(temporary_, target_);
    }
    committed_ = true;
    sync_folder(target_.parent_path());
    remove_quietly(temporary_);  // after a swap the previous folder has this name
}

void replace_by_two_renames(const fs::path& from, const fs::path& target, bool crash_between) {
    const fs::path old = temporary_name(target, "old");
    if (::rename(target.c_str(), old.c_str()) != 0) throw_file_error(target, "replace");
    if (crash_between) return;
    if (::rename(from.c_str(), target.c_str()) != 0) {
        const int error = errno;
        (void)::rename(old.c_str(), target.c_str());
        throw_file_error(target, "replace", error);
    }
    sync_folder(target.parent_path());
    remove_quietly(old);
}

void recover_folder(const fs::path& wanted) noexcept {
    try {
        const fs::path target = resolve_target(wanted);
        const auto writers = list_temporaries(target, "tmp");
        if (!std::all_of(writers.begin(), writers.end(), is_abandoned)) return;
        for (const auto& old : list_temporaries(target, "old")) {
            std::error_code ignored;
            if (fs::exists(target)) {
                fs::remove_all(old, ignored);
            } else {
                fs::rename(old, target, ignored);
            }
        }
        remove_abandoned(target);
    } catch (...) {
        // The folder's reader reports what it finds.
    }
}

}  // namespace elmo
