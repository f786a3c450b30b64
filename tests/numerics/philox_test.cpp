// Addressed noise: Random123's known answers, the layout of an address, and the normal deviates made of it.
#include "numerics/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "numerics/normal.h"

namespace elmo {
namespace {

TEST(Philox, KnownAnswersOfRandom123) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0, 0), (PhiloxBlock{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
    const std::uint32_t f = 0xffffffff;
    EXPECT_EQ(philox4x32({f, f, f, f}, f, f), (PhiloxBlock{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
    EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
              (PhiloxBlock{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

TEST(Noise, AddressMapsToCounterAndKey) {
    const NoiseKey key{0x1122334455667788ull, 0xaa'89abcdefull, 0x1234};
    const std::int64_t row = 0x77'01020304ll;
    const PhiloxBlock expected =
        philox4x32({42, 0x01020304, 0x89abcdef, 0xaa123477}, 0x55667788u, 0x11223344u);
    EXPECT_EQ(noise_block(key, row, 42), expected);
    for (int i = 0; i < 8; ++i) {
        const auto word = static_cast<std::uint16_t>(expected[i / 2] >> (i % 2 == 0 ? 0 : 16));
        EXPECT_EQ(noise16(key, row, 42 * 8 + i), word);
    }
}

TEST(Philox, KeysOfAllRoundsGiveTheSameBlocks) {
    const NoiseKey key{0xf122334455667788ull, 0xaa'89abcdefull, 0xf234};
    for (const std::int64_t row : {0ll, 0x01020304ll, 0x77'01020304ll, (1ll << 40) - 1})
        for (const std::int64_t block : {0ll, 42ll, 0xffffffffll})
            EXPECT_EQ(philox4x32(noise_counter(key, row, block), philox_keys(key.seed)),
                      noise_block(key, row, block));
}

TEST(Noise, PartsOfRowAndColumnsGiveTheSameBlocks) {
    std::mt19937_64 rng(3);
    for (int i = 0; i < 1000; ++i) {
        const NoiseKey key{rng(), rng() >> 24, static_cast<std::uint32_t>(rng() >> 48)};
        const PhiloxKeys keys = philox_keys(key.seed);
        const auto row = static_cast<std::int64_t>(rng() >> 24);
        const std::int64_t other = (row & ~std::int64_t{0xffffffff}) | static_cast<std::int64_t>(rng() >> 32);
        const auto block = static_cast<std::int64_t>(rng() >> 32);
        EXPECT_EQ(noise_block(noise_of_row(key, keys, row), noise_of_columns(key, keys, other, block), keys),
                  noise_block(key, row, block));
    }
}

// Every part of the address matters, at its smallest and largest bit.
TEST(Noise, NeighbouringAddressesDiffer) {
    std::set<PhiloxBlock> blocks;
    int count = 0;
    const auto add = [&](std::uint64_t seed, std::uint64_t step, std::uint32_t stream, std::int64_t row,
                         std::int64_t block) {
        blocks.insert(noise_block({seed, step, stream}, row, block));
        ++count;
    };
    add(0, 0, 0, 0, 0);
    for (const std::uint64_t seed : {1ull, 1ull << 32, 1ull << 63}) add(seed, 0, 0, 0, 0);
    for (const std::uint64_t step : {1ull, 1ull << 31, 1ull << 32, 1ull << 39}) add(0, step, 0, 0, 0);
    for (const std::uint32_t stream : {1u, 0x80u, 0x8000u}) add(0, 0, stream, 0, 0);
    for (const std::int64_t row : {1ll, 1ll << 31, 1ll << 32, 1ll << 39}) add(0, 0, 0, row, 0);
    for (const std::int64_t block : {1ll, 1ll << 31}) add(0, 0, 0, 0, block);
    EXPECT_EQ(static_cast<int>(blocks.size()), count);
}

TEST(Noise, WordsAreUniform) {
    const NoiseKey key{7, 3, 5};
    const int n = 1 << 18;
    std::vector<int> histogram(256);
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        const std::uint16_t word = noise16(key, i >> 9, i & 511);
        ++histogram[word >> 8];
        sum += word;
    }
    const double standard_error = 65536.0 / std::sqrt(12.0 * n);
    EXPECT_NEAR(sum / n, 32767.5, 5 * standard_error);
    double chi2 = 0;
    for (const int count : histogram) chi2 += std::pow(count - n / 256.0, 2) / (n / 256.0);
    EXPECT_NEAR(chi2, 255, 5 * std::sqrt(2.0 * 255));
}

TEST(PortableLog, IsTheLogarithm) {
    EXPECT_EQ(portable_log(1.0f), 0.0f);
    for (float u = 0x1p-25f; u < 1; u *= 1.37f)
        EXPECT_NEAR(portable_log(u), std::log(static_cast<double>(u)),
                    2e-6 * std::abs(std::log(static_cast<double>(u))) + 1e-7)
            << u;
    // The relative error near 1 too, where the result is small.
    for (const float u : {0.9999f, 1.0f - 0x1p-24f})
        EXPECT_NEAR(portable_log(u) / std::log(static_cast<double>(u)), 1.0, 2e-6) << u;
}

TEST(PortableCosTurn, IsTheCosine) {
    for (int i = 0; i < 4096; ++i) {
        const float t = static_cast<float>(i) / 4096.0f;
        EXPECT_NEAR(portable_cos_turn(t), std::cos(2 * M_PI * static_cast<double>(t)), 2e-6) << t;
    }
}

TEST(NoiseNormal, MomentsAndTails) {
    const NoiseKey key{2024, 0, 2};
    const int n = 1 << 20;
    double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0, previous = 0;
    int beyond2 = 0, beyond3 = 0, beyond4 = 0;
    for (int i = 0; i < n; ++i) {
        const double x = noise_normal(key, i >> 8, i & 255);
        ASSERT_TRUE(std::isfinite(x));
        ASSERT_LT(std::abs(x), 6.0);  // u >= 2^-25 bounds |x| by sqrt(50 ln 2) = 5.89
        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourths += x * x * x * x;
        neighbours += x * previous;
        previous = x;
        beyond2 += std::abs(x) > 2;
        beyond3 += std::abs(x) > 3;
        beyond4 += std::abs(x) > 4;
    }
    const double root = std::sqrt(static_cast<double>(n));
    EXPECT_NEAR(sum / n, 0, 5 / root);
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0) / root);
    EXPECT_NEAR(cubes / n, 0, 5 * std::sqrt(15.0) / root);
    EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96.0) / root);
    EXPECT_NEAR(neighbours / n, 0, 5 / root);
    const auto check_tail = [&](int count, double probability) {
        EXPECT_NEAR(count, n * probability, 5 * std::sqrt(n * probability)) << probability;
    };
    check_tail(beyond2, std::erfc(2 / std::sqrt(2.0)));
    check_tail(beyond3, std::erfc(3 / std::sqrt(2.0)));
    check_tail(beyond4, std::erfc(4 / std::sqrt(2.0)));
}

}  // namespace
}  // namespace elmo
