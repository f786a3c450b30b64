#include "io/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "io/file_error.h"
#include "io/temporary.h"

namespace elmo {

AtomicFile::AtomicFile(const std::filesystem::path& target, Links links)
    : target_(links == Links::kFollowed ? resolve_target(target) : target) {
    // The target is replaced: a device or a pipe would be lost.
    std::error_code error;
    const auto there = std::filesystem::symlink_status(target_, error);
    if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there) &&
        !std::filesystem::is_symlink(there))
        throw DataError(
            fmt::format("{}: expected a file to write, found {}", target.string(),
                        std::filesystem::is_directory(there) ? "a folder" : "a pipe or a device"));
    // Said of the target: what cannot be created is a temporary beside it.
    const auto folder = target_.has_parent_path() ? target_.parent_path() : std::filesystem::path(".");
    if (::access((folder / ".").c_str(), W_OK | X_OK) != 0) throw_file_error(target_, "create");
    remove_abandoned(target_);
    do {
        file_ = OutputFile(temporary_name(target_, "tmp"), OutputFile::Open::kExclusive);
    } while (!lock_temporary(file_.descriptor(), file_.path()));
    file_.set_shown_path(target_);
    struct stat old {};
    if (::lstat(target_.c_str(), &old) == 0 && S_ISREG(old.st_mode))
        (void)::fchmod(file_.descriptor(), old.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
    if (file_.is_open()) ::unlink(file_.path().c_str());
}

void AtomicFile::commit() {
    const bool syncs = !is_temporary_folder(target_.parent_path());
    syncs ? file_.sync() : file_.flush();
    if (::rename(file_.path().c_str(), target_.c_str()) != 0) throw_file_error(target_, "replace");
    file_.close();
    if (syncs) sync_folder(target_.parent_path());
}

void AtomicFile::commit_as(const std::filesystem::path& target) {
    target_ = target;
    commit();
}

void write_file_atomically(const std::filesystem::path& target, std::string_view content) {
    AtomicFile file(target);
    file.write(content);
    file.commit();
}

}  // namespace elmo
