// Collapse: each way of noticing it, by itself and in a run; and what a run does then.
#include "train/collapse.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "elmo/elmo.h"
#include "quiet.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

std::vector<float> rows_of(int rows, int width, float common, float own) {
    std::vector<float> x(static_cast<std::size_t>(rows * width), common);
    for (int row = 0; row < rows; ++row) x[static_cast<std::size_t>(row * width + row % width)] += own;
    return x;
}

TEST(Collapse, VectorsThatDoNotDiffer) {
    EXPECT_FALSE(judge_vectors(rows_of(16, 16, 0, 1), 16));
    EXPECT_NEAR(mean_cosine(rows_of(16, 16, 0, 1), 16), 0, 1e-6);
    EXPECT_FALSE(judge_vectors(rows_of(16, 16, 1, 0.5f), 16));
    EXPECT_TRUE(judge_vectors(rows_of(16, 16, 1, 0.01f), 16));
    EXPECT_TRUE(judge_vectors(rows_of(16, 16, 0, 0), 16));
    EXPECT_FALSE(judge_vectors(rows_of(7, 16, 1, 0), 7)) << "too few to judge";
}

TEST(Collapse, AProbeHoldsDifferentTextsOnly) {
    const std::vector<std::int32_t> tokens = {5, 6, 5, 6, 7, 8}, offsets = {0, 2, 4, 4, 5, 6};
    const ProbeTexts probe = choose_probe(tokens, offsets);
    EXPECT_EQ(probe.tokens, (std::vector<std::int32_t>{5, 6, 7, 8}));
    EXPECT_EQ(probe.offsets, (std::vector<std::int32_t>{0, 2, 3, 4}));
    EXPECT_EQ(choose_probe(tokens, offsets, 1).size(), 1);
}

// 200 rows whose best label is one of `labels`; the most frequent label is right for `right` of them.
TopLabels rows_with(int rows, int labels, int right) {
    TopLabels top;
    for (int row = 0; row < rows; ++row) top.add(row % labels, row < right);
    return top;
}

TEST(Collapse, RankingsThatAreAllTheSame) {
    EXPECT_TRUE(rows_with(200, 1, 24).judge(12));
    EXPECT_FALSE(rows_with(200, 1, 24).judge(40)) << "better than the most frequent label";
    EXPECT_FALSE(rows_with(200, 1, 190).judge(95)) << "one label is nearly always right";
    EXPECT_FALSE(rows_with(200, 7, 24).judge(12)) << "different labels";
    EXPECT_FALSE(rows_with(20, 1, 2).judge(10)) << "too few to judge";
}

TEST(Collapse, ALossThatHasLeftItsCourse) {
    LossCourse course;
    for (const double loss : {700.0, 20.0, 10.0, 11.0, 9.0}) EXPECT_FALSE(course.judge(300, loss));
    EXPECT_FALSE(course.judge(350, 80));
    EXPECT_FALSE(course.judge(400, 90));
    EXPECT_TRUE(course.judge(450, 100));
    LossCourse spike;
    for (const double loss : {700.0, 10.0, 90.0, 10.0, 90.0, 90.0, 10.0})
        EXPECT_FALSE(spike.judge(300, loss));
}

}  // namespace
}  // namespace elmo
