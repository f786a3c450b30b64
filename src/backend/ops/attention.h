// Self-attention inside each text of a packed batch: softmax(q k^T / sqrt(D / H)) v, softmax in FP32.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

// qkv holds q, k, v side by side: columns [0, D), [D, 2D), [2D, 3D), each head a contiguous part of them.
// Dropout of the attention weights: noise row = token * H + head, column = key position in the text.
// lse gets log(sum(exp(score))) of each token and head, for the backward.
struct AttentionForward {
    View qkv_T3D;
    Offsets offsets;
    std::int64_t num_heads = 1;
    Dropout dropout;
    View context_TD;
    View lse_TH;  // f32; may be empty when no backward follows
};
template <OpIs<AttentionForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.qkv_T3D, op.context_TD, op.lse_TH);
}

struct AttentionBackward {
    View dcontext_TD, qkv_T3D, context_TD, lse_TH;
    Offsets offsets;
    std::int64_t num_heads = 1;
    Dropout dropout;
    View dqkv_T3D;
};
template <OpIs<AttentionBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dcontext_TD, op.qkv_T3D, op.context_TD, op.lse_TH, op.dqkv_T3D);
}

}  // namespace elmo
