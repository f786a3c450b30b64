// Linear layers.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

enum class Activation { kNone, kGelu };  // exact GELU (erf)

// y = act(x w^T + bias). With kGelu `pre` receives x w^T + bias, rounded to its dtype, and y is computed
// from the rounded value (rounded to y's dtype where pre is empty), so that it can be computed again from
// pre. No aliasing.
struct LinearForward {
    View x_TK, w_NK, bias_1N;  // bias may be empty
    View y_TN;
    Activation activation = Activation::kNone;
    View pre_TN;  // with kGelu alone; may be empty when no backward follows
};

// dx = dy w (may be empty); dw = dy^T x (may be empty, with dbias: then x is not read and may be empty too);
// dbias = column sums of dy (may be empty). dw and dbias are added to what is there when `accumulate` is set.
// Sums run in an order that depends on the shapes alone: dx and dw by two calls have the bits of one call.
struct LinearBackward {
    View dy_TN, x_TK, w_NK;
    View dx_TK, dw_NK, dbias_1N;
    bool accumulate = false;
};

// dy *= gelu'(pre), in place. gelu, where given, receives gelu(pre): what the forward had, computed again; it
// may be pre itself. dbias, where given, receives the column sums of the new dy as stored, added to what is
// there when `accumulate` is set: the gradient of the bias that pre contains.
struct GeluBackward {
    View pre_TN, dy_TN;
    View gelu_TN{};
    View dbias_1N{};
    bool accumulate = false;
};

}  // namespace elmo
