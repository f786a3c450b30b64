// The nearest texts and their votes.
#include "linear/neighbours.h"

#include <gtest/gtest.h>

namespace elmo {
namespace {

// Three texts: the first two share column 0, the third has column 2 only; labels 5; 5 and 7; 9.
struct Texts {
    SparseRows rows;
    std::vector<std::int64_t> offsets = {0, 1, 3, 4};
    std::vector<std::uint32_t> values = {5, 5, 7, 9};
    std::vector<std::int64_t> all = {0, 1, 2};
    LabelMatrix matrix;

    Texts() {
        rows.columns = {0, 0, 1, 2};
        rows.values = {1, 0.6f, 0.8f, 1};
        rows.offsets = {0, 1, 3, 4};
        matrix = {offsets, values};
    }
    LabelsOfRows labels() const { return {matrix, all}; }
};

using Votes = std::vector<std::pair<std::int32_t, float>>;

Votes votes_for(const Neighbours& index, std::vector<std::int32_t> columns, std::vector<float> values,
                float power) {
    std::vector<float> likeness = {7};  // of another use
    Nearest nearest = {{1.0f, 0}};
    Votes votes = {{3, 1.0f}};
    find_nearest(index, columns, values, likeness, nearest);
    count_votes(index, nearest, power, votes);
    return votes;
}

TEST(Neighbours, VoteWithTheirLikeness) {
    const Texts texts;
    const Neighbours index = index_rows(texts.rows, texts.labels(), 3, {.share = 0.5f});
    Votes votes = votes_for(index, {0}, {1}, 1);  // like text 0 by 1, text 1 by 0.6, text 2 not at all
    ASSERT_EQ(votes.size(), 2u);
    EXPECT_EQ(votes[0].first, 5);
    EXPECT_NEAR(votes[0].second, 1, 1e-6);
    EXPECT_EQ(votes[1].first, 7);
    EXPECT_NEAR(votes[1].second, 0.6 / 1.6, 2e-3);
    EXPECT_NEAR(votes_for(index, {0}, {1}, 2)[1].second, 0.36 / 1.36, 2e-3);
    EXPECT_TRUE(votes_for(index, {}, {}, 1).empty());
}

TEST(Neighbours, TextsThatAreLeftOutDoNotVote) {
    const Texts texts;
    const std::vector<std::uint8_t> left_out = {0, 1, 0};
    const Neighbours index = index_rows(texts.rows, texts.labels(), 3, {}, left_out);
    EXPECT_EQ(index.texts(), 2);
    EXPECT_EQ(votes_for(index, {0, 1, 2}, {0.1f, 0.1f, 1}, 1).size(), 2u);
    EXPECT_EQ(votes_for(index, {2}, {1}, 1), (Votes{{9, 1.0f}}));
    EXPECT_EQ(rows_of_labels(texts.labels(), 10, left_out).of(5).size(), 1u);
    EXPECT_EQ(rows_of_labels(texts.labels(), 10).of(5).size(), 2u);
}

TEST(Neighbours, TheHundredNearestOfManyVote) {
    SparseRows rows;  // text i is like the asked one by i / 1000
    std::vector<std::int64_t> offsets = {0}, all;
    std::vector<std::uint32_t> values;
    for (std::int64_t i = 0; i < 1000; ++i) {
        rows.columns.push_back(0);
        rows.values.push_back(static_cast<float>((i * 617) % 1000) / 1000);
        rows.offsets.push_back(i + 1);
        values.push_back(rows.values.back() >= 0.9f ? 1 : 0);
        offsets.push_back(i + 1);
        all.push_back(i);
    }
    const LabelMatrix matrix{offsets, values};
    const Neighbours index = index_rows(rows, {matrix, all}, 1, {});
    const Votes votes = votes_for(index, {0}, {1}, 0);
    // Values have eight bits: a few beside the bound may be off.
    EXPECT_NEAR(votes.back().second, 1, 0.05);
    EXPECT_EQ(votes.back().first, 1);
}

TEST(Neighbours, MixIntoProbabilitiesByTheirShare) {
    Votes probabilities = {{2, 0.5f}, {4, 0.25f}};
    mix_votes(Votes{{1, 1.0f}, {4, 0.5f}, {6, 0.2f}}, 0.2f, probabilities);
    ASSERT_EQ(probabilities.size(), 4u);
    const Votes expected = {{1, 0.2f}, {2, 0.4f}, {4, 0.3f}, {6, 0.04f}};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(probabilities[i].first, expected[i].first);
        EXPECT_NEAR(probabilities[i].second, expected[i].second, 1e-6);
    }
}

}  // namespace
}  // namespace elmo
