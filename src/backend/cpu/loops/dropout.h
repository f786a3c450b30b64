// Dropout of one row by addressed noise.
#pragma once

#include "backend/cpu/loops/noise.h"
#include "backend/ops/common.h"

namespace elmo::cpu {

// x[c] = 0 or x[c] * scale for the columns of `row`; `noise` is scratch of noise_row_capacity(count).
void apply_dropout(const Dropout& dropout, std::int64_t row, float* x, std::uint16_t* noise,
                   std::int64_t count);

}  // namespace elmo::cpu
