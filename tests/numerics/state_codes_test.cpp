// Codes of an optimiser's state: what they hold, what rounding does to a mean, and the ends of their range.
#include "numerics/state_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace elmo {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float x) {
    return std::bit_cast<std::uint32_t>(x);
}

TEST(StateCodes, ZeroBytesAreZeros) {
    EXPECT_EQ(decode_first_moment(0, 0), 0);
    EXPECT_EQ(decode_second_moment(0, 0), 0);
    EXPECT_EQ(decode_weight(0x3f80, 0), 1);
    // And a block of zeros has zero codes, with any noise.
    for (const std::uint32_t noise : {0u, 0xffffu}) {
        EXPECT_EQ(encode_first_moment(0, moment_exponent(0, kFirstMomentRange), noise) >> 24, 0u);
        EXPECT_EQ(encode_second_moment(0, moment_exponent(0, kSecondMomentRange), noise) >> 24, 0u);
    }
}

// Of every code, with the least and the largest noise; codes ascend.
TEST(StateCodes, NumbersOfTheGridStay) {
    for (const std::uint32_t exponent : {kLeastExponent, 60u, 112u, 200u}) {
        float before = -1;
        for (std::uint32_t code = 0; code < 256; ++code) {
            const float m = decode_first_moment(code, exponent), v = decode_second_moment(code, exponent);
            for (const std::uint32_t noise : {0u, 0xffffu}) {
                EXPECT_EQ(encode_first_moment(m, exponent, noise) >> 24, code) << exponent;
                EXPECT_EQ(encode_second_moment(v, exponent, noise) >> 24, code) << exponent;
            }
            EXPECT_GT(v, before);
            EXPECT_EQ(std::signbit(m), code >= 128);
            before = v;
        }
    }
}

// The offset is 2^(exponent - 127): eight codes up to it, eight for each power of two above.
TEST(StateCodes, SpacingIsAnEighthOfTheOffsetAndOfPowersOfTwo) {
    const std::uint32_t exponent = 120;
    const double offset = 0x1p-7;
    for (std::uint32_t code = 0; code < 255; ++code) {
        const double spacing = std::ldexp(offset, static_cast<int>(code / 8)) / 8;
        const double next = decode_second_moment(code + 1, exponent);
        // FP32 cannot always hold what is left without the offset.
        EXPECT_NEAR(next - decode_second_moment(code, exponent), spacing, next * 0x1p-23);
    }
}

// The mean over all noise is the number: within half a step of the noise, and what FP32 loses beside the
// offset. The second moment's first code is for all that is smaller too.
TEST(StateCodes, TheMeanOverNoiseIsTheNumber) {
    std::mt19937 rng(3);
    std::uniform_real_distribution<float> power(-20, 15);
    for (int i = 0; i < 20; ++i) {
        const std::uint32_t exponent = 100;
        const float x = std::exp2(power(rng) - 27), signed_x = i % 2 == 0 ? x : -x;
        double m = 0, v = 0;
        for (std::uint32_t noise = 0; noise < 65536; ++noise) {
            m += decode_first_moment(encode_first_moment(signed_x, exponent, noise) >> 24, exponent);
            v += decode_second_moment(encode_second_moment(x, exponent, noise) >> 24, exponent);
        }
        const double offset = 0x1p-27, top = double{x} + offset;
        const double spacing = std::ldexp(1.0, std::ilogb(top)) / 8;
        const double tolerance = spacing * 0x1p-17 + top * 0x1p-24;
        EXPECT_NEAR(m / 65536, signed_x, tolerance) << x;
        EXPECT_NEAR(v / 65536, std::max(double{x}, offset / 8), tolerance + (x < offset / 8 ? 1 : 0)) << x;
    }
}

// Largest numbers around every edge of the rule that chooses exponents: no code passes the last, and the last
// power of two, or the code below it, is in use.
TEST(StateCodes, TheLargestOfABlockFitsWithAnyNoise) {
    for (std::uint32_t field = 1; field < 254; ++field)
        for (const std::uint32_t fraction :
             {0u, 1u, 0x6ffdffu, 0x6ffe00u, 0x6ffe01u, 0x6fffffu, 0x700000u, 0x7fffffu}) {
            const auto largest = std::bit_cast<float>(field << 23 | fraction);
            for (const std::uint32_t range : {kFirstMomentRange, kSecondMomentRange}) {
                const std::uint32_t exponent = moment_exponent(bits_of(largest), range);
                ASSERT_LT(exponent, 255u);
                ASSERT_GE(exponent, kLeastExponent);
                const std::uint32_t code = encode_magnitude(largest, exponent, 0xffff) >> 20;
                ASSERT_LE(code, 8 * range + 7) << field << ' ' << fraction;
                if (field > kLeastExponent + range) {
                    ASSERT_GE(code, 8 * range - 1) << field << ' ' << fraction;
                }
            }
            const std::uint32_t exponent = moment_exponent(bits_of(largest), kFirstMomentRange);
            ASSERT_EQ(encode_first_moment(largest, exponent, 0xffff) >> 31, 0u);
            ASSERT_EQ(encode_first_moment(-largest, exponent, 0xffff) >> 31, 1u);
        }
}

TEST(StateCodes, ASecondMomentIsZeroOnlyIfItWas) {
    const std::uint32_t exponent = moment_exponent(bits_of(1e10f), kSecondMomentRange);
    for (const float v : {1e-37f, 1e-20f, 1e-3f})
        EXPECT_GT(decode_second_moment(encode_second_moment(v, exponent, 0) >> 24, exponent), 0) << v;
    EXPECT_EQ(encode_second_moment(0, exponent, 0xffff) >> 24, 0u);
}

TEST(StateCodes, OneNumberThatIsNotFiniteShowsInItsWholeBlock) {
    for (const float largest :
         {kInfinite, std::nanf(""), std::bit_cast<float>(0x7fffffffu), std::numeric_limits<float>::max()}) {
        for (const std::uint32_t range : {kFirstMomentRange, kSecondMomentRange})
            ASSERT_EQ(moment_exponent(bits_of(largest), range), kLostExponent);
        for (const float x : {0.0f, 1.0f, 1e38f, largest})
            for (const std::uint32_t noise : {0u, 0xffffu}) {
                const std::uint32_t m = encode_first_moment(x, kLostExponent, noise) >> 24,
                                    v = encode_second_moment(x, kLostExponent, noise) >> 24;
                EXPECT_FALSE(std::isfinite(decode_first_moment(m, kLostExponent))) << x;
                EXPECT_FALSE(std::isfinite(decode_second_moment(v, kLostExponent))) << x;
            }
    }
}

float stored(float x, std::uint32_t noise, float* bf16 = nullptr) {
    const std::uint32_t rounded = round_weight(x, noise);
    if (bf16 != nullptr) *bf16 = std::bit_cast<float>(weight_bf16(rounded) & 0xffff0000u);
    return decode_weight(weight_bf16(rounded) >> 16, weight_rest(rounded));
}

// Weights of all sizes, subnormal ones and those below a power of two among them: the mean over the noise is
// exact, and the BF16 number is the nearest one.
TEST(StateCodes, WeightsAreExactOnAverageAndBesideTheirNearestBf16) {
    std::mt19937 rng(5);
    std::vector<std::uint32_t> patterns = {0,           1,           0x80000000u, 0x007fffffu,
                                           0x00800000u, 0x3f7fffffu, 0x3f7f8000u, 0x3f7f7fffu,
                                           0x3f808000u, 0xbf7fffffu, 0x7f7f0000u};
    for (int i = 0; i < 300; ++i)
        if (const auto bits = static_cast<std::uint32_t>(rng()); (bits & 0x7f800000u) < 0x7f000000u)
            patterns.push_back(bits);
    for (const std::uint32_t bits : patterns) {
        const auto x = std::bit_cast<float>(bits);
        double sum = 0;
        for (std::uint32_t noise = 0; noise < 256; ++noise) {
            float bf16 = 0;
            const float w = stored(x, noise | 0xab00u, &bf16);
            sum += w;
            const auto pattern = bits_of(w);
            ASSERT_EQ(pattern & 255u, 0u);
            // Half of the spacing around it, by bits: neighbours differ by 2^16.
            ASSERT_LE(std::abs(static_cast<std::int64_t>(bits_of(bf16)) - static_cast<std::int64_t>(pattern)),
                      0x8000);
        }
        EXPECT_EQ(sum / 256, double{x}) << std::hex << bits;
        EXPECT_EQ(stored(stored(x, 77), 255), stored(x, 77));  // no noise moves what is stored
    }
}

TEST(StateCodes, WeightsThatAreNotFiniteStay) {
    for (std::uint32_t noise = 0; noise < 256; ++noise) {
        float bf16 = 0;
        for (const std::uint32_t nan : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
            EXPECT_TRUE(std::isnan(stored(std::bit_cast<float>(nan), noise, &bf16)));
            EXPECT_TRUE(std::isnan(bf16));
        }
        for (const float x : {kInfinite, -kInfinite}) {
            EXPECT_EQ(stored(x, noise, &bf16), x);
            EXPECT_EQ(bf16, x);
        }
    }
}

}  // namespace
}  // namespace elmo
