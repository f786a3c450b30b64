// Memory as the operating system reports it: /proc and control groups.
#pragma once

#include <cstdint>

namespace elmo {

// Memory that this process may still take: the smaller of the system's available memory and the control
// group's limit.
std::int64_t available_memory_bytes();
// Peak and current resident memory of this process.
std::int64_t peak_resident_bytes();
std::int64_t resident_bytes();

}  // namespace elmo
