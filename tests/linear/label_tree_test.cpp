// Trees of labels: every label once, balanced, like labels together, the same with any number of threads.
#include "linear/trees/label_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quiet.h"

namespace elmo {
namespace {

// Label l is of kind l % kinds: its vector is one column, and a little of its own.
SparseRows vectors_of(std::int64_t labels, std::int32_t kinds) {
    SparseRows rows;
    for (std::int32_t l = 0; l < labels; ++l) {
        rows.columns.insert(rows.columns.end(), {l % kinds, kinds + l});
        rows.values.insert(rows.values.end(), {0.99f, 0.14f});
        rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
    }
    return rows;
}

TEST(LabelTree, HoldsEveryLabelOnceInLeavesOfEqualSize) {
    for (const std::int64_t labels : {5, 101, 1000, 5003}) {
        const SparseRows vectors = vectors_of(labels, 4);
        const LabelTree tree = build_label_tree(quiet(), vectors, labels + 4, 100, 1);
        std::vector<std::int32_t> seen;
        std::size_t least = 1u << 30, most = 0;
        for (const auto& leaf : tree.levels.back()) {
            seen.insert(seen.end(), leaf.begin(), leaf.end());
            least = std::min(least, leaf.size());
            most = std::max(most, leaf.size());
        }
        std::sort(seen.begin(), seen.end());
        ASSERT_EQ(static_cast<std::int64_t>(seen.size()), labels);
        for (std::int64_t l = 0; l < labels; ++l) EXPECT_EQ(seen[static_cast<std::size_t>(l)], l);
        EXPECT_LE(most, 100u);
        EXPECT_LE(most - least, 1u);
        for (std::size_t d = 0; d + 1 < tree.levels.size();
             ++d) {  // children are the next level's nodes, in order
            std::int32_t next = 0;
            for (const auto& node : tree.levels[d])
                for (const std::int32_t child : node) EXPECT_EQ(child, next++);
            EXPECT_EQ(static_cast<std::size_t>(next), tree.levels[d + 1].size());
        }
    }
}

TEST(LabelTree, PutsLikeLabelsTogether) {
    const LabelTree tree = build_label_tree(quiet(), vectors_of(200, 2), 202, 100, 5);
    ASSERT_EQ(tree.levels.back().size(), 2u);
    for (const auto& leaf : tree.levels.back())
        for (const std::int32_t label : leaf) EXPECT_EQ(label % 2, leaf.front() % 2);
}

TEST(LabelTree, DoesNotDependOnThreads) {
    const SparseRows vectors = vectors_of(3000, 7);
    const auto with = [&](int threads) {
        return build_label_tree(quiet().with_threads(threads), vectors, 3007, 50, 9).levels;
    };
    EXPECT_EQ(with(1), with(3));
}

}  // namespace
}  // namespace elmo
