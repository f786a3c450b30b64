// The kinds of rounding noise: each uniform at every address, and hanging together as it says.
#include "numerics/rounding_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace elmo {
namespace {

constexpr NoiseKey kKey{5, 9, 1};

TEST(RoundingNoise, IndependentIsTheNoiseOfTheKey) {
    for (std::int64_t row = 0; row < 20; ++row)
        for (std::int64_t column = 0; column < 33; ++column)
            EXPECT_EQ(rounding_noise(NoiseKind::kIndependent, kKey, row, column), noise16(kKey, row, column));
}

TEST(RoundingNoise, PairsMirrorEachOther) {
    for (std::int64_t row = 0; row < 20; ++row)
        for (std::int64_t column = 0; column < 32; column += 2) {
            const int u = rounding_noise(NoiseKind::kPaired, kKey, row, column);
            EXPECT_EQ(u, noise16(kKey, row, column));
            EXPECT_EQ(u + rounding_noise(NoiseKind::kPaired, kKey, row, column + 1), 65535);
        }
}

TEST(RoundingNoise, SharedIsOneForAllRows) {
    for (std::int64_t column = 0; column < 33; ++column)
        for (std::int64_t row = 1; row < 20; ++row)
            EXPECT_EQ(rounding_noise(NoiseKind::kShared, kKey, row, column),
                      rounding_noise(NoiseKind::kShared, kKey, 0, column));
    NoiseKey next = kKey;
    ++next.step;
    EXPECT_NE(rounding_block(NoiseKind::kShared, next, 0, 0), rounding_block(NoiseKind::kShared, kKey, 0, 0));
}

TEST(RoundingNoise, SharedStepsAreTheStepsOfOneRow) {
    NoiseKey key = kKey;
    for (key.step = 1; key.step < 50; ++key.step)
        for (std::int64_t column = 0; column < 33; ++column)
            for (const std::int64_t row : {0, 1, 77})
                EXPECT_EQ(rounding_noise(NoiseKind::kSharedSteps, key, row, column),
                          rounding_noise(NoiseKind::kSteps, key, 0, column));
}

// Over 65536 steps every 256th part of the noises comes 256 times, but for the few at the ends, whatever the
// address: each rounding is unbiased. And any n steps are covered evenly: roundings up of probability f
// number n f within 4, where independent ones have a spread of sqrt(n f).
TEST(RoundingNoise, StepsAreCoveredEvenly) {
    NoiseKey key = kKey;
    const auto at = [&](NoiseKind kind, std::uint64_t step, std::int64_t row, std::int64_t column) {
        key.step = step;
        return rounding_noise(kind, key, row, column);
    };
    for (const auto& [row, column] : {std::pair{0, 0}, std::pair{3, 7}, std::pair{1000, 13}}) {
        std::vector<int> seen(256);
        for (std::uint64_t step = 100; step < 100 + 65536; ++step)
            ++seen[at(NoiseKind::kSteps, step, row, column) / 256];
        for (const int times : seen) EXPECT_NEAR(times, 256, 4);
    }
    EXPECT_NE(at(NoiseKind::kSteps, 1, 0, 0), at(NoiseKind::kSteps, 1, 1, 0));
    EXPECT_NE(at(NoiseKind::kSteps, 1, 0, 0), at(NoiseKind::kSteps, 1, 0, 1));
    for (const double f : {0.003, 0.04, 0.3}) {
        const int n = 2000, threshold = static_cast<int>(f * 65536);
        double worst = 0, squares = 0;
        for (std::int64_t row = 0; row < 60; ++row) {
            int even = 0, independent = 0;
            for (int step = 1; step <= n; ++step) {
                even += at(NoiseKind::kSteps, static_cast<std::uint64_t>(step), row, 0) < threshold;
                independent +=
                    at(NoiseKind::kIndependent, static_cast<std::uint64_t>(step), row, 0) < threshold;
            }
            worst = std::max(worst, std::abs(even - n * f));
            squares += (independent - n * f) * (independent - n * f);
        }
        EXPECT_LE(worst, 4) << f;
        EXPECT_GT(std::sqrt(squares / 60), std::sqrt(n * f * (1 - f)) / 2) << f;
    }
}

}  // namespace
}  // namespace elmo
