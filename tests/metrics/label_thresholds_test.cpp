// Thresholds of single labels: where they help, where they are left alone.
#include "metrics/label_thresholds.h"

#include <gtest/gtest.h>

namespace elmo {
namespace {

// Label 0 is right above a score of 2, label 1 already above -2; label 2 is true in one text only.
std::vector<JudgedRow> two_kinds(int texts) {
    std::vector<JudgedRow> rows;
    for (int i = 0; i < texts; ++i) {
        JudgedRow& row = rows.emplace_back();
        const auto at = static_cast<float>(i) / static_cast<float>(texts);
        const float high = 1 + 2 * at, low = -3 + 2 * at;  // 1 to 3, -3 to -1
        row.ranked = {{high, 0}, {low, 1}};
        if (high > 2) row.truth.push_back(0);
        if (low > -2) row.truth.push_back(1);
        if (i == 0) row.truth.push_back(2);
    }
    return rows;
}

TEST(LabelThresholds, EachLabelGetsItsOwn) {
    const std::vector<JudgedRow> rows = two_kinds(2000);
    const ScoreThresholds fitted = fit_label_thresholds(rows);
    EXPECT_NEAR(fitted.of(0), 2, 0.05);
    EXPECT_NEAR(fitted.of(1), -2, 0.05);
    EXPECT_FALSE(fitted.own.contains(2));  // one text says nothing
    EXPECT_EQ(fitted.of(2), fitted.common);

    const ThresholdGain gain = measure_label_thresholds(rows, 3);
    EXPECT_GT(gain.micro_own.f1, 0.98);
    EXPECT_LT(gain.micro_common.f1, 0.8);
    EXPECT_GT(gain.macro_own.f1, gain.macro_common.f1);
}

TEST(LabelThresholds, FewTextsMoveAThresholdLittle) {
    const ScoreThresholds few = fit_label_thresholds(two_kinds(8)),
                          many = fit_label_thresholds(two_kinds(800));
    EXPECT_LT(std::abs(few.of(0) - few.common), 0.6 * std::abs(many.of(0) - many.common));
}

TEST(LabelThresholds, HalvesDoNotKnowEachOther) {
    std::vector<JudgedRow> rows = two_kinds(200);
    for (std::size_t i = 1; i < rows.size(); i += 2) rows[i].truth.clear();
    EXPECT_TRUE(fit_label_thresholds(rows, {1}).own.empty());
    EXPECT_EQ(fit_label_thresholds(rows, {0}).own.size(), 2u);
}

}  // namespace
}  // namespace elmo
