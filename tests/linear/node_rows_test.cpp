// Columns that say the same are one to the solver: the weights that come out are those of all columns.
#include "linear/trees/node_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "numerics/philox.h"

namespace elmo::node_rows_test {
namespace {

constexpr std::int32_t kWords = 30, kParts = 4;  // a word is several columns: itself and its letters

float weight_of(std::int32_t column) {
    return 1 + 0.1f * static_cast<float>(column % 7);
}

struct Texts {
    SparseRows rows;
    std::vector<float> weights;
    std::vector<std::int32_t> positives;
};

// Rows of random words; the first word of a row may occur twice in it, and each row has a word of its own.
Texts texts_of(std::uint32_t count) {
    Texts texts;
    for (std::int32_t c = 0; c < kWords * kParts + static_cast<std::int32_t>(count) * 2; ++c)
        texts.weights.push_back(weight_of(c));
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto noise = philox4x32({i, 0, 0, 0}, 1, 2);
        std::map<std::int32_t, float> entries;
        for (int k = 0; k < 4; ++k)
            for (std::int32_t part = 0; part < kParts; ++part)
                entries[static_cast<std::int32_t>(noise[static_cast<std::size_t>(k)] % kWords) * kParts +
                        part] = k == 0 && noise[0] % 3 == 0 ? 1.7f : 1.0f;
        for (std::int32_t part = 0; part < 2; ++part)
            entries[kWords * kParts + static_cast<std::int32_t>(i) * 2 + part] = 1;
        double length = 0;
        for (auto& [column, value] : entries) {
            value *= weight_of(column);
            length += static_cast<double>(value) * value;
        }
        for (const auto& [column, value] : entries) {
            texts.rows.columns.push_back(column);
            texts.rows.values.push_back(value / static_cast<float>(std::sqrt(length)));
        }
        texts.rows.offsets.push_back(static_cast<std::int64_t>(texts.rows.columns.size()));
        if (noise[1] % 3 == 0) texts.positives.push_back(static_cast<std::int32_t>(i));
    }
    return texts;
}

// The rows as they are, each column one.
NodeRows ungrouped(const Texts& texts) {
    NodeRows node;
    node.rows.offsets = texts.rows.offsets;
    node.rows.columns = texts.rows.columns;
    node.rows.values = texts.rows.values;
    node.rows.num_columns = static_cast<std::int64_t>(texts.weights.size());
    for (std::int64_t row = 0; row < texts.rows.rows(); ++row) {
        float square = 0;
        for (const float value : texts.rows.values_of(row)) square += value * value;
        node.rows.squares.push_back(square);
        node.rows.own.push_back(0);
        node.own.offsets.push_back(0);
    }
    for (std::int32_t c = 0; c < node.rows.num_columns; ++c) {
        node.members.push_back(c);
        node.begin.push_back(c + 1);
    }
    node.shares.assign(node.members.size(), 1);
    node.largest = node.shares;
    return node;
}

std::map<std::int32_t, float> weights_of(const NodeRows& node, const std::vector<std::int32_t>& positives) {
    const std::vector<SvmLane> lanes = {{positives}};
    SvmScratch scratch;
    solve_svms(node.rows, lanes, {.cost = 1, .tolerance = 1e-5f, .most_passes = 10000}, 1, scratch);
    std::map<std::int32_t, float> weights;
    visit_weights(node, scratch, 1, 0.01f, [&](std::int32_t column, std::size_t lane, float weight) {
        EXPECT_EQ(lane, 0u);
        EXPECT_EQ(weights.count(column), 0u);
        weights[column] = weight;
    });
    return weights;
}

TEST(NodeRows, TheWeightsAreThoseOfAllColumns) {
    const Texts texts = texts_of(80);
    std::vector<std::int32_t> all(80);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    GatherScratch scratch;
    for (int again = 0; again < 2; ++again) {  // a scratch that was used is as good as a new one
        const NodeRows node = gather_rows(texts.rows, all, texts.weights, scratch);
        EXPECT_EQ(node.rows.num_columns, kWords);
        EXPECT_EQ(node.own.columns.size(), 160u);
        const auto expected = weights_of(ungrouped(texts), texts.positives);
        const auto found = weights_of(node, texts.positives);
        EXPECT_GT(expected.size(), 100u);
        for (const auto& [column, weight] : expected) {
            if (std::abs(weight) < 0.011f) continue;
            ASSERT_EQ(found.count(column), 1u) << column;
            EXPECT_NEAR(found.at(column), weight, 1e-3) << column;
        }
    }
}

TEST(NodeRows, ColumnsOfTheSameRowsWithOtherCountsStayApart) {
    SparseRows rows;  // columns 0 and 1 are in both rows, 1 twice in the second: 1.7 times the weight
    rows.columns = {0, 1, 0, 1};
    rows.values = {0.5f, 0.5f, 0.3f, 0.51f};
    rows.offsets = {0, 2, 4};
    GatherScratch scratch;
    const std::vector<float> weights = {1, 1};
    const std::vector<std::int32_t> both = {0, 1};
    EXPECT_EQ(gather_rows(rows, both, weights, scratch).rows.num_columns, 2);
    rows.values = {0.5f, 0.5f, 0.3f, 0.3f};
    EXPECT_EQ(gather_rows(rows, both, weights, scratch).rows.num_columns, 1);
}

}  // namespace
}  // namespace elmo::node_rows_test
