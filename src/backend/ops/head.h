// The classifier head: one fused step over all labels, and streaming top-k.
#pragma once

#include <span>
#include <vector>

#include "backend/ops/common.h"
#include "numerics/rounding_noise.h"
#include "numerics/row_marks.h"
#include "numerics/weight_grid.h"
#include "tensor/positives.h"
#include "tensor/topk.h"

namespace elmo {

// For every label l (rows of w), in any chunking:
//   z = x w_l        FP32 accumulation; with E4M3 weights or an E4M3 grid x is cast to E4M3 (to nearest)
//                    here and only here. With E4M3 weights sums of 128 columns may keep fewer bits
//   g = bf16(v (sigmoid(z) - y))   v: the weight of a positive where positives have weights, else 1
//   dx += g w_l      weights from before the update, FP32 accumulation
//   w_l = SR(w_l (1 - lr * weight_decay) - lr * sum_b g_b x_b)
// Rounding noise: key `rounding`, row = first_label + label, column = column, drawn as `noise` says. F32
// weights are not rounded. Without dx (an empty view) that product is left out: then nothing looks for NaN
// and Inf either.
//
// With a grid (BF16 or F32 weights, which lie on it, or U8, its codes, packed as in numerics/packed_codes.h:
// a row of w is then bytes, and the width is that of x) SR rounds to the grid, or to nearest where the grid
// says so. With an exponent per row, exponents move after the update as moved_row_exponent says (`step` of
// the rounding key); weights of a raised row are rounded to the new grid with the noise of `rescaling`,
// addressed like the rounding noise.
//
// Weight dropout: with m = 1 or 0 and s the scale of `weight_dropout` at (first_label + label, column), the
// logits and dx take m s w, in FP32 rounded to nearest BF16 (F32 weights: not rounded), in place of w, and
// the update takes m s sum_b g_b x_b in place of the sum.
//
// Compensation: a label that compensated_R2 marks (numerics/row_marks.h) is not rounded stochastically. With
// c its row of compensation_KD and u = -(lr * weight_decay) w - lr * sum, in FP32 and in this order:
//   y = u + c;  t = nearest(w + y), to the storage or the grid of w;  c = bf16(y - (t - w));  w = t
// Where |w + y| is beyond the largest number of an 8-bit storage or of the grid, which counts as a
// saturation, c = 0; but with an exponent per row c keeps the rest, and what the raised row then rounds (to
// nearest too) goes there as well: t = nearest(w), c = bf16(c + (w - t)).
//
// On the reference, g is not rounded to BF16 when x is F64, and F64 weights are not rounded: with all views
// F64 the step is the plain gradient step.
// dx is set, not added to. Its sum order depends only on the number of labels and the batch: not on
// chunks or threads. No gradient of w and no [B, L] matrix exists at any time.
struct HeadStep {
    View x_BD;  // bf16, f32 (f64 on the reference)
    View w_LD;  // f32, bf16, e4m3, e3m4 (f64 on the reference); u8: codes of the grid, with row exponents
    Positives positives;  // of the rows of w
    float lr = 0, weight_decay = 0;
    NoiseKey rounding;
    std::int64_t num_chunks = 1;
    View dx_BD;              // f32 (f64 on the reference)
    bool want_loss = false;  // the sum of v BCE over samples and labels, in the same pass
    // A device, with want_loss: f32, set to the loss of a sample (NaN where dx has a NaN or Inf) and the
    // saturations. The step then does not block for its result and returns an empty one.
    View report_to{};
    std::int64_t first_label = 0;  // of the rows of w among all labels of the run, where they are a part
    View compensation_KD{};        // bf16; empty: no label has one
    View compensated_R2{};         // i32: marks of the labels that have a row in compensation_KD, in order
    Dropout weight_dropout{};
    NoiseKind noise = NoiseKind::kIndependent;
    WeightGrid grid = {};
    View row_exponents_L1 = {};  // u8 (encode_row_exponent), where the grid has them
    NoiseKey rescaling = {};
    // A device: w_LD and compensation_KD are memory of the host (Backend::allocate_in_host), whose rows pass
    // through scratch.
    bool in_host = false;
    // A device: the labels (of the run, ascending) of the rows of compensation_KD.
    std::span<const std::int64_t> compensated_labels = {};

    bool compensates() const { return !compensation_KD.empty(); }
    // A label's row in compensation_KD, or -1; where the views are the host's.
    std::int64_t compensated_row(std::int64_t label) const {
        return compensates() ? marked_number(static_cast<const std::uint32_t*>(compensated_R2.data), label)
                             : -1;
    }
    bool drops_weights() const { return weight_dropout.threshold() > 0; }
};
template <OpIs<HeadStep> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_BD, op.w_LD, op.dx_BD, op.compensation_KD, op.compensated_R2, op.row_exponents_L1,
          op.report_to);
}

// Of HeadStep or HeadTopK: whether its weights are codes of fewer than 8 bits. Widths are then multiples of
// kCodeGroup.
template <class Op>
bool is_packed(const Op& op) {
    return op.w_LD.dtype == DType::kU8 && op.grid.bits() < 8;
}

// Of HeadStep or HeadTopK: whether the logits take x through E4M3.
template <class Op>
bool casts_to_e4m3(const Op& op) {
    return op.w_LD.dtype == DType::kE4M3 || op.grid.is_e4m3();
}

// A device backend blocks for the result only if the loss is wanted; otherwise it returns an empty one and
// keeps its counts for the next step that wants the loss.
struct HeadStepResult {
    double loss_sum = 0;           // when wanted
    std::int64_t saturations = 0;  // weights of 8 bits or on a grid that were beyond the largest number
    bool skipped = false;          // precision renee: dx is beyond FP16 and not set
    std::int64_t non_finite = -1;  // the first step (of the key) that gave a NaN or Inf in dx; -1: none
};

// The k best labels of each text: logits as in HeadStep, ranked on FP32, ties by lower label.
struct HeadTopK {
    View x_BD, w_LD;
    std::int64_t k = 5;
    WeightGrid grid = {};        // of the weights, where they are on one
    View row_exponents_L1 = {};  // as in HeadStep
    bool in_host = false;        // as in HeadStep
};
template <OpIs<HeadTopK> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_BD, op.w_LD, op.row_exponents_L1);
}

}  // namespace elmo
