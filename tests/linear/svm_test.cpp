// The solver against solutions that are known.
#include "linear/svm.h"

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
        rows.num_columns = static_cast<std::int64_t>(row.size());
    }
    return rows;
}

TEST(Svm, FindsTheExactSolutionOfTwoOppositeRows) {
    // w^2 / 2 + 2 C (1 - w)^2 is least at w = 4 C / (1 + 4 C).
    const SvmRows rows = rows_of({{1}, {-1}});
    for (const float cost : {0.25f, 1.0f, 8.0f}) {
        SvmOptions options{.cost = cost, .tolerance = 1e-6f, .most_passes = 10000};
        SvmScratch scratch;
        const std::vector<std::int32_t> positives = {0};
        solve_svm(rows, positives, options, 1, scratch);
        EXPECT_NEAR(scratch.weights[0], 4 * cost / (1 + 4 * cost), 1e-4);
        EXPECT_NEAR(scratch.bias, 0, 1e-4);
    }
}

TEST(Svm, TheGradientOfTheLossIsZeroAtTheSolution) {
    std::vector<std::vector<float>> dense;
    std::vector<std::int32_t> positives;
    for (std::uint32_t i = 0; i < 60; ++i) {
        const auto noise = philox4x32({i, 0, 0, 0}, 7, 9);
        std::vector<float> row(8);
        for (std::size_t c = 0; c < row.size(); ++c)
            row[c] = static_cast<float>(noise[c % 4] >> (8 * (c / 4)) & 0xff) / 255.0f;
        dense.push_back(row);
        if (noise[3] % 4 == 0) positives.push_back(static_cast<std::int32_t>(i));
    }
    SvmScratch scratch;
    solve_svm(rows_of(dense), positives, {.cost = 1, .tolerance = 1e-5f, .most_passes = 100000}, 3, scratch);
    std::vector<double> gradient(scratch.weights.begin(), scratch.weights.end());
    double of_bias = scratch.bias;
    for (std::size_t i = 0; i < dense.size(); ++i) {
        double score = scratch.bias;
        for (std::size_t c = 0; c < 8; ++c) score += static_cast<double>(scratch.weights[c]) * dense[i][c];
        const double y = scratch.sign[i], missing = std::max(1 - y * score, 0.0);
        for (std::size_t c = 0; c < 8; ++c) gradient[c] -= 2 * y * missing * dense[i][c];
        of_bias -= 2 * y * missing;
    }
    for (const double g : gradient) EXPECT_NEAR(g, 0, 1e-2);
    EXPECT_NEAR(of_bias, 0, 1e-2);
}

}  // namespace
}  // namespace elmo
