// Temporaries beside their targets: ".NAME.tmp-PID-N". Each is locked (flock) for as long as its writer
// lives, so what a dead process left behind is told from work in progress by trying the lock: no guess by
// process number, which is wrong across containers and machines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace elmo {

// A fresh name beside `target`; `kind` is "tmp" or "old". DataError where no name there can be looked up.
std::filesystem::path temporary_name(const std::filesystem::path& target, const std::string& kind);

// Takes the writer's lock on an open temporary. False: someone is just clearing it away, take a new name.
// Where the file system has no locks, true: then nobody else can take it either, and nothing is cleared.
bool lock_temporary(int descriptor, const std::filesystem::path& temporary);

// Temporaries of `target` of one kind, in no order.
std::vector<std::filesystem::path> list_temporaries(const std::filesystem::path& target,
                                                    const std::string& kind);

// Whether no living process holds the lock.
bool is_abandoned(const std::filesystem::path& temporary);

// Removes the temporaries of `target` whose writers are dead. Never throws.
void remove_abandoned(const std::filesystem::path& target) noexcept;

// The target with symbolic links followed, so that a linked file is replaced where it lies.
std::filesystem::path resolve_target(const std::filesystem::path& target);

}  // namespace elmo
