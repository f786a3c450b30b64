// The noise streams of a run (see numerics/philox.h): one number for each tensor and purpose, never reused.
// Those of the data are in batches/streams.h.
#pragma once

#include <cstdint>

namespace elmo::streams {

inline constexpr std::uint32_t kHeadRounding = 1;
inline constexpr std::uint32_t kHeadInit = 2;  // +1: its rounding
inline constexpr std::uint32_t kPooledDropout = 4;
inline constexpr std::uint32_t kEmbeddingDropout = 5;
inline constexpr std::uint32_t kWeightDropout = 6;
inline constexpr std::uint32_t kHeadRescaling = 7;
inline constexpr std::uint32_t kRefineRounding = 0x10;
inline constexpr std::uint32_t kRefineDropout = 0x11;
inline constexpr std::uint32_t kEncoderInit = 0x1000;    // + 2 * parameter, +1 its rounding
inline constexpr std::uint32_t kEncoderUpdate = 0x3000;  // + 2 * parameter: first moment, +1 second
inline constexpr std::uint32_t kLayerDropout =
    0x5000;  // + 4 * layer + place (attention, after attention, after MLP)

}  // namespace elmo::streams
