#include "metrics/reliability.h"

#include <gtest/gtest.h>

namespace elmo {
namespace {

TEST(Reliability, HasTheMeanAndTheRightShareOfEachTenth) {
    Reliability reliability;
    reliability.add(0.25, true);
    reliability.add(0.28, false);
    reliability.add(1, true);
    reliability.add(0.95, true);
    reliability.add(0, false);
    const auto bins = reliability.bins();
    ASSERT_EQ(bins.size(), 3u);
    EXPECT_EQ(bins[0].pairs, 1);
    EXPECT_EQ(bins[0].right, 0);
    EXPECT_DOUBLE_EQ(bins[1].from, 0.2);
    EXPECT_DOUBLE_EQ(bins[1].to, 0.3);
    EXPECT_DOUBLE_EQ(bins[1].mean, 0.265);
    EXPECT_DOUBLE_EQ(bins[1].right, 0.5);
    EXPECT_EQ(bins[2].pairs, 2);  // 1 is in the last tenth
    EXPECT_DOUBLE_EQ(bins[2].to, 1);
}

TEST(Reliability, HasNoBinsOfNothing) {
    EXPECT_TRUE(Reliability().bins().empty());
}

}  // namespace
}  // namespace elmo
