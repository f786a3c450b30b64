// The head's compensated update of one row, vectorised; bit for bit what ops/head.h defines.
#pragma once

#include <cstdint>

#include "numerics/bf16.h"
#include "numerics/minifloat.h"
#include "numerics/weight_grid.h"

namespace elmo::cpu {

struct KahanRates {
    float lr, decay;  // decay: lr * weight_decay
};

// `u` holds the sums g^T x and receives the new weights, rounded to nearest BF16 or to the format; `c` is the
// compensation, before and after. The others return how many were beyond the largest number of the format or
// grid: they become that number and their compensation 0, or the rest where `keep_rest`.
void kahan_row(const KahanRates& rates, const float* w, float* u, Bf16* c, std::int64_t count);
std::int64_t kahan_row(const MiniFloat& format, const KahanRates& rates, const float* w, float* u, Bf16* c,
                       std::int64_t count);
std::int64_t kahan_row(const GridRow& grid, bool keep_rest, const KahanRates& rates, const float* w, float* u,
                       Bf16* c, std::int64_t count);

// Weights that move to a coarser grid: what rounding to nearest takes from them goes to their compensation.
void move_compensated(const GridRow& grid, float* w, Bf16* c, std::int64_t count);

}  // namespace elmo::cpu
