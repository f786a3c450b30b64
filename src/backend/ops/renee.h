// The head's step of the baseline `renee`: FP16 and FP32 mixed precision with a loss scale, as the program of
// that name computes it. Copies, logits and gradients of all labels exist at the same time.
#pragma once

#include "backend/ops/head.h"

namespace elmo {

// Columns of the logits of a batch: whole pieces of 16 bytes, as the products of a GPU need.
inline std::int64_t renee_columns(std::int64_t batch) {
    return (batch + 7) / 8 * 8;
}

// With h() for rounding to FP16 (to nearest; beyond 65504 infinite) and sums in FP32:
//   w16 = h(w),  x16 = h(x),  z = h(x16 w16)                    for all labels
//   g16 = h(v (h(sigmoid(z)) - y))                              in the place of z; v as in HeadStep
//   d16 = h(scale * sum_l g16 w16_l)                            the input's gradient, summed over all labels
//   dw16 = h(sum_b g16_b x16_b),  dw32 = dw16
//   momentum = beta * momentum + dw32 + weight_decay * w;  w = w - lr * momentum      (in FP32)
//   dx = d16 / scale, or d16 itself where keeps_scale is set
// Only the input's gradient is scaled. Where d16 is not finite anywhere, dx keeps what it has and the encoder
// must not use it; the head's weights have taken their step all the same.
// Sums have one order, for any number of threads.
struct ReneeStep {
    View x_BD;         // bf16, f32
    View w_LD;         // f32
    View momentum_LD;  // f32
    View w16_LD;       // f16, set
    View g16_LP;       // f16, set; P = renee_columns(B), columns from B on are zeros
    View dw16_LD;      // f16, set
    View dw32_LD;      // f32, set
    Positives positives;
    float lr = 0, weight_decay = 0, beta = 0.9f;
    float scale = 1;
    View dx_BD;  // f32
    bool want_loss = false;
    bool keeps_scale = false;
};
template <OpIs<ReneeStep> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_BD, op.w_LD, op.momentum_LD, op.w16_LD, op.g16_LP, op.dw16_LD, op.dw32_LD, op.dx_BD);
}

struct ReneeStepResult {
    double loss_sum = 0;   // when wanted
    bool skipped = false;  // dx is not set: the encoder's step is left out
};

}  // namespace elmo
