// A folder that is replaced as one: checkpoints and caches.
//
// Guarantee: after a kill or a loss of power at any moment, the target is either the whole previous folder or
// the whole new one. Everything is written under a temporary name beside the target; commit() brings every
// file and folder of it to the disk and then swaps the two names in one step (renameat2 with
// RENAME_EXCHANGE; a plain rename where there is no target yet); the previous folder is removed afterwards.
// File systems that cannot swap (NFS) get two renames: a crash between them leaves no target, and
// recover_folder() puts the previous one back; whoever opens such a folder calls it first.
#pragma once

#include <filesystem>

namespace elmo {

class AtomicFolder {
  public:
    // Creates the temporary folder. Missing parents of the target are created. What dead writers of the same
    // target left is cleared. DataError when the target is a file or the place cannot be written.
    explicit AtomicFolder(const std::filesystem::path& target);
    // Without commit(): the temporary goes away, the target stays.
    ~AtomicFolder();
    AtomicFolder(const AtomicFolder&) = delete;
    AtomicFolder& operator=(const AtomicFolder&) = delete;

    // Where to write the files.
    const std::filesystem::path& path() const { return temporary_; }
    const std::filesystem::path& target() const { return target_; }

    // Once, with every file closed. Whatever the target held is gone afterwards. When it throws, the target
    // stays.
    void commit();

  private:
    std::filesystem::path target_, temporary_;
    int lock_ = -1;
    bool committed_ = false;
};

// Puts back a previous folder that a crash between two renames left aside, and clears what dead writers of
// `target` left. Cheap; does nothing while a living process writes `target`. Never throws.
void recover_folder(const std::filesystem::path& target) noexcept;

// The two renames for file systems without RENAME_EXCHANGE, here for the test. `crash_between` stops halfway.
void replace_by_two_renames(const std::filesystem::path& from, const std::filesystem::path& target,
                            bool crash_between = false);

}  // namespace elmo
