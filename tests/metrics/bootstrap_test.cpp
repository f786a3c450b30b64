#include "metrics/bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace elmo {
namespace {

TEST(Bootstrap, WeightsArePoissonOne) {
    const std::int64_t rows = 400, replicates = 500, n = rows * replicates;
    double sum = 0, squares = 0;
    std::vector<std::int64_t> seen(9);
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t r = 0; r < replicates; ++r) {
            const int weight = bootstrap_weight(row, r);
            ASSERT_GE(weight, 0);
            ASSERT_LE(weight, 8);
            ++seen[static_cast<std::size_t>(weight)];
            sum += weight;
            squares += (weight - 1.0) * (weight - 1.0);
        }
    const auto count = static_cast<double>(n);
    // Mean 1 with variance 1; the mean of (w - 1)^2 is 1 with variance 3 (fourth central moment 4, less 1).
    EXPECT_NEAR(sum / count, 1, 5 * std::sqrt(1 / count));
    EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(3 / count));
    double p = std::exp(-1.0);
    for (int w = 0; w < 5; p /= ++w)
        EXPECT_NEAR(static_cast<double>(seen[static_cast<std::size_t>(w)]) / count, p,
                    5 * std::sqrt(p * (1 - p) / count) + 1.0 / 65536)
            << w;
}

// What add() and intervals() do, written out.
TEST(Bootstrap, IsWhatTheDefinitionSays) {
    const std::vector<double> q = {1, 2, 4, 8};
    RankingMetrics metrics({1, 2}, q);
    Bootstrap bootstrap(21, {1, 2}, true);
    std::vector<std::vector<MetricSums>> rows;
    for (std::int64_t row = 0; row < 30; ++row) {
        const std::vector<std::int64_t> predicted = {row % 4, (row + 1) % 4}, truth = {(row / 4) % 4};
        metrics.add_row(std::span<const std::int64_t>(predicted), std::span<const std::int64_t>(truth));
        bootstrap.add(metrics.last_row());
        rows.emplace_back(metrics.last_row().begin(), metrics.last_row().end());
    }
    std::vector<std::vector<double>> values(metrics.scores().size());
    for (std::int64_t r = 0; r < 21; ++r) {
        std::vector<MetricSums> sums(2);
        double weight = 0;
        for (std::int64_t row = 0; row < 30; ++row)
            for (int i = 0; i < bootstrap_weight(row, r); ++i) {
                weight += 1;
                for (std::size_t j = 0; j < 2; ++j) sums[j] += rows[static_cast<std::size_t>(row)][j];
            }
        const auto scores = scores_of(metrics.ks(), sums, weight, true);
        for (std::size_t i = 0; i < scores.size(); ++i) values[i].push_back(scores[i].value);
    }
    const auto intervals = bootstrap.intervals(0.9);  // ranks 1 and 19 of 0..20, no interpolation
    ASSERT_EQ(intervals.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::sort(values[i].begin(), values[i].end());
        EXPECT_NEAR(intervals[i].low, values[i][1], 1e-12);
        EXPECT_NEAR(intervals[i].high, values[i][19], 1e-12);
        EXPECT_LT(intervals[i].low, intervals[i].high);
    }
}

// Of one row a third of the replicates are empty.
TEST(Bootstrap, AReplicateWithoutRowsHasNoScores) {
    RankingMetrics metrics({1});
    Bootstrap bootstrap(100, {1}, false);
    const std::vector<std::int64_t> predicted = {3}, truth = {3};
    metrics.add_row(std::span<const std::int64_t>(predicted), std::span<const std::int64_t>(truth));
    bootstrap.add(metrics.last_row());
    const Interval interval = bootstrap.intervals(0.95)[0];
    EXPECT_EQ(interval.low, 1);
    EXPECT_EQ(interval.high, 1);
}

TEST(Bootstrap, TheWidthIsThatOfAMean) {
    // Half of 2,500 rows are hits: the mean has a standard error of 0.01.
    RankingMetrics metrics({1});
    Bootstrap bootstrap(2000, {1}, false);
    for (std::int64_t row = 0; row < 2500; ++row) {
        const std::vector<std::int64_t> predicted = {row % 2}, truth = {0};
        metrics.add_row(std::span<const std::int64_t>(predicted), std::span<const std::int64_t>(truth));
        bootstrap.add(metrics.last_row());
    }
    const Interval interval = bootstrap.intervals(0.95)[0];
    // A 2.5 % quantile of n normal values has a standard error of sqrt(p (1 - p) / n) / density(1.96).
    const double error = 5 * std::sqrt(0.025 * 0.975 / 2000) / 0.0584 * 0.01;
    EXPECT_NEAR(interval.low, 0.5 - 0.0196, error);
    EXPECT_NEAR(interval.high, 0.5 + 0.0196, error);
}

TEST(Bootstrap, NoReplicatesNoIntervals) {
    Bootstrap bootstrap(0, {1}, false);
    bootstrap.add(std::vector<MetricSums>(1));
    EXPECT_TRUE(bootstrap.intervals(0.95).empty());
}

}  // namespace
}  // namespace elmo
