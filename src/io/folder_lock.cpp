#include "io/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "elmo/error.h"
#include "io/file_error.h"

namespace elmo {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const char* kind) {
    throw ConfigError(
        fmt::format("out: another process or thread is writing {}; wait until it ends, or give another {}",
                    path.string(), kind));
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    close(descriptor_);
    refuse(folder, "folder");
}

FolderLock::~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
}

FileLock::FileLock(const std::filesystem::path& file) {
    while (true) {
        descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor_ < 0) throw_file_error(file, "create");
        const bool held = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
        const bool taken = !held && errno == EWOULDBLOCK;
        struct stat mine {
        }, named{};
        // Its last owner may have renamed it since it was opened.
        const bool same = fstat(descriptor_, &mine) == 0 && stat(file.c_str(), &named) == 0 &&
                          mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
        if (same && !taken) return;
        close(descriptor_);
        if (taken) refuse(file, "file");
    }
}

FileLock::~FileLock() {
    close(descriptor_);
}

}  // namespace elmo
