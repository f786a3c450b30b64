#include "train/schedule.h"

#include <gtest/gtest.h>

#include "elmo/error.h"

namespace elmo {
namespace {

TEST(Schedule, WarmsUpFromTheFirstStep) {
    const Schedule s{10, 100, Decay::kCosine};
    for (int step = 1; step <= 10; ++step) EXPECT_DOUBLE_EQ(s.factor(step), step / 10.0);
    EXPECT_DOUBLE_EQ(s.factor(11), 1.0);
    EXPECT_LT(s.factor(12), 1.0);
}

TEST(Schedule, NoStepHasRateZeroAndDecayNeverRises) {
    for (const Decay decay : {Decay::kCosine, Decay::kLinear, Decay::kConstant})
        for (const std::int64_t total : {1, 2, 7, 100})
            for (const std::int64_t warmup : {0, 1, 5, 100}) {
                const Schedule s{std::min<std::int64_t>(warmup, total), total, decay};
                double previous = 1;
                for (std::int64_t step = 1; step <= total; ++step) {
                    EXPECT_GT(s.factor(step), 0) << total << " " << warmup << " " << step;
                    EXPECT_LE(s.factor(step), 1);
                    if (step > s.warmup) {
                        EXPECT_LE(s.factor(step), previous);
                        previous = s.factor(step);
                    }
                }
            }
}

TEST(Schedule, NoiseOfAScoreIsThatOfAShare) {
    EXPECT_DOUBLE_EQ(score_noise(50, 100), 5);
    EXPECT_DOUBLE_EQ(score_noise(90, 900), 1);
    EXPECT_EQ(score_noise(0, 10), 0);
    EXPECT_EQ(score_noise(100, 10), 0);
    EXPECT_EQ(score_noise(-1, 10), 0);  // nothing was validated yet
    EXPECT_EQ(score_noise(50, 0), 0);
}

TEST(Schedule, ReachesZeroJustAfterTheLastStep) {
    for (const Decay decay : {Decay::kCosine, Decay::kLinear})
        EXPECT_NEAR((Schedule{5, 50, decay}.factor(51)), 0, 1e-15);
    EXPECT_NEAR((Schedule{0, 50, Decay::kCosine}.factor(26)), 0.5, 1e-12);
    EXPECT_EQ((Schedule{5, 50, Decay::kConstant}.factor(50)), 1);
}

TEST(Schedule, AutomaticWarmupIsATwentiethAndAtMost500) {
    Config config;
    EXPECT_EQ(make_schedule(config, 1000).warmup, 50);
    EXPECT_EQ(make_schedule(config, 1000000).warmup, 500);
    EXPECT_EQ(make_schedule(config, 3).warmup, 0);
    config.warmup_steps = 7;
    EXPECT_EQ(make_schedule(config, 3).warmup, 3);
    config.schedule = "cubic";
    EXPECT_THROW(make_schedule(config, 3), ConfigError);
}

}  // namespace
}  // namespace elmo
