// Normal deviates by addressed noise, computed with +, -, *, / and sqrt only, so that every backend
// gives the same bits (those five are correctly rounded everywhere; log and cos are not).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "numerics/philox.h"

namespace elmo {

// ln(u) for u in (0, 1], within about 1e-6 relative. Basic operations only.
constexpr float portable_log(float u) {
    auto bits = std::bit_cast<std::uint32_t>(u);
    int exponent = static_cast<int>(bits >> 23) - 127;
    float m = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f800000u);  // [1, 2)
    const bool high = m > 1.41421356f;
    m = high ? m * 0.5f : m;
    exponent += high ? 1 : 0;
    const float s = (m - 1.0f) / (m + 1.0f);  // ln m = 2 artanh(s), |s| < 0.1716
    const float s2 = s * s;
    const float series = 1.0f + s2 * (0.333333333f + s2 * (0.2f + s2 * (0.142857143f + s2 * 0.111111111f)));
    return static_cast<float>(exponent) * 0.69314718f + 2.0f * s * series;
}

// cos(2 pi t) for t in [0, 1): folded to a quarter, then a polynomial in the angle. Basic operations only.
constexpr float portable_cos_turn(float t) {
    float x = t > 0.5f ? 1.0f - t : t;  // [0, 0.5], cosine is even around 1/2
    const bool flip = x > 0.25f;        // cos(pi - a) = -cos(a)
    x = flip ? 0.5f - x : x;            // [0, 0.25]
    const float a = x * 6.28318531f;
    const float a2 = a * a;
    const float c =
        1.0f - a2 * (0.5f - a2 * (0.0416666667f -
                                  a2 * (0.00138888889f - a2 * (2.48015873e-5f - a2 * 2.75573192e-7f))));
    return flip ? -c : c;
}

// Box-Muller: a standard normal deviate from two words of noise.
constexpr float normal_of(std::uint32_t radius, std::uint32_t angle) {
    const float u = (static_cast<float>(radius >> 8) + 0.5f) * 0x1p-24f;  // (0, 1)
    const float t = static_cast<float>(angle >> 8) * 0x1p-24f;
    return std::sqrt(-2.0f * portable_log(u)) * portable_cos_turn(t);
}

// The standard normal deviate of one element: 64 bits of noise, two columns per block.
constexpr float noise_normal(const NoiseKey& key, std::int64_t row, std::int64_t column) {
    const PhiloxBlock b = noise_block(key, row, column >> 1);
    return normal_of(b[(column & 1) * 2], b[(column & 1) * 2 + 1]);
}

}  // namespace elmo
