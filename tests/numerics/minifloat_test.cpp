// The storage formats: tables from an independent formula, rounding to nearest and stochastically.
#include "numerics/minifloat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "numerics/philox.h"

namespace elmo {
namespace {

// The finite non-negative numbers of a format, listed from its definition: k * 2^(1 - bias - m) for the
// subnormals, then 2^m numbers in each binade.
std::vector<double> finite_numbers(const MiniFloat& f) {
    std::vector<double> values;
    const int steps = 1 << f.mantissa_bits;
    for (int k = 0; k < steps; ++k) values.push_back(k * std::pow(2.0, 1 - f.bias) / steps);
    for (int e = 1; e < 1 << f.exponent_bits; ++e)
        for (int k = 0; k < steps; ++k)
            values.push_back((1.0 + double(k) / steps) * std::pow(2.0, e - f.bias));
    values.resize(static_cast<std::size_t>(f.top_code) + 1);
    return values;
}

class Formats : public testing::TestWithParam<MiniFloat> {};

TEST_P(Formats, DecodesEveryCode) {
    const MiniFloat f = GetParam();
    const std::vector<double> values = finite_numbers(f);
    for (int code = 0; code < 256; ++code) {
        const int magnitude = code & 0x7f;
        const float decoded = f.decode(static_cast<std::uint32_t>(code));
        if (magnitude > f.top_code) {
            EXPECT_TRUE(std::isnan(decoded)) << code;
            continue;
        }
        EXPECT_EQ(decoded, (code & 0x80 ? -1 : 1) * values[magnitude]) << code;
        EXPECT_EQ(std::signbit(decoded), (code & 0x80) != 0) << code;
    }
}

TEST_P(Formats, RepresentableNumbersStay) {
    const MiniFloat f = GetParam();
    for (std::uint32_t code = 0; code < 256; ++code) {
        if ((code & 0x7f) > static_cast<std::uint32_t>(f.top_code)) continue;
        const float x = f.decode(code);
        EXPECT_EQ(round_nearest(f, x), code);
        std::int64_t saturated = 0;
        for (const int noise : {0, 1, 32767, 32768, 65534, 65535})
            EXPECT_EQ(round_stochastic(f, x, static_cast<std::uint16_t>(noise), &saturated), code);
        EXPECT_EQ(saturated, 0);
    }
}

TEST_P(Formats, SaturatesAndIsNeverNan) {
    const MiniFloat f = GetParam();
    const auto top = static_cast<std::uint32_t>(f.top_code);
    const float inf = std::numeric_limits<float>::infinity();
    const float above = std::nextafter(f.max_value(), inf);
    for (const float x : {above, f.max_value() * 1.06f, 1e6f, 3e38f, inf}) {
        for (const int noise : {0, 65535}) {
            std::int64_t saturated = 0;
            EXPECT_EQ(round_stochastic(f, x, static_cast<std::uint16_t>(noise), &saturated), top);
            EXPECT_EQ(round_stochastic(f, -x, static_cast<std::uint16_t>(noise), &saturated), top | 0x80);
            EXPECT_EQ(saturated, 2);
        }
        EXPECT_EQ(round_nearest(f, x), top);
        EXPECT_EQ(round_nearest(f, -x), top | 0x80);
    }
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(std::isnan(f.decode(round_nearest(f, nan))));
    EXPECT_FALSE(std::isnan(f.decode(round_stochastic(f, nan, 1))));
    // Just below the largest number: may round up to it, never past it.
    EXPECT_LE(round_stochastic(f, std::nextafter(f.max_value(), 0.0f), 65535), top);
}

// Nearest by search among all numbers, ties to the even code.
TEST_P(Formats, RoundsToNearestEven) {
    const MiniFloat f = GetParam();
    const std::vector<double> values = finite_numbers(f);
    const auto expected = [&](double x) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < values.size(); ++i) {
            const double gain = std::abs(values[best] - x) - std::abs(values[i] - x);
            if (gain > 0 || (gain == 0 && i % 2 == 0)) best = i;
        }
        return static_cast<std::uint32_t>(best);
    };
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
        const auto middle = static_cast<float>((values[i] + values[i + 1]) / 2);  // exact
        for (const float x : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
            EXPECT_EQ(round_nearest(f, x), expected(x)) << x;
            EXPECT_EQ(round_nearest(f, -x), expected(x) | 0x80) << x;
        }
    }
    std::mt19937 random(1);
    std::uniform_real_distribution<float> exponent(-14, 10);
    for (int i = 0; i < 20000; ++i) {
        const float x = std::exp2(exponent(random));
        EXPECT_EQ(round_nearest(f, x), expected(x)) << x;
    }
    EXPECT_EQ(round_nearest(f, std::numeric_limits<float>::denorm_min()), 0u);
    EXPECT_EQ(round_nearest(f, -0.0f), 0x80u);
}

// Over all 65536 noises the number of roundings up is the discarded fraction, to one noise of its own size:
// an exact statement of E[SR(x)] = x.
TEST_P(Formats, StochasticRoundingIsUnbiasedOverAllNoise) {
    const MiniFloat f = GetParam();
    const std::vector<double> values = finite_numbers(f);
    std::mt19937 random(2);
    std::vector<float> inputs = {1e-4f, 5e-4f, 0x1p-10f * 0.3f, 0x1p-6f * 1.01f,
                                 std::nextafter(0x1p-6f, 0.0f)};
    std::uniform_real_distribution<float> exponent(-13, 8);
    for (int i = 0; i < 40; ++i) inputs.push_back(std::exp2(exponent(random)));
    for (float x : inputs) {
        x = std::min(x, std::nextafter(f.max_value(), 0.0f));
        const auto above = std::upper_bound(values.begin(), values.end(), static_cast<double>(x));
        const double up = *above, down = *(above - 1);
        const auto up_code = static_cast<std::uint32_t>(above - values.begin());
        for (const float sign : {1.0f, -1.0f}) {
            int ups = 0;
            for (int noise = 0; noise < 65536; ++noise) {
                const std::uint32_t code = round_stochastic(f, sign * x, static_cast<std::uint16_t>(noise));
                ASSERT_EQ(code >> 7, sign < 0 ? 1u : 0u);
                ASSERT_TRUE((code & 0x7f) == up_code || (code & 0x7f) == up_code - 1) << x;
                ups += (code & 0x7f) == up_code;
            }
            EXPECT_NEAR(ups, 65536 * (static_cast<double>(x) - down) / (up - down), 1.0) << x;
        }
    }
}

// With addressed noise, as training uses it: the mean equals the input within its standard error.
TEST_P(Formats, StochasticMeanWithAddressedNoise) {
    const MiniFloat f = GetParam();
    const int n = 1 << 18;
    for (const float x : {0.3f, 1.1f, 1e-4f, 3e-3f, -0.0171f, std::nextafter(0x1p-6f, 0.0f), 1.93f}) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n; ++i) {
            const double y = f.decode(round_stochastic(f, x, noise16({11, 1, 1}, i >> 6, i & 63)));
            sum += y;
            squares += (y - x) * (y - x);
        }
        const double standard_error = std::sqrt(squares / n / n);
        EXPECT_GT(standard_error, 0);
        EXPECT_NEAR(sum / n, x, 5 * standard_error + 0x1p-17 * std::abs(x)) << x;
    }
}

// Weights far below the first normal number still move: 100 updates of 5e-4 from 0 give 0.05 on average.
TEST_P(Formats, SmallUpdatesAddUp) {
    const MiniFloat f = GetParam();
    const int n = 4000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
        std::uint32_t code = 0;
        for (std::uint64_t step = 1; step <= 100; ++step)
            code = round_stochastic(f, f.decode(code) + 5e-4f, noise16({3, step, 1}, i, 0));
        const double w = f.decode(code);
        sum += w;
        squares += (w - 0.05) * (w - 0.05);
    }
    EXPECT_NEAR(sum / n, 0.05, 5 * std::sqrt(squares / n / n) + 100 * 0x1p-24);
    EXPECT_LT(std::sqrt(squares / n), 0.02);  // and each single weight is near it
}

INSTANTIATE_TEST_SUITE_P(MiniFloat, Formats, testing::Values(kE4M3, kE3M4, kE5M2), [](const auto& format) {
    const int exponent_bits = format.param.exponent_bits;
    return exponent_bits == 4 ? "E4M3" : exponent_bits == 3 ? "E3M4" : "E5M2";
});

TEST(MiniFloat, Landmarks) {
    EXPECT_EQ(kE4M3.max_value(), 448.0f);
    EXPECT_EQ(kE4M3.decode(1), 0x1p-9f);
    EXPECT_EQ(kE4M3.decode(0x38), 1.0f);
    EXPECT_TRUE(std::isnan(kE4M3.decode(0x7f)));
    EXPECT_TRUE(std::isnan(kE4M3.decode(0xff)));
    EXPECT_EQ(kE3M4.max_value(), 1.9375f);
    EXPECT_EQ(kE3M4.decode(1), 0x1p-10f);
    EXPECT_EQ(kE3M4.decode(0x70), 1.0f);
    EXPECT_EQ(kE5M2.max_value(), 57344.0f);
    EXPECT_EQ(kE5M2.decode(1), 0x1p-16f);
    EXPECT_EQ(kE5M2.decode(0x3c), 1.0f);
    EXPECT_TRUE(std::isnan(kE5M2.decode(0x7c)));
}

// The largest power of two with which the largest number still fits, for every finite BF16 number.
TEST(MiniFloat, ScaleExponentFitsTightly) {
    for (const MiniFloat& f : {kE4M3, kE5M2}) {
        for (std::uint32_t bits = 0; bits < 0x7f80u; ++bits) {
            const double largest = to_float(Bf16{static_cast<std::uint16_t>(bits)});
            const int power = scale_exponent(f, bits << 16);
            ASSERT_LE(std::ldexp(largest, power), f.max_value());
            ASSERT_LE(power, 126);
            ASSERT_GE(power, -126);
            ASSERT_TRUE(power == 126 || std::ldexp(largest, power + 1) > f.max_value());
        }
        for (const std::uint32_t bits : {0x7f800000u, 0x7fc00000u}) EXPECT_EQ(scale_exponent(f, bits), 0);
    }
}

TEST(Bf16, RoundTripsEveryNumber) {
    for (int bits = 0; bits < 65536; ++bits) {
        const Bf16 x{static_cast<std::uint16_t>(bits)};
        if (std::isnan(to_float(x))) {
            EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(x)))));
            continue;
        }
        EXPECT_EQ(to_bf16(to_float(x)), x);
        EXPECT_EQ(round_stochastic_bf16(to_float(x), 65535), x);
        EXPECT_EQ(round_stochastic_bf16(to_float(x), 0), x);
    }
}

TEST(Bf16, RoundsToNearestEven) {
    EXPECT_EQ(to_bf16(1.0f + 0x1p-8f).bits, 0x3f80);             // tie, even below
    EXPECT_EQ(to_bf16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);         // tie, even above
    EXPECT_EQ(to_bf16(1.0f + 0x1p-8f + 0x1p-23f).bits, 0x3f81);  // just above the tie
    EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
    // A NaN with its payload only in the lower half must not become infinite.
    EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Bf16, StochasticRoundingIsExactlyProportional) {
    for (const float x : {1.003f, -0.02113f, 1e-4f, 1e-39f, 3.1e38f}) {
        int ups = 0;
        for (int noise = 0; noise < 65536; ++noise)
            ups += round_stochastic_bf16(x, static_cast<std::uint16_t>(noise)) !=
                   Bf16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
        EXPECT_EQ(ups, static_cast<int>(std::bit_cast<std::uint32_t>(x) & 0xffff)) << x;
    }
}

TEST(Bf16, StochasticRoundingSaturates) {
    const float max = std::numeric_limits<float>::max(), inf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(round_stochastic_bf16(max, 65535).bits, 0x7f7f);
    EXPECT_EQ(round_stochastic_bf16(-max, 65535).bits, 0xff7f);
    EXPECT_EQ(to_float(round_stochastic_bf16(inf, 5)), inf);
    EXPECT_TRUE(std::isnan(to_float(round_stochastic_bf16(std::bit_cast<float>(0x7f800001u), 0))));
}

TEST(Half, DecodesEveryNumber) {
    for (int bits = 0; bits < 65536; ++bits) {
        const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
        const float decoded = half_to_float(static_cast<std::uint16_t>(bits));
        if (exponent == 31 && mantissa != 0) {
            EXPECT_TRUE(std::isnan(decoded));
            continue;
        }
        double expected = exponent == 31  ? std::numeric_limits<double>::infinity()
                          : exponent == 0 ? mantissa * std::pow(2.0, -24)
                                          : (1 + mantissa / 1024.0) * std::pow(2.0, exponent - 15);
        if (bits & 0x8000) expected = -expected;
        EXPECT_EQ(decoded, expected) << bits;
    }
}

}  // namespace
}  // namespace elmo
