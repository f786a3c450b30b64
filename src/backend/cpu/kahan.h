// The head's compensated update of one row, vectorised; bit for bit what ops/head.h defines.
#pragma once

#include <cstdint>

#include "base/bf16.h"
#include "base/minifloat.h"

namespace elmo::cpu {

struct KahanRates {
    float lr, decay;  // decay: lr * weight_decay
};

// `u` holds the sums g^T x and receives the new weights, rounded to nearest BF16 or to the format; `c` is the
// compensation, before and after. The second returns how many were beyond the format's largest number: they
// become that number and their compensation 0.
void kahan_row(const KahanRates& rates, const float* w, float* u, Bf16* c, std::int64_t count);
std::int64_t kahan_row(const MiniFloat& format, const KahanRates& rates, const float* w, float* u, Bf16* c,
                       std::int64_t count);

}  // namespace elmo::cpu
