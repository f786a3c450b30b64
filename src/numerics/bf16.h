// bfloat16 storage: the upper half of an FP32; and IEEE half precision. Arithmetic is always done in FP32 or
// wider.
#pragma once

#include <bit>
#include <cstdint>

namespace elmo {

struct Bf16 {
    std::uint16_t bits = 0;
    bool operator==(const Bf16&) const = default;
};

inline float to_float(Bf16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
inline float to_float(float x) {
    return x;
}

// Round to nearest even; NaN stays a NaN.
inline Bf16 to_bf16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// IEEE half precision.
struct Fp16 {
    std::uint16_t bits = 0;
    bool operator==(const Fp16&) const = default;
};

inline float half_to_float(std::uint16_t h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
    const std::uint32_t exponent = (h >> 10) & 0x1fu;
    const std::uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
inline float to_float(Fp16 x) {
    return half_to_float(x.bits);
}

// Round to nearest even; from 65520 on infinity; NaN stays a NaN.
inline Fp16 to_fp16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (u >> 16) & 0x8000u, size = u & 0x7fffffffu;
    std::uint32_t bits = 0;
    if (size > 0x7f800000u) {
        bits = 0x7e00u;
    } else if (size >= 0x477ff000u) {  // 65520
        bits = 0x7c00u;
    } else if (size >= 0x38800000u) {  // 2^-14: normal
        bits = (size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    } else {  // the sum's own rounding puts the bits of a subnormal number, spacing 2^-24, at the end
        bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
    }
    return {static_cast<std::uint16_t>(sign | bits)};
}
// What FP16 holds of x.
inline float round_fp16(float x) {
    return to_float(to_fp16(x));
}

}  // namespace elmo
