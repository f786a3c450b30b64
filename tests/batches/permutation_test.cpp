#include "batches/permutation.h"

#include <gtest/gtest.h>

#include <vector>

namespace elmo {
namespace {

TEST(Permutation, IsABijectionOfEverySize) {
    for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 1009, 4096, 4097, 65537})
        for (const std::int64_t epoch : {0, 1, 17}) {
            const Permutation order(42, epoch, size);
            std::vector<bool> seen(size);
            for (std::int64_t i = 0; i < size; ++i) {
                const std::int64_t row = order(i);
                ASSERT_GE(row, 0);
                ASSERT_LT(row, size);
                ASSERT_FALSE(seen[row]) << size << ": " << row << " twice";
                seen[row] = true;
            }
        }
}

TEST(Permutation, DependsOnSeedAndEpochAlone) {
    const std::int64_t size = 1000;
    const Permutation a(1, 0, size), again(1, 0, size), next(1, 1, size), other(2, 0, size);
    std::int64_t same_next = 0, same_other = 0, fixed = 0;
    for (std::int64_t i = 0; i < size; ++i) {
        EXPECT_EQ(a(i), again(i));
        same_next += a(i) == next(i);
        same_other += a(i) == other(i);
        fixed += a(i) == i;
    }
    // A random permutation has one fixed point on average; twenty has a chance below 1e-18.
    EXPECT_LT(same_next, 20);
    EXPECT_LT(same_other, 20);
    EXPECT_LT(fixed, 20);
}

// Every row should come at every position equally often: the mean of 4,000 epochs' first rows.
TEST(Permutation, SpreadsRowsOverPositions) {
    const std::int64_t size = 10, epochs = 10000;
    std::vector<std::vector<std::int64_t>> times(size, std::vector<std::int64_t>(size));
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
        const Permutation order(7, epoch, size);
        for (std::int64_t i = 0; i < size; ++i) ++times[i][order(i)];
    }
    // Binomial(10000, 0.1): mean 1000, standard deviation 30; six of them for a hundred cells.
    for (const auto& row : times)
        for (const std::int64_t count : row) EXPECT_NEAR(static_cast<double>(count), 1000, 180);
}

}  // namespace
}  // namespace elmo
