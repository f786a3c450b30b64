// Scores of rankings from outside: equal to RankingMetrics, and what is refused.
#include <gtest/gtest.h>

#include "elmo/error.h"
#include "metrics/metrics.h"

namespace elmo {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(ScoreRankings, AreThoseOfTheRows) {
    const std::vector<double> q = {1, 2, 4, 8, 16};
    const Numbers predicted = {3, 0, 1, 2, 0, 4}, predicted_offsets = {0, 3, 6, 6};
    const Numbers truth = {4, 1, 3, 0, 2}, truth_offsets = {0, 3, 4, 5};  // in any order
    const auto scores = score_rankings({predicted_offsets, predicted}, {truth_offsets, truth}, {1, 3}, q);
    RankingMetrics metrics({1, 3}, q);
    const auto add = [&](const Numbers& ranked, const Numbers& labels) {
        metrics.add_row(std::span<const std::int64_t>(ranked), std::span<const std::int64_t>(labels));
    };
    add({3, 0, 1}, {1, 3, 4});
    add({2, 0, 4}, {0});
    add({}, {2});
    const auto expected = metrics.scores();
    ASSERT_EQ(scores.size(), expected.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
        EXPECT_EQ(scores[i].name(), expected[i].name());
        EXPECT_EQ(scores[i].value, expected[i].value);
    }
    EXPECT_EQ(score_rankings({predicted_offsets, predicted}, {truth_offsets, truth}, {1}).size(), 3u);
}

TEST(ScoreRankings, Refuses) {
    const Numbers two = {0, 1, 2}, one = {0, 2}, labels = {0, 1}, twice = {1, 1}, negative = {-1, 1};
    const Numbers falling = {0, 2, 1}, beyond = {0, 1, 3};
    EXPECT_NO_THROW(score_rankings({two, labels}, {two, labels}, {1}));
    EXPECT_THROW(score_rankings({one, labels}, {two, labels}, {1}), DataError);
    EXPECT_THROW(score_rankings({one, twice}, {one, labels}, {1}), DataError);
    EXPECT_THROW(score_rankings({one, labels}, {one, twice}, {1}), DataError);
    EXPECT_THROW(score_rankings({one, negative}, {one, labels}, {1}), DataError);
    EXPECT_THROW(score_rankings({falling, labels}, {two, labels}, {1}), DataError);
    EXPECT_THROW(score_rankings({two, labels}, {beyond, labels}, {1}), DataError);
    EXPECT_THROW(score_rankings({{}, {}}, {two, labels}, {1}), DataError);
    EXPECT_THROW(score_rankings({two, labels}, {two, labels}, {}), ConfigError);
}

}  // namespace
}  // namespace elmo
