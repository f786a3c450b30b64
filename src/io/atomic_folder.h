// A folder that is replaced as a whole: checkpoints and caches.
//
// Guarantee: after a kill or a loss of power at any moment, the target is either the complete previous folder
// or the complete new one. Everything is written under a temporary name beside the target. commit() syncs
// every file and folder in it and then swaps the two names in one step (renameat2 with RENAME_EXCHANGE; a
// plain rename where there is no target yet); the previous folder is removed afterwards. File systems that
// cannot swap (NFS) get two renames. A crash between them leaves no target, and recover_folder() restores the
// previous one; call it before you open such a folder.
#pragma once

#include <filesystem>

namespace elmo {

class AtomicFolder {
  public:
    // Creates the temporary folder. Missing parents of the target are created. Leftovers of dead writers of
    // the same target are removed. DataError if the target is a file or the place is not writable.
    explicit AtomicFolder(const std::filesystem::path& target);
    // Without commit(): the temporary is removed, the target stays.
    ~AtomicFolder();
    AtomicFolder(const AtomicFolder&) = delete;
    AtomicFolder& operator=(const AtomicFolder&) = delete;

    // Where to write the files.
    const std::filesystem::path& path() const { return temporary_; }
    const std::filesystem::path& target() const { return target_; }

    // Call once, with every file closed. The previous content of the target is lost. If it throws, the target
    // stays.
    void commit();

  private:
    std::filesystem::path target_, temporary_;
    int lock_ = -1;
    bool committed_ = false;
};

// Restores a previous folder after a crash between two renames, and removes leftovers of dead writers of
// `target`. Cheap; does nothing while a living process writes `target`. Never throws.
void recover_folder(const std::filesystem::path& target) noexcept;

// The two renames for file systems without RENAME_EXCHANGE, here for the test. `crash_between` stops halfway.
void replace_by_two_renames(const std::filesystem::path& from, const std::filesystem::path& target,
                            bool crash_between = false);

}  // namespace elmo
