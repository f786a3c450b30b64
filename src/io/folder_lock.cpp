#include "io/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "elmo/error.h"

namespace elmo {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    close(descriptor_);
    throw ConfigError(fmt::format(
        "out: another process is writing {}; wait until it ends, or give another folder", folder.string()));
}

FolderLock::~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace elmo
