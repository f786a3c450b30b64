// One writer of a folder at a time, among all processes of a machine.
#pragma once

#include <filesystem>

namespace elmo {

// Held from construction to destruction, or to the end of the process, however it ends. Leaves no file.
class FolderLock {
  public:
    // ConfigError when somebody holds it already. A file system without locks locks nothing.
    explicit FolderLock(const std::filesystem::path& folder);
    ~FolderLock();
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

  private:
    int descriptor_ = -1;
};

}  // namespace elmo
