// Linear layers.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "backend/ops/common.h"

namespace elmo {

enum class Activation { kNone, kGelu };  // exact GELU (erf)

// Tokens that FP8 products see: their kernels sum sixteens.
constexpr std::int64_t in_sixteens(std::int64_t tokens) {
    return (tokens + 15) / 16 * 16;
}

// The derivative of GELU, which is between -0.13 and 1.13, as a byte: steps of 1/128, the nearest. 0 and 1
// are exact, as the tails have them; NaN is the last code.
inline constexpr std::uint8_t kSlopeNan = 255;
constexpr std::uint8_t slope_code(float slope) {
    return slope == slope ? static_cast<std::uint8_t>(slope * 128.0f + 32.5f) : kSlopeNan;
}
constexpr float slope_of(std::uint8_t code) {
    return code == kSlopeNan ? std::numeric_limits<float>::quiet_NaN()
                             : static_cast<float>(static_cast<int>(code) - 32) * 0x1p-7f;
}

// What a GELU sees as a byte: the nearest of the magnitudes of E3M4 (numerics/minifloat.h) times 16, even in
// ties: up to 1/4 in steps of 1/64, then sixteen to a power of two. They are counted from 0, which is code
// kPreZero, down to -8, below which GELU is zero to 1e-14, and up to 124. What is beyond becomes that, NaN
// -8.
inline constexpr int kPreZero = 96;
inline constexpr float kLeastPre = -8.0f, kLargestPre = 124.0f;
constexpr std::uint8_t pre_code(float pre) {
    const float low = pre > kLeastPre ? pre : kLeastPre;
    const float held = low < kLargestPre ? low : kLargestPre;
    const float size = held < 0.0f ? -held : held;
    // Of a number whose last bit is the step, the bits count steps.
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(size < 0.25f ? 0.25f : size) & 0x7f800000u;
    const std::uint32_t none = exponent + (19u << 23);
    const std::uint32_t steps = std::bit_cast<std::uint32_t>(size + std::bit_cast<float>(none)) - none;
    const auto count = static_cast<int>(steps + (exponent >> 19)) - (125 << 4);
    return static_cast<std::uint8_t>(held < 0.0f ? kPreZero - count : kPreZero + count);
}
constexpr float pre_of(std::uint8_t code) {
    const int signed_count = static_cast<int>(code) - kPreZero;
    const auto count = static_cast<std::uint32_t>(signed_count < 0 ? -signed_count : signed_count);
    const float small = std::bit_cast<float>(count << 19 | 125u << 23) - 0.25f;
    const float size = count < 16 ? small : std::bit_cast<float>((count << 19) + (124u << 23));
    return signed_count < 0 ? -size : size;
}

// y = act(x w^T + bias). With kGelu `pre` receives x w^T + bias, rounded to its dtype, and y is computed
// from the rounded value (rounded to y's dtype where pre is empty), so that it can be computed again from
// pre. Either may be empty, and the other has the same bits. A pre of bytes receives pre_code of x w^T + bias
// rounded to y's dtype, from which y is computed. No aliasing.
//
// FP8 products, where amax is given: each operand of a product is rounded to an 8-bit grid before it, x and w
// to E4M3 and dy to E5M2 (nearest even), after multiplication by 2^scale_exponent(format, largest magnitude
// of that tensor) (numerics/minifloat.h), which is taken out again; NaN and infinities become NaN. Operands
// are BF16. On a GPU the sums of a product keep the bits that its FP8 instructions keep, elsewhere FP32's.
// amax holds the largest |x|, |w| and |dy|: the forward writes the first two, the backward reads those and
// writes the third. Kept from step to step, it lets a device guess scales; its previous content changes no
// result.
//
// x_codes, in_sixteens(T) * K bytes, receives x as the product sees it, in an order of the backend's own: the
// backward of the same tokens takes it in place of x. room is scratch for other codes, in_sixteens(T) * K
// bytes in the forward and in_sixteens(T) * 2 N in the backward. A GPU needs it. Where slope is given, x is
// what a GELU sees: products take gelu(x), rounded to BF16, in its place, and slope receives
// slope_code(gelu'(x)); x may be overwritten. Where `seen` is given instead, that receives pre_code(x).
//
// FP16 products, where fp16 is set: views are F32, and with h() for rounding to FP16 (numerics/bf16.h: beyond
// 65504 infinite) and sums in FP32,
//   pre = h(h(x) h(w)^T + h(bias)),  y = h(gelu(pre)),  dx = h(h(dy) h(w)),  dw = h(dy)^T h(x)
// and GeluBackward gives h(dy gelu'(pre)) and h(gelu(pre)). dw and dbias are left as summed: see round_fp16.
struct LinearForward {
    View x_TK, w_NK, bias_1N;  // bias may be empty
    View y_TN;
    Activation activation = Activation::kNone;
    View pre_TN;      // only with kGelu; u8: codes
    View amax_13{};   // f32
    View x_codes{};   // u8; may be empty
    View slope_TK{};  // u8; may be empty
    View room{};      // u8
    bool fp16 = false;
    View seen_TK{};  // u8; may be empty
};
template <OpIs<LinearForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_TK, op.w_NK, op.bias_1N, op.y_TN, op.pre_TN, op.amax_13, op.x_codes, op.slope_TK, op.room,
          op.seen_TK);
}

// dx = dy w (may be empty); dw = dy^T x (may be empty, with dbias: then x is not read and may be empty too);
// dbias = column sums of dy (may be empty). dw and dbias are added to what is there when `accumulate` is set.
// Sums run in an order that depends only on the shapes: dx and dw by two calls have the bits of one call.
// FP8 products where amax is given, as the forward of the same x and w left it; dbias sums dy as it is. There
// dw takes x_codes in place of x; where x is given, x_codes (and slope) are first made from it, and dx may be
// x. An x of bytes is what the forward left in `seen`: x_codes are made of gelu(pre_of(x)), rounded to BF16.
// Where dy_slope is given too, or dy_seen, codes of what a GELU saw, dy is first multiplied by it as
// GeluBackward does (by dy_seen as its pre); dy may be overwritten, and dy_slope where it lies in room,
// behind the first in_sixteens(T) * N bytes. For one call for dx and a later one for dw, dy_codes says that
// codes of dy stay in room from the first, or are there in the second.
struct LinearBackward {
    View dy_TN, x_TK, w_NK;
    View dx_TK, dw_NK, dbias_1N;
    bool accumulate = false;
    View amax_13{};   // f32
    View x_codes{};   // u8
    View slope_TK{};  // u8
    View room{};      // u8
    bool fp16 = false;
    View dy_slope_TN{};  // u8
    bool dy_codes = false;
    View dy_seen_TN{};  // u8
};
template <OpIs<LinearBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dy_TN, op.x_TK, op.w_NK, op.dx_TK, op.dw_NK, op.dbias_1N, op.amax_13, op.x_codes, op.slope_TK,
          op.room, op.dy_slope_TN, op.dy_seen_TN);
}

// dy *= gelu'(pre), in place, or slope_of(slope) where that is given in place of pre. A pre of bytes stands
// for pre_of(pre). Where dz is given, dy is dz w first, rounded to its dtype: the gradient of the input of
// the layer after the GELU, whose weights are w; what was in dy is not read. gelu, where given, receives
// gelu(pre): what the forward had, computed again (from codes, nearly); it may be pre itself, unless that is
// bytes. dbias, where given, receives the column sums of the new dy as stored, added to what is there when
// `accumulate` is set: the gradient of the bias that pre contains.
struct GeluBackward {
    View pre_TN, dy_TN;
    View gelu_TN{};
    View dbias_1N{};
    bool accumulate = false;
    View slope_TN{};  // u8
    bool fp16 = false;
    View dz_TM{}, w_MN{};
};
template <OpIs<GeluBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.pre_TN, op.dy_TN, op.gelu_TN, op.dbias_1N, op.slope_TN, op.dz_TM, op.w_MN);
}
// The product that gives dy, where dz is given.
inline LinearBackward product_before(const GeluBackward& op) {
    LinearBackward product{op.dz_TM, {}, op.w_MN, op.dy_TN, {}, {}};
    product.fp16 = op.fp16;
    return product;
}

}  // namespace elmo
