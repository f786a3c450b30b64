// The solver against solutions that are known.
#include "linear/trees/svm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/philox.h"

namespace elmo {
namespace {

SvmRows rows_of(const std::vector<std::vector<float>>& dense) {
    SvmRows rows;
    for (const auto& row : dense) {
        float square = 0;
        for (std::size_t c = 0; c < row.size(); ++c)
            if (row[c] != 0) {
                rows.columns.push_back(static_cast<std::int32_t>(c));
                rows.values.push_back(row[c]);
                square += row[c] * row[c];
            }
        rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
        rows.squares.push_back(square);
        rows.own.push_back(0);
        rows.num_columns = static_cast<std::int64_t>(row.size());
    }
    return rows;
}

using Positives = std::vector<std::int32_t>;

// Each list of positives in a lane of its own.
SvmScratch solved(const SvmRows& rows, const std::vector<Positives>& of_lanes, const SvmOptions& options,
                  float weight = 1) {
    std::vector<SvmLane> lanes;
    for (const Positives& positives : of_lanes) lanes.push_back({positives, weight});
    SvmScratch scratch;
    solve_svms(rows, lanes, options, 3, scratch);
    return scratch;
}

TEST(Svm, FindsTheExactSolutionOfTwoOppositeRows) {
    // w^2 / 2 + 2 C (1 - w)^2 is least at w = 4 C / (1 + 4 C).
    const SvmRows rows = rows_of({{1}, {-1}});
    for (const float cost : {0.25f, 1.0f, 8.0f}) {
        const SvmScratch scratch =
            solved(rows, {{0}, {1}}, {.cost = cost, .tolerance = 1e-6f, .most_passes = 10000});
        EXPECT_NEAR(scratch.weights[0].of[0], 4 * cost / (1 + 4 * cost), 1e-4);
        EXPECT_NEAR(scratch.weights[0].of[1], -4 * cost / (1 + 4 * cost), 1e-4);
        EXPECT_NEAR(scratch.bias.of[0], 0, 1e-4);
    }
}

TEST(Svm, APositiveOfWeightThreeIsThreePositives) {
    const SvmOptions exact{.cost = 1, .tolerance = 1e-6f, .most_passes = 10000};
    const SvmScratch weighted = solved(rows_of({{1, 0}, {0.5f, 1}}), {{0}}, exact, 3);
    const SvmScratch repeated = solved(rows_of({{1, 0}, {1, 0}, {1, 0}, {0.5f, 1}}), {{0, 1, 2}}, exact);
    const SvmScratch plain = solved(rows_of({{1, 0}, {0.5f, 1}}), {{0}}, exact);
    for (std::size_t c = 0; c < 2; ++c) {
        EXPECT_NEAR(weighted.weights[c].of[0], repeated.weights[c].of[0], 1e-4);
        EXPECT_GT(std::abs(weighted.weights[c].of[0] - plain.weights[c].of[0]), 0.02f);
    }
    EXPECT_NEAR(weighted.bias.of[0], repeated.bias.of[0], 1e-4);
}

TEST(Svm, WhatOnlyOneRowHasCountsAsAColumnOfItsOwn) {
    // The rows (1, 1, 0) and (1, 0, 2): the last two columns are own.
    SvmRows rows = rows_of({{1}, {1}});
    rows.squares = {2, 5};
    rows.own = {1, 4};
    const SvmOptions exact{.cost = 1, .tolerance = 1e-6f, .most_passes = 10000};
    const SvmScratch merged = solved(rows, {{0}}, exact);
    const SvmScratch plain = solved(rows_of({{1, 1, 0}, {1, 0, 2}}), {{0}}, exact);
    EXPECT_NEAR(merged.weights[0].of[0], plain.weights[0].of[0], 1e-4);
    EXPECT_NEAR(merged.bias.of[0], plain.bias.of[0], 1e-4);
    EXPECT_NEAR(merged.alpha[0].of[0], plain.weights[1].of[0], 1e-4);
    EXPECT_NEAR(-2 * merged.alpha[1].of[0], plain.weights[2].of[0], 1e-4);
}

TEST(Svm, TheGradientOfTheLossIsZeroAtTheSolutionOfEveryLane) {
    std::vector<std::vector<float>> dense;
    std::vector<Positives> positives(kSvmLanes);
    for (std::uint32_t i = 0; i < 60; ++i) {
        const auto noise = philox4x32({i, 0, 0, 0}, 7, 9);
        std::vector<float> row(8);
        for (std::size_t c = 0; c < row.size(); ++c)
            row[c] = static_cast<float>(noise[c % 4] >> (8 * (c / 4)) & 0xff) / 255.0f;
        dense.push_back(row);
        for (std::uint32_t l = 0; l < kSvmLanes; ++l)
            if ((noise[3] >> l) % (2 + l) == 0) positives[l].push_back(static_cast<std::int32_t>(i));
    }
    const SvmScratch scratch =
        solved(rows_of(dense), positives, {.cost = 1, .tolerance = 1e-5f, .most_passes = 100000});
    for (std::size_t l = 0; l < kSvmLanes; ++l) {
        std::vector<double> gradient(8);
        for (std::size_t c = 0; c < 8; ++c) gradient[c] = scratch.weights[c].of[l];
        double of_bias = scratch.bias.of[l];
        for (std::size_t i = 0; i < dense.size(); ++i) {
            double score = scratch.bias.of[l];
            for (std::size_t c = 0; c < 8; ++c)
                score += static_cast<double>(scratch.weights[c].of[l]) * dense[i][c];
            const double y = scratch.sign(i, l), missing = std::max(1 - y * score, 0.0);
            for (std::size_t c = 0; c < 8; ++c) gradient[c] -= 2 * y * missing * dense[i][c];
            of_bias -= 2 * y * missing;
        }
        for (const double g : gradient) EXPECT_NEAR(g, 0, 1e-2) << l;
        EXPECT_NEAR(of_bias, 0, 1e-2) << l;
    }
}

}  // namespace
}  // namespace elmo
