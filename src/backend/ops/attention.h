// Self-attention inside each text of a packed batch: softmax(q k^T / sqrt(D / H) + bias) v, softmax in FP32.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

// The bias of MPNet is of a head and of how far the key is behind the query: near distances have each a
// bucket, farther ones share them.
inline constexpr std::int64_t kRelativeBuckets = 32;
constexpr std::int64_t relative_bucket(std::int64_t key_minus_query) {
    constexpr std::int64_t kShared[] = {8, 12, 16, 23, 32, 46, 64, 91};  // where the shared buckets begin
    const std::int64_t distance = key_minus_query < 0 ? -key_minus_query : key_minus_query;
    std::int64_t bucket = distance < kShared[0] ? distance : kShared[0] - 1;
    for (const std::int64_t begin : kShared) bucket += distance >= begin ? 1 : 0;
    return key_minus_query > 0 ? kRelativeBuckets / 2 + bucket : bucket;
}

// qkv holds q, k, v side by side: columns [0, D), [D, 2D), [2D, 3D), each head a contiguous part of them.
// Dropout of the attention weights: noise row = token * H + head, column = key position in the text.
// For the backward, lse gets log(sum(exp(score))) of each token and head, and `mask` what dropout keeps, in a
// form of the backend's own, if that wants it (Backend::attention_mask_bytes).
//
// FP16 products, where fp16 is set: views are F32, and q, k, v and dcontext hold FP16 numbers. With h() for
// rounding to FP16 and sums in FP32, scores are h(q k^T / sqrt(D / H)) + bias, and the context is
// h(h(dropout(p)) v). In the backward dp = dropout(h(dcontext v^T)), ds = p (dp - sum(p dp)) in FP32,
// t = h(ds / sqrt(D / H)), dq = h(t k), dk = h(t^T q), dv = h(h(dropout(p))^T dcontext).
struct AttentionForward {
    View qkv_T3D;
    Offsets offsets;
    std::int64_t num_heads = 1;
    Dropout dropout;
    View context_TD;
    View lse_TH;     // f32; may be empty when no backward follows
    View bias_RH{};  // a row per relative_bucket; may be empty
    View mask{};     // u8; may be empty when no backward follows, or without dropout
    bool fp16 = false;
};
template <OpIs<AttentionForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.qkv_T3D, op.context_TD, op.lse_TH, op.bias_RH, op.mask);
}

// With `again` the context is not read but written, with the bits that the forward gives; lse and mask are
// then room that may be used. dqkv has the same bits either way. qkv_dbias, where given, receives the column
// sums of dqkv as stored, added to what is there when `accumulate` is set.
struct AttentionBackward {
    View dcontext_TD, qkv_T3D, context_TD, lse_TH;
    Offsets offsets;
    std::int64_t num_heads = 1;
    Dropout dropout;
    View dqkv_T3D;
    View bias_RH{};
    View dbias_RH{};  // f32 (f64 on the reference): the bias's gradient is added to it; with a bias
    bool again = false;
    View qkv_dbias_1N{};  // N = 3D
    bool accumulate = false;
    View mask{};
    bool fp16 = false;

    // What computes the context again.
    AttentionForward forward() const {
        return {qkv_T3D, offsets, num_heads, dropout, context_TD, lse_TH, bias_RH, mask, fp16};
    }
};
template <OpIs<AttentionBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dcontext_TD, op.qkv_T3D, op.context_TD, op.lse_TH, op.dqkv_T3D, op.bias_RH, op.dbias_RH,
          op.qkv_dbias_1N, op.mask);
}

}  // namespace elmo
