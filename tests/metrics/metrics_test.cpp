#include "metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "elmo/error.h"

namespace elmo {
namespace {

using Labels = std::vector<std::int64_t>;

double value(const RankingMetrics& metrics, const std::string& name) {
    for (const auto& score : metrics.scores())
        if (score.name() == name) return score.value;
    ADD_FAILURE() << "no " << name;
    return NAN;
}

void add(RankingMetrics& metrics, const Labels& predicted, const Labels& truth) {
    metrics.add_row(std::span<const std::int64_t>(predicted), std::span<const std::int64_t>(truth));
}

const double kD2 = 1 / std::log2(3.0), kD3 = 0.5;  // discounts of ranks 2 and 3

TEST(RankingMetrics, ByHand) {
    // q of labels 0..4.
    const std::vector<double> q = {1, 2, 4, 8, 16};
    RankingMetrics metrics({1, 3}, q);
    add(metrics, {3, 0, 1}, {1, 3, 4});  // hits at 1 and 3
    add(metrics, {2, 0, 4}, {0});        // hit at 2
    EXPECT_DOUBLE_EQ(value(metrics, "P@1"), 0.5);
    EXPECT_DOUBLE_EQ(value(metrics, "P@3"), (2.0 / 3 + 1.0 / 3) / 2);
    EXPECT_DOUBLE_EQ(value(metrics, "R@1"), (1.0 / 3 + 0) / 2);
    EXPECT_DOUBLE_EQ(value(metrics, "R@3"), (2.0 / 3 + 1) / 2);
    EXPECT_DOUBLE_EQ(value(metrics, "nDCG@1"), 0.5);
    EXPECT_DOUBLE_EQ(value(metrics, "nDCG@3"), ((1 + kD3) / (1 + kD2 + kD3) + kD2 / 1) / 2);
    EXPECT_DOUBLE_EQ(value(metrics, "PSP@1"), 8.0 / (16 + 1));
    EXPECT_DOUBLE_EQ(value(metrics, "PSP@3"), (8.0 + 2 + 1) / (16 + 8 + 2 + 1));
    EXPECT_DOUBLE_EQ(value(metrics, "PSnDCG@1"), 8.0 / 17);
    EXPECT_DOUBLE_EQ(value(metrics, "PSnDCG@3"), ((8 + 2 * kD3) / (1 + kD2 + kD3) + 1 * kD2) /
                                                     ((16 + 8 * kD2 + 2 * kD3) / (1 + kD2 + kD3) + 1));
    std::string order;
    for (const auto& score : metrics.scores()) order += score.name() + " ";
    EXPECT_EQ(order, "P@1 P@3 nDCG@1 nDCG@3 PSP@1 PSP@3 PSnDCG@1 PSnDCG@3 R@1 R@3 ");
}

TEST(RankingMetrics, RowsWithoutLabelsCountAndMissingPredictionsAreMisses) {
    RankingMetrics metrics({1, 5});
    add(metrics, {0, 1}, {0, 1});
    add(metrics, {0, 1}, {});
    add(metrics, {}, {3});
    add(metrics, {}, {});
    EXPECT_EQ(metrics.num_rows(), 4);
    EXPECT_DOUBLE_EQ(value(metrics, "P@1"), 0.25);
    EXPECT_DOUBLE_EQ(value(metrics, "P@5"), 2.0 / 5 / 4);
    EXPECT_DOUBLE_EQ(value(metrics, "nDCG@5"), 0.25);
    EXPECT_DOUBLE_EQ(value(metrics, "R@5"), 0.25);
    EXPECT_EQ(metrics.scores().size(), 6u);  // no PSP without propensities
}

TEST(RankingMetrics, NothingIsZeroAndNotNan) {
    const std::vector<double> q = {1};
    RankingMetrics metrics({3}, q);
    for (const auto& score : metrics.scores()) EXPECT_EQ(score.value, 0.0);
    add(metrics, {0}, {});
    for (const auto& score : metrics.scores()) EXPECT_EQ(score.value, 0.0);
}

TEST(RankingMetrics, OnlyTheLargestKIsLookedAt) {
    RankingMetrics metrics({2, 1});
    add(metrics, {5, 6, 7}, {7});
    EXPECT_EQ(value(metrics, "R@2"), 0.0);
    EXPECT_EQ(metrics.largest_k(), 2);
}

TEST(RankingMetrics, OverloadsAndMergeAgree) {
    const std::vector<double> q = {1, 2, 4, 8, 16};
    RankingMetrics whole({1, 3}, q), left({1, 3}, q), right({1, 3}, q);
    const Labels predicted = {3, 0, 1}, truth = {1, 3, 4};
    const std::vector<ScoredLabel> scored = {{3, 3}, {2, 0}, {1, 1}};
    const std::vector<std::int32_t> narrow_truth = {1, 3, 4};
    add(whole, predicted, truth);
    whole.add_row(std::span<const std::int64_t>(predicted), std::span<const std::int32_t>(narrow_truth));
    whole.add_row(std::span<const ScoredLabel>(scored), std::span<const std::int64_t>(truth));
    whole.add_row(std::span<const ScoredLabel>(scored), std::span<const std::int32_t>(narrow_truth));
    add(left, predicted, truth);
    add(left, predicted, truth);
    add(right, predicted, truth);
    add(right, predicted, truth);
    left.merge(right);
    EXPECT_EQ(left.num_rows(), 4);
    const auto a = whole.scores(), b = left.scores();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_DOUBLE_EQ(a[i].value, b[i].value) << a[i].name();
}

TEST(RankingMetrics, Refuses) {
    EXPECT_THROW(RankingMetrics({}), ConfigError);
    EXPECT_THROW(RankingMetrics({0}), ConfigError);
    const std::vector<double> q = {1, 2};
    RankingMetrics metrics({1}, q);
    EXPECT_THROW(add(metrics, {0}, {0, 2}), DataError);
    EXPECT_THROW(add(metrics, {0}, {-1}), DataError);
}

TEST(RemoveFiltered, KeepsOrderAndCuts) {
    const std::vector<ScoredLabel> ranked = {{5, 9}, {4, 2}, {3, 7}, {2, 1}, {1, 3}};
    const Labels filtered = {2, 3, 100};
    auto kept = ranked;
    remove_filtered(kept, std::span<const std::int64_t>(filtered), 2);
    EXPECT_EQ(kept, (std::vector<ScoredLabel>{{5, 9}, {3, 7}}));
    kept = ranked;
    remove_filtered(kept, std::span<const std::int32_t>(), 10);
    EXPECT_EQ(kept, ranked);
    const std::vector<std::int32_t> all = {1, 2, 3, 7, 9};
    remove_filtered(kept, std::span<const std::int32_t>(all), 10);
    EXPECT_TRUE(kept.empty());
}

TEST(Propensity, ByHand) {
    const Labels counts = {0, 1, 10};
    const auto q = inverse_propensities(counts, 1000, 0.55, 1.5);
    const double c = (std::log(1000.0) - 1) * std::pow(2.5, 0.55);
    EXPECT_DOUBLE_EQ(q[0], 1 + c / std::pow(1.5, 0.55));
    EXPECT_NEAR(q[1], std::log(1000.0), 1e-12);
    EXPECT_DOUBLE_EQ(q[2], 1 + c / std::pow(11.5, 0.55));
    EXPECT_THROW(inverse_propensities(counts, 0, 0.55, 1.5), ConfigError);
    EXPECT_THROW(inverse_propensities(counts, 10, 0.55, 0), ConfigError);
    EXPECT_THROW(inverse_propensities(counts, 10, NAN, 1), ConfigError);
}

}  // namespace
}  // namespace elmo
