// One writer of a folder, or of a file, at a time, among all processes of a machine.
#pragma once

#include <filesystem>

namespace elmo {

// Held from construction to destruction, or to the end of the process, however it ends. Leaves no file.
class FolderLock {
  public:
    // ConfigError if another owner holds it. On a file system without locks it does nothing.
    explicit FolderLock(const std::filesystem::path& folder);
    ~FolderLock();
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

  private:
    int descriptor_ = -1;
};

// The same for a file, which is created if absent and may be renamed while the lock is held.
class FileLock {
  public:
    explicit FileLock(const std::filesystem::path& file);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

  private:
    int descriptor_ = -1;
};

}  // namespace elmo
