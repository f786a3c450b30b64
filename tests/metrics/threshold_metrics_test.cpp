// Precision, recall and F1 of sets of labels, against sums done by hand.
#include "metrics/threshold_metrics.h"

#include <gtest/gtest.h>

namespace elmo {
namespace {

TEST(ThresholdMetrics, AveragesOverPairsLabelsAndTexts) {
    ThresholdMetrics metrics(5);
    const std::uint32_t first[] = {0, 2}, second[] = {1};
    const ScoredLabel answers[] = {{2, 0}, {1, 1}};
    const SetScores row = metrics.add_row(answers, first);
    EXPECT_DOUBLE_EQ(row.f1, 0.5);
    metrics.add_row(std::span(answers).last(1), second);
    metrics.add_row({}, {});  // counts as a text with 0
    EXPECT_EQ(metrics.positives(), 3);
    EXPECT_EQ(metrics.answered(), 3);
    EXPECT_EQ(metrics.right(), 2);
    EXPECT_DOUBLE_EQ(metrics.micro().f1, 2.0 / 3);
    // Label 0: all right; 1: answered twice, right once; 2: missed; 3 and 4 do not occur.
    EXPECT_DOUBLE_EQ(metrics.macro().precision, 0.5);
    EXPECT_DOUBLE_EQ(metrics.macro().recall, 2.0 / 3);
    EXPECT_DOUBLE_EQ(metrics.macro().f1, (1 + 2.0 / 3) / 3);
    EXPECT_DOUBLE_EQ(metrics.samples().f1, 0.5);
    EXPECT_EQ(metrics.labels()[1].answered, 2);
}

TEST(ThresholdMetrics, WithoutRowsEverythingIsZero) {
    const ThresholdMetrics metrics(3);
    EXPECT_EQ(metrics.micro().f1, 0);
    EXPECT_EQ(metrics.macro().f1, 0);
    EXPECT_EQ(metrics.samples().f1, 0);
}

}  // namespace
}  // namespace elmo
