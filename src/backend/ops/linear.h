// Linear layers.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

enum class Activation { kNone, kGelu };  // exact GELU (erf)

// y = act(x w^T + bias). With kGelu `pre` receives x w^T + bias, rounded to its dtype, and y is computed
// from the rounded value (rounded to y's dtype where pre is empty), so that it can be computed again from
// pre. No aliasing.
//
// FP8 products, where amax is given: each operand of a product is rounded to an 8-bit grid before it, x and w
// to E4M3 and dy to E5M2 (nearest even), after multiplication by 2^scale_exponent(format, largest magnitude
// of that tensor) (numerics/minifloat.h), which is taken out again; NaN and infinities become NaN. Operands
// are BF16. On a GPU the sums of a product keep the bits that its FP8 instructions keep, elsewhere FP32's.
// amax holds the largest |x|, |w| and |dy|: the forward writes the first two, the backward reads those and
// writes the third. Kept from step to step, it lets a device guess scales; its previous content changes no
// result.
struct LinearForward {
    View x_TK, w_NK, bias_1N;  // bias may be empty
    View y_TN;
    Activation activation = Activation::kNone;
    View pre_TN;     // only with kGelu; may be empty when no backward follows
    View amax_13{};  // f32
};
template <OpIs<LinearForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_TK, op.w_NK, op.bias_1N, op.y_TN, op.pre_TN, op.amax_13);
}

// dx = dy w (may be empty); dw = dy^T x (may be empty, with dbias: then x is not read and may be empty too);
// dbias = column sums of dy (may be empty). dw and dbias are added to what is there when `accumulate` is set.
// Sums run in an order that depends only on the shapes: dx and dw by two calls have the bits of one call.
// FP8 products where amax is given, as the forward of the same x and w left it; dbias sums dy as it is.
struct LinearBackward {
    View dy_TN, x_TK, w_NK;
    View dx_TK, dw_NK, dbias_1N;
    bool accumulate = false;
    View amax_13{};  // f32
};
template <OpIs<LinearBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dy_TN, op.x_TK, op.w_NK, op.dx_TK, op.dw_NK, op.dbias_1N, op.amax_13);
}

// dy *= gelu'(pre), in place. gelu, where given, receives gelu(pre): what the forward had, computed again; it
// may be pre itself. dbias, where given, receives the column sums of the new dy as stored, added to what is
// there when `accumulate` is set: the gradient of the bias that pre contains.
struct GeluBackward {
    View pre_TN, dy_TN;
    View gelu_TN{};
    View dbias_1N{};
    bool accumulate = false;
};
template <OpIs<GeluBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.pre_TN, op.dy_TN, op.gelu_TN, op.dbias_1N);
}

}  // namespace elmo
