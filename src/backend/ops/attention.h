// Self-attention inside each text of a packed batch: softmax(q k^T / sqrt(D / H) + bias) v, softmax in FP32.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

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

// q, k or v of a token and head as bytes, in less memory for the backward: magnitudes up to 127 with their
// signs, times a power of two that they share, the smallest with which none is rounded to more. So all stand
// for numbers that BF16 holds. Rounded to the nearest, even in ties. The power is stored as the exponent that
// FP32 has for 64 of it, at least 8 (steps of 2^-125), and kQkvNan where a number is NaN, infinite or at
// least 255/256 of 2^127: all of them stand for NaN then.
inline constexpr std::uint8_t kQkvNan = 255;
// `largest`: that of the magnitudes' bits, as FP32; NaN's are larger than any.
constexpr std::uint8_t qkv_exponent(std::uint32_t largest) {
    const std::uint32_t exponent = (largest + 0x10000u) >> 23;  // from 127.5 / 64 on the next
    return exponent > 253 ? kQkvNan : static_cast<std::uint8_t>(exponent < 8 ? 8 : exponent);
}
constexpr std::uint32_t magnitude_bits(float x) {
    return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
}
constexpr std::uint8_t qkv_code(float x, std::uint8_t exponent) {
    if (exponent == kQkvNan) return 0;
    const float size = std::bit_cast<float>(magnitude_bits(x));
    const float steps = size * std::bit_cast<float>((260u - exponent) << 23);
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) >> 24 & 0x80u;
    return static_cast<std::uint8_t>((std::bit_cast<std::uint32_t>(steps + 0x1p23f) & 0x7fu) | sign);
}
constexpr float qkv_of(std::uint8_t code, std::uint8_t exponent) {
    if (exponent == kQkvNan) return std::numeric_limits<float>::quiet_NaN();
    const float size =
        static_cast<float>(code & 0x7f) * std::bit_cast<float>((std::uint32_t{exponent} - 6u) << 23);
    return (code & 0x80) != 0 ? -size : size;
}

// qkv holds q, k, v side by side: columns [0, D), [D, 2D), [2D, 3D), each head a contiguous part of them.
// Dropout of the attention weights: noise row = token * H + head, column = key position in the text.
// For the backward, lse gets log(sum(exp(score))) of each token and head, and `mask` what dropout keeps, in a
// form of the backend's own, if that wants it (Backend::attention_mask_bytes). codes and exponents, where
// given, receive q, k and v as bytes; exponents have a row for each head of q, then of k, then of v.
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
    View codes_T3D{}, exponents_NT{};  // u8, N = 3H; may be empty
};
template <OpIs<AttentionForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.qkv_T3D, op.context_TD, op.lse_TH, op.bias_RH, op.mask, op.codes_T3D, op.exponents_NT);
}

// With `again` the context is not read but written, with the bits that the forward gives; lse and mask are
// then room that may be used. dqkv has the same bits either way. qkv_dbias, where given, receives the column
// sums of dqkv as stored, added to what is there when `accumulate` is set.
//
// Where codes are given, q, k and v are what these stand for, and qkv is room; with `rounds`, qkv first
// becomes what its codes would stand for. The results have the same bits. Either only with `again`: the
// gradient of the softmax wants the context and lse of the same numbers.
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
    View codes_T3D{}, exponents_NT{};  // u8, N = 3H
    bool rounds = false;

    // What computes the context again.
    AttentionForward forward() const {
        return {qkv_T3D, offsets, num_heads, dropout, context_TD, lse_TH, bias_RH, mask, fp16};
    }
};
template <OpIs<AttentionBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dcontext_TD, op.qkv_T3D, op.context_TD, op.lse_TH, op.dqkv_T3D, op.bias_RH, op.dbias_RH,
          op.qkv_dbias_1N, op.mask, op.codes_T3D, op.exponents_NT);
}

}  // namespace elmo
