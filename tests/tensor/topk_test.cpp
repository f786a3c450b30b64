#include "tensor/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace elmo {
namespace {

using Ranking = std::vector<ScoredLabel>;

// The definition: everything that is not NaN, sorted, cut.
Ranking reference(const std::vector<float>& scores, std::int64_t first_label, std::int64_t k) {
    Ranking all;
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (!std::isnan(scores[i])) all.push_back({scores[i], first_label + static_cast<std::int64_t>(i)});
    std::stable_sort(all.begin(), all.end(),
                     [](const ScoredLabel& a, const ScoredLabel& b) { return a.score > b.score; });
    if (static_cast<std::int64_t>(all.size()) > k) all.resize(static_cast<std::size_t>(k));
    return all;
}

TEST(TopK, TiesGoToTheLowerLabel) {
    TopK top(2);
    for (const std::int64_t label : {9, 4, 7, 2}) top.offer(1.0f, label);
    EXPECT_EQ(top.sorted(), (Ranking{{1.0f, 2}, {1.0f, 4}}));
    TopK zeros(1);
    zeros.offer(0.0f, 5);
    zeros.offer(-0.0f, 3);
    EXPECT_EQ(zeros.sorted()[0].label, 3);
}

TEST(TopK, NanNeverEnters) {
    TopK top(3);
    top.offer(NAN, 0);
    EXPECT_EQ(top.size(), 0);
    const std::vector<float> scores = {NAN, -INFINITY, NAN, 1.0f, NAN};
    top.offer_block(scores, 10);
    EXPECT_EQ(top.sorted(), (Ranking{{1.0f, 13}, {-INFINITY, 11}}));
    top.offer(INFINITY, 1);
    top.offer_block(std::vector<float>(300, NAN), 100);
    EXPECT_EQ(top.sorted(), (Ranking{{INFINITY, 1}, {1.0f, 13}, {-INFINITY, 11}}));
}

TEST(TopK, ZeroAndLargerThanAll) {
    TopK none(0);
    none.offer(1.0f, 1);
    none.offer_block(std::vector<float>{1, 2, 3}, 0);
    EXPECT_TRUE(none.sorted().empty());
    TopK many(10);
    many.offer_block(std::vector<float>{1, 3, 2}, 5);
    EXPECT_EQ(many.sorted(), (Ranking{{3, 6}, {2, 7}, {1, 5}}));
    many.clear();
    EXPECT_EQ(many.size(), 0);
}

TEST(TopK, MadeOfARankingItGoesOn) {
    TopK top(3, {{1, 9}, {2, 7}, {2, 4}});
    EXPECT_EQ(top.sorted(), (Ranking{{2, 4}, {2, 7}, {1, 9}}));
    top.offer(0, 1);
    top.offer(2, 5);
    EXPECT_EQ(top.sorted(), (Ranking{{2, 4}, {2, 5}, {2, 7}}));
    TopK fewer(3, {{1, 9}});
    fewer.offer(0, 1);
    EXPECT_EQ(fewer.sorted(), (Ranking{{1, 9}, {0, 1}}));
}

TEST(TopK, AnyCutAnyOrderGivesTheSame) {
    std::mt19937 random(1);
    for (const int num_labels : {1, 5, 127, 128, 129, 1000, 5003})
        for (const std::int64_t k : {1, 2, 5, 100}) {
            std::vector<float> scores(static_cast<std::size_t>(num_labels));
            // Few distinct values, so that ties abound; some NaN.
            for (auto& score : scores) score = random() % 20 == 0 ? NAN : static_cast<float>(random() % 50);
            const Ranking expected = reference(scores, 1000, k);

            TopK whole(k);
            whole.offer_block(scores, 1000);
            EXPECT_EQ(whole.sorted(), expected);

            std::vector<std::pair<std::size_t, std::size_t>> chunks;
            for (std::size_t begin = 0; begin < scores.size();) {
                const std::size_t end = std::min(scores.size(), begin + 1 + random() % 300);
                chunks.emplace_back(begin, end);
                begin = end;
            }
            std::shuffle(chunks.begin(), chunks.end(), random);
            TopK shuffled(k), left(k), right(k);
            for (const auto& [begin, end] : chunks) {
                const auto block = std::span<const float>(scores).subspan(begin, end - begin);
                const auto first = 1000 + static_cast<std::int64_t>(begin);
                shuffled.offer_block(block, first);
                (random() % 2 == 0 ? left : right).offer_block(block, first);
            }
            EXPECT_EQ(shuffled.sorted(), expected);
            left.merge(right);
            EXPECT_EQ(left.sorted(), expected);
        }
}

}  // namespace
}  // namespace elmo
