#include "backend/cpu/loops/convert.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/clones.h"

namespace elmo::cpu {

ELMO_CLONES void bf16_to_float(const Bf16* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

ELMO_CLONES void round_to_bf16(float* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const auto u = std::bit_cast<std::uint32_t>(x[i]);
        x[i] = std::bit_cast<float>((u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u);
    }
}

// Adding and taking away a number whose last bit is FP16's spacing rounds to a multiple of the spacing.
ELMO_CLONES void round_to_fp16(float* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float size = std::abs(x[i]);
        const std::uint32_t exponent = std::bit_cast<std::uint32_t>(std::max(size, 0x1p-14f)) & 0x7f800000u;
        const auto shift = std::bit_cast<float>(exponent + (13u << 23));
        const float nearest = (size + shift) - shift;
        x[i] = std::copysign(size >= 65520.0f ? std::numeric_limits<float>::infinity() : nearest, x[i]);
    }
}

ELMO_CLONES void float_to_bf16(const float* from, Bf16* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const auto u = std::bit_cast<std::uint32_t>(from[i]);
        const std::uint32_t nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        const std::uint32_t nan = (u >> 16) | 0x40u;
        to[i].bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : nearest);
    }
}

namespace {

// Normal codes become FP32 bits by moving the exponent; subnormal ones through a number with the
// smallest exponent and a hidden one, which is then subtracted (a subnormal FP32 would be slow).
template <int kMantissa, int kBias>
inline float decode_one(std::uint8_t code) {
    constexpr std::uint32_t kMagnitude = 0x7f;
    const std::uint32_t magnitude = code & kMagnitude;
    const std::uint32_t shifted = magnitude << (23 - kMantissa);
    constexpr std::uint32_t kOffset = static_cast<std::uint32_t>(127 - kBias) << 23;
    const float normal = std::bit_cast<float>(shifted + kOffset);
    constexpr std::uint32_t kOne = static_cast<std::uint32_t>(128 - kBias) << 23;
    const float subnormal = std::bit_cast<float>(shifted | kOne) - std::bit_cast<float>(kOne);
    const float value = magnitude < (1u << kMantissa) ? subnormal : normal;
    const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

ELMO_CLONES void decode_e4m3(const std::uint8_t* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode_one<3, 7>(from[i]);
}
ELMO_CLONES void decode_e3m4(const std::uint8_t* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode_one<4, 7>(from[i]);
}
ELMO_CLONES void decode_e4m3_bf16(const std::uint8_t* from, Bf16* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
        to[i].bits =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(decode_one<3, 7>(from[i])) >> 16);
}
ELMO_CLONES void decode_e3m4_bf16(const std::uint8_t* from, Bf16* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
        to[i].bits =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(decode_one<4, 7>(from[i])) >> 16);
}

}  // namespace

const MiniFloat& format_of(DType dtype) {
    assert(dtype == DType::kE4M3 || dtype == DType::kE3M4);
    return dtype == DType::kE4M3 ? kE4M3 : kE3M4;
}

void decode(const MiniFloat& format, const std::uint8_t* from, float* to, std::int64_t count) {
    format.mantissa_bits == 3 ? decode_e4m3(from, to, count) : decode_e3m4(from, to, count);
}
void decode_bf16(const MiniFloat& format, const std::uint8_t* from, Bf16* to, std::int64_t count) {
    format.mantissa_bits == 3 ? decode_e4m3_bf16(from, to, count) : decode_e3m4_bf16(from, to, count);
}

void through_e4m3(const float* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = kE4M3.decode(round_nearest(kE4M3, from[i]));
}

void load_floats(const View& from, std::int64_t first, float* to, std::int64_t count) {
    switch (from.dtype) {
        case DType::kF32:
            std::memcpy(to, from.as<float>() + first, static_cast<std::size_t>(count) * sizeof(float));
            return;
        case DType::kBf16:
            bf16_to_float(from.as<Bf16>() + first, to, count);
            return;
        default:
            decode(format_of(from.dtype), from.codes() + first, to, count);
    }
}

void store_floats(const float* from, const View& to, std::int64_t first, std::int64_t count) {
    if (to.dtype == DType::kF32)
        std::memcpy(to.as<float>() + first, from, static_cast<std::size_t>(count) * sizeof(float));
    else
        float_to_bf16(from, to.as<Bf16>() + first, count);
}

}  // namespace elmo::cpu
