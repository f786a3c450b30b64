// The encoder's optimiser and the filling of weights.
#pragma once

#include "backend/ops/common.h"
#include "numerics/state_codes.h"
#include "numerics/weight_grid.h"

namespace elmo {

// AdamW with decoupled weight decay on one tensor; all arithmetic in FP32, `t` counts updates from 1.
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   u = -lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay w)
// BF16 weights: m and v are stored by stochastic rounding (noise streams `key.stream` and
// `key.stream + 1`), the update uses the unrounded moments, and w takes u with Kahan compensation:
//   y = u + c; w' = bf16(w + y); c = bf16(y - (w' - w)).
// Without c: w = bf16(w + u).
// State in bytes (BF16 weights; m, v and c are u8, numerics/state_codes.h): w and c are one weight of 24
// bits, w its nearest BF16 number; weight, m and v are rounded stochastically with one noise of 16 bits: that
// of `key.stream` at step 0, plus noise_shift(t).
// For each kMomentBlock columns of a row `exponents`, u8 [rows, 2 * moment_blocks(cols)], has the exponent of
// m, then that of v, made of the new moments. FP32 (and F64) weights: m and v in the same type, c empty, w +=
// u. Row r of the views is row `first_row` + r of the tensor, which its noise is addressed by.
struct AdamWUpdate {
    View w, grad, m, v, c;
    View exponents = {};
    float lr = 0, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, weight_decay = 0;
    float grad_scale = 1;
    std::int64_t t = 1;
    NoiseKey key;
    std::int64_t first_row = 0;

    bool in_bytes() const { return m.dtype == DType::kU8; }
    NoiseKey bytes_key() const { return {key.seed, 0, key.stream}; }
};
template <OpIs<AdamWUpdate> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.w, op.grad, op.m, op.v, op.c, op.exponents);
}

// w = sigma * N(0, 1) by addressed noise (numerics/normal.h), rounded to the dtype: to nearest for F32 and
// F64, stochastically (with `rounding`) for BF16 and the 8-bit formats. Row r of w is row `first_row` + r of
// the tensor. With a grid: stochastically to the grid (even if the grid rounds to nearest); with an exponent
// per row, that of first_row_exponent.
struct FillNormal {
    View w;
    float sigma = 0.02f;
    NoiseKey key, rounding;
    std::int64_t first_row = 0;
    WeightGrid grid = {};
    View row_exponents = {};  // u8, where the grid has them

    // Columns of w: u8 weights are the grid's codes, packed.
    std::int64_t width() const { return w.dtype == DType::kU8 ? grid.packed_width(w.cols) : w.cols; }
};
template <OpIs<FillNormal> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.w, op.row_exponents);
}

}  // namespace elmo
