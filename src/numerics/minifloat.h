// Small floating-point formats: sign, E exponent bits, M mantissa bits, any bias, with subnormals.
// The head's storage formats E4M3 and E3M4 are two of them. Host scalar code: the definition that
// the vectorised and device versions are compared with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/bf16.h"

namespace elmo {

struct MiniFloat {
    int exponent_bits;
    int mantissa_bits;
    int bias;
    int top_code;  // largest code (without sign) that is a finite number

    // Smallest exponent of a normal number: below it the spacing is constant.
    constexpr int min_exponent() const { return 1 - bias; }
    constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }

    float decode(std::uint32_t code) const {
        const std::uint32_t magnitude = code & ((1u << sign_shift()) - 1);
        if (magnitude > static_cast<std::uint32_t>(top_code)) return std::numeric_limits<float>::quiet_NaN();
        const int exponent = static_cast<int>(magnitude >> mantissa_bits);
        const float mantissa = static_cast<float>(magnitude & ((1u << mantissa_bits) - 1));
        const float one = static_cast<float>(1u << mantissa_bits);
        const float value = exponent == 0 ? std::ldexp(mantissa, min_exponent() - mantissa_bits)
                                          : std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
        return (code >> sign_shift()) & 1u ? -value : value;
    }
    float max_value() const { return decode(static_cast<std::uint32_t>(top_code)); }
};

// OCP E4M3: no infinity, S.1111.111 is NaN, largest 448, subnormals step by 2^-9.
inline constexpr MiniFloat kE4M3{4, 3, 7, 0x7e};
// E3M4 with bias 7: every code finite, largest 1.9375, subnormals step by 2^-10.
inline constexpr MiniFloat kE3M4{3, 4, 7, 0x7f};
// OCP E5M2: largest finite 57344, subnormals step by 2^-16.
inline constexpr MiniFloat kE5M2{5, 2, 15, 0x7b};

// The power of two that brings numbers of magnitude up to `largest` (given by its FP32 bits) as close as
// possible to the format's largest number without exceeding it: floor(log2(max_value / largest)). At most
// 126, so that the factor and its inverse are normal FP32 numbers; 0 where `largest` is not finite.
constexpr int scale_exponent(const MiniFloat& f, std::uint32_t largest_bits) {
    if (largest_bits >= 0x7f800000u) return 0;
    const int top = (f.top_code >> f.mantissa_bits) - f.bias;
    const auto top_mantissa = static_cast<std::uint32_t>(f.top_code & ((1 << f.mantissa_bits) - 1))
                              << (23 - f.mantissa_bits);
    const int exponent = static_cast<int>(largest_bits >> 23) - 127;
    const int power = top - exponent - ((largest_bits & 0x7fffffu) > top_mantissa ? 1 : 0);
    return power < 126 ? power : 126;
}

// The code of x rounded up or down as `carry17` decides: the discarded fraction of a unit, taken to 17
// bits, plus carry17 reaches 2^17 or not. Saturates; NaN becomes the largest code (callers guard NaN).
// `saturated`, where given, counts values beyond the largest finite number.
inline std::uint32_t round_minifloat(const MiniFloat& f, float x, std::uint32_t carry17,
                                     std::int64_t* saturated) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 31) << f.sign_shift();
    const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
    if (!(magnitude <= f.max_value())) {
        if (saturated != nullptr) ++*saturated;
        return sign | static_cast<std::uint32_t>(f.top_code);
    }
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    exponent = magnitude == 0.0f ? f.min_exponent() : exponent - 1;
    if (exponent < f.min_exponent()) exponent = f.min_exponent();
    // In units of the spacing, exact in a double with 17 bits to spare.
    const double units = std::ldexp(static_cast<double>(magnitude), f.mantissa_bits - exponent + 17);
    const auto fixed = static_cast<std::uint64_t>(units);
    const auto whole = static_cast<std::uint32_t>((fixed + carry17) >> 17);
    // `whole` may reach the next binade: the code sequence is contiguous, so plain addition is right.
    const std::uint32_t base = static_cast<std::uint32_t>(exponent - f.min_exponent()) << f.mantissa_bits;
    const std::uint32_t code = base + whole;
    return sign |
           (code > static_cast<std::uint32_t>(f.top_code) ? static_cast<std::uint32_t>(f.top_code) : code);
}

// Stochastic rounding with 16 bits of noise: up with probability equal to the discarded fraction
// (taken to 16 bits and centred), a representable number stays itself.
inline std::uint32_t round_stochastic(const MiniFloat& f, float x, std::uint16_t noise,
                                      std::int64_t* saturated = nullptr) {
    return round_minifloat(f, x, 2u * noise + 1u, saturated);
}

// Round to nearest even, saturating.
inline std::uint32_t round_nearest(const MiniFloat& f, float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 31) << f.sign_shift();
    const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
    if (!(magnitude < f.max_value())) return sign | static_cast<std::uint32_t>(f.top_code);
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    exponent = magnitude == 0.0f ? f.min_exponent() : exponent - 1;
    if (exponent < f.min_exponent()) exponent = f.min_exponent();
    const double units = std::ldexp(static_cast<double>(magnitude), f.mantissa_bits - exponent);
    double whole = std::floor(units);
    const double rest = units - whole;
    if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) == 1.0)) whole += 1.0;
    const std::uint32_t code = (static_cast<std::uint32_t>(exponent - f.min_exponent()) << f.mantissa_bits) +
                               static_cast<std::uint32_t>(whole);
    return sign |
           (code > static_cast<std::uint32_t>(f.top_code) ? static_cast<std::uint32_t>(f.top_code) : code);
}

// BF16 discards exactly 16 bits, so adding the noise below the cut and truncating is equation (1).
// Saturates at the largest finite number instead of reaching infinity; Inf and NaN pass through.
inline Bf16 round_stochastic_bf16(float x, std::uint16_t noise) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7f800000u) == 0x7f800000u) return to_bf16(x);
    const std::uint32_t rounded = u + noise;
    if ((rounded & 0x7f800000u) == 0x7f800000u)
        return {static_cast<std::uint16_t>(((u >> 31) << 15) | 0x7f7fu)};
    return {static_cast<std::uint16_t>(rounded >> 16)};
}

}  // namespace elmo
