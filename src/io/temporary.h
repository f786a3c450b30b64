// Temporaries beside their targets: ".NAME.tmp-PID-N". Each is locked (flock) while its writer lives, so
// trying the lock shows whether its process is dead. Process numbers would be wrong across containers and
// machines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace elmo {

// A fresh name beside `target`; `kind` is "tmp" or "old". DataError where no name there can be looked up.
std::filesystem::path temporary_name(const std::filesystem::path& target, const std::string& kind);

// Takes the writer's lock on an open temporary. False: another process is just removing it, take a new name.
// True if the file system has no locks: then no other process can lock it either, and nothing is removed.
bool lock_temporary(int descriptor, const std::filesystem::path& temporary);

// Temporaries of `target` of one kind, in no order.
std::vector<std::filesystem::path> list_temporaries(const std::filesystem::path& target,
                                                    const std::string& kind);

// Whether a folder is the temporary of one that appears as a whole: who commits that brings its files to the
// disk.
bool is_temporary_folder(const std::filesystem::path& folder);

// Whether no living process holds the lock.
bool is_abandoned(const std::filesystem::path& temporary);

// Removes the temporaries of `target` whose writers are dead. Never throws.
void remove_abandoned(const std::filesystem::path& target) noexcept;

// The target with symbolic links followed, so that a linked file is replaced in its own folder.
std::filesystem::path resolve_target(const std::filesystem::path& target);

}  // namespace elmo
