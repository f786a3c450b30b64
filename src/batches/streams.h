// Streams of addressed noise (numerics/philox.h) that the data layer takes: 0xda00 to 0xdaff.
#pragma once

#include <cstdint>

namespace elmo {

inline constexpr std::uint32_t kStreamRowOrder = 0xda00;
inline constexpr std::uint32_t kStreamValidation = 0xda01;
inline constexpr std::uint32_t kStreamSoftTargets = 0xda02;

}  // namespace elmo
