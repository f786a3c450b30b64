// Addressed noise a row at a time, vectorised; bit for bit the scalar definition of numerics/philox.h.
#pragma once

#include <cstdint>

#include "numerics/philox.h"
#include "numerics/rounding_noise.h"

namespace elmo::cpu {

// The noise of columns [0, count) of a row. `out` must hold `count` rounded up to a multiple of 128.
void noise_row(const NoiseKey& key, std::int64_t row, std::int64_t count, std::uint16_t* out);
// The same for a kind of rounding noise: rounding_noise of each column.
void rounding_row(NoiseKind kind, const NoiseKey& key, std::int64_t row, std::int64_t count,
                  std::uint16_t* out);
inline std::int64_t noise_row_capacity(std::int64_t count) {
    return (count + 127) / 128 * 128;
}

}  // namespace elmo::cpu
