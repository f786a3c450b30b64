// An optimiser's state in bytes, rounded stochastically: the mean of what is stored is the number.
//
// A moment is an FP32 number above an offset, cut to three fraction bits. The offset is a power of two, which
// 128 neighbouring columns of a row share and whose bits are left out. So codes are equally spaced up to the
// offset, and eight per power of two beyond.
//
// A weight is an FP32 number cut to its upper 24 bits: the nearest BF16 number, and in a signed byte how far
// it is from there, in 1/256 of BF16's spacing.
//
// Zero bytes are zeros. Noise has 16 bits: a weight's own, moved on by the golden ratio at every update. With
// independent noise errors add up like a random walk, and moments that fall for hundreds of updates would end
// anywhere within a factor of ten. Like this an upward rounding is soon followed by a downward one.
//
// All of it is constexpr, which lets device code call it too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace elmo {

inline constexpr std::int64_t kMomentBlock = 128;  // columns that share an offset
constexpr std::int64_t moment_blocks(std::int64_t cols) {
    return (cols + kMomentBlock - 1) / kMomentBlock;
}

// What update t adds to the noise of a weight, modulo 2^16.
constexpr std::uint16_t noise_shift(std::int64_t t) {
    return static_cast<std::uint16_t>(static_cast<std::uint64_t>(t) * 0x9e37u);
}

// Powers of two between the offset and the largest number of a block: the second moment is like a square.
inline constexpr std::uint32_t kFirstMomentRange = 15, kSecondMomentRange = 31;

// The exponents of offsets, as FP32 has them (the power of two, plus 127). Below the least, a moment is
// nothing beside any epsilon; so what is computed with codes is not denormal. The other: one number of the
// block was not finite, and all its numbers are NaN or infinite from now on, as a run that has diverged
// should show.
inline constexpr std::uint32_t kLeastExponent = 32, kLostExponent = 255;

// The exponent for a block from the bits of its largest magnitude. Its code is the last one at most,
// with the offset and with any noise.
constexpr std::uint32_t moment_exponent(std::uint32_t largest, std::uint32_t range) {
    const std::uint32_t top = (largest + 0x1001ffu) >> 23;
    return top >= 255 ? kLostExponent : std::max(top, kLeastExponent + range) - range;
}

// Codes of magnitudes: 7 bits in the first moment, 8 in the second. Encoding leaves the code in the highest
// 7 or 8 of 31 or 32 bits, with what was cut off below.
constexpr float decode_magnitude(std::uint32_t code, std::uint32_t exponent) {
    const std::uint32_t offset = exponent << 23;
    return std::bit_cast<float>((code << 20) + offset) - std::bit_cast<float>(offset);
}
constexpr std::uint32_t encode_magnitude(float x, std::uint32_t exponent, std::uint32_t noise) {
    const std::uint32_t offset = exponent << 23;
    return std::bit_cast<std::uint32_t>(x + std::bit_cast<float>(offset)) + (noise << 4 | 8u) - offset;
}

// The first moment, with a sign. Here and below, encoding leaves the code in the highest byte.
constexpr float decode_first_moment(std::uint32_t code, std::uint32_t exponent) {
    const auto bits = std::bit_cast<std::uint32_t>(decode_magnitude(code & 127u, exponent));
    return std::bit_cast<float>(bits | (code & 128u) << 24);
}
constexpr std::uint32_t encode_first_moment(float m, std::uint32_t exponent, std::uint32_t noise) {
    const auto bits = std::bit_cast<std::uint32_t>(m);
    const auto size = std::bit_cast<float>(bits & 0x7fffffffu);
    return (encode_magnitude(size, exponent, noise) << 4 & 0x7fffffffu) | (bits & 0x80000000u);
}

// The second moment. What is not zero (at least 2^-129) does not become zero: its root is a divisor.
constexpr float decode_second_moment(std::uint32_t code, std::uint32_t exponent) {
    return decode_magnitude(code, exponent);
}
constexpr std::uint32_t encode_second_moment(float v, std::uint32_t exponent, std::uint32_t noise) {
    const std::uint32_t least = std::min(std::bit_cast<std::uint32_t>(v), 1u << 20);
    return std::max(encode_magnitude(v, exponent, noise), least) << 4;
}

// The weight of a BF16 number and its byte.
constexpr float decode_weight(std::uint32_t bf16, std::uint32_t rest) {
    const auto signed_rest = static_cast<std::int32_t>(static_cast<std::int8_t>(rest));
    return std::bit_cast<float>((bf16 << 16) + (static_cast<std::uint32_t>(signed_rest) << 8));
}
// A weight's upper 24 bits, with what was cut off below; then its two parts, the BF16 number in the upper
// half of the result and the byte.
constexpr std::uint32_t round_weight(float w, std::uint32_t noise) {
    return w == w ? std::bit_cast<std::uint32_t>(w) + (noise & 255u) : 0x7fc00000u;
}
constexpr std::uint32_t weight_bf16(std::uint32_t rounded) {
    return rounded + 0x8000u;
}
constexpr std::uint32_t weight_rest(std::uint32_t rounded) {
    return rounded >> 8 & 255u;
}

}  // namespace elmo
