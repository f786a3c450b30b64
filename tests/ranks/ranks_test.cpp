#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "batches/batch_shards.h"
#include "ranks/collectives.h"
#include "ranks/exchange_thread.h"
#include "ranks/rank_share.h"
#include "ranks/scatter.h"
#include "ranks/sum_tree.h"
#include "ranks/thread_ranks.h"

namespace elmo {
namespace {

std::vector<float> leaves(std::int64_t count) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
        values.push_back(std::sin(static_cast<float>(i + 1)) * std::exp(static_cast<float>(i % 13)));
    return values;
}

// The definition.
float tree_sum(const std::vector<float>& values, std::int64_t lo, std::int64_t hi) {
    if (hi - lo == 1) return values[static_cast<std::size_t>(lo)];
    std::int64_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    return tree_sum(values, lo, lo + half) + tree_sum(values, lo + half, hi);
}

// Every rank folds its leaves; their nodes are then folded in order.
float shared_sum(const std::vector<float>& values, std::int64_t ranks) {
    const auto count = static_cast<std::int64_t>(values.size());
    std::vector<float> places;
    SumFold fold;
    const auto adder = [](std::vector<float>& of) {
        return [&of](std::size_t i) {
            of[i] += of[i + 1];
            of.pop_back();
        };
    };
    for (std::int64_t r = 0; r < ranks; ++r) {
        const ShareRange own = RankShare::part(count, r, ranks);
        std::vector<float> mine;
        SumFold my_fold;
        for (std::int64_t leaf = own.first; leaf < own.last; ++leaf) {
            mine.push_back(values[static_cast<std::size_t>(leaf)]);
            EXPECT_LE(static_cast<std::int64_t>(mine.size()), fold_leaves(own.first, own.last).places);
            my_fold.push({leaf, leaf + 1}, adder(mine));
        }
        EXPECT_EQ(my_fold.nodes(), fold_leaves(own.first, own.last).nodes);
        for (std::size_t i = 0; i < mine.size(); ++i) {
            places.push_back(mine[i]);
            fold.push(my_fold.nodes()[i], adder(places));
        }
    }
    fold.finish(adder(places));
    return places.front();
}

TEST(SumTree, HasTheSameBitsOnAnyNumberOfRanks) {
    int in_order_differs = 0;
    for (std::int64_t count = 1; count <= 70; ++count) {
        const std::vector<float> values = leaves(count);
        const float expected = tree_sum(values, 0, count);
        in_order_differs += std::accumulate(values.begin(), values.end(), 0.0f) != expected ? 1 : 0;
        for (std::int64_t ranks = 1; ranks <= count + 2; ++ranks)
            ASSERT_EQ(shared_sum(values, ranks), expected) << count << " leaves on " << ranks << " ranks";
    }
    EXPECT_GT(in_order_differs, 20);  // the test would see another order
}

TEST(RankShare, CoversLabelsAndShardsOnce) {
    for (const std::int64_t labels : {1, 255, 256, 257, 5000, 100'000})
        for (const std::int64_t groups : {1, 2, 7, 64})
            for (const std::int64_t ranks : {1, 2, 3, 8, 65}) {
                const RankShare share{0, ranks, groups, groups};
                std::int64_t label = 0, shard = 0, group_label = 0;
                for (std::int64_t r = 0; r < ranks; ++r) {
                    const ShareRange own = share.own_labels(labels, r), shards = share.own_shards(r);
                    if (own.size() > 0) {
                        EXPECT_EQ(own.first, label);
                        EXPECT_EQ(own.first % RankShare::kTile, 0);
                        label = own.last;
                    }
                    EXPECT_EQ(shards.first, shard);
                    shard = shards.last;
                }
                EXPECT_EQ(label, labels);
                EXPECT_EQ(shard, groups);
                for (std::int64_t g = 0; g < share.num_groups(labels); ++g) {
                    EXPECT_EQ(share.group_labels(labels, g).first, group_label);
                    EXPECT_GT(share.group_labels(labels, g).size(), 0);
                    group_label = share.group_labels(labels, g).last;
                }
                EXPECT_EQ(group_label, labels);
            }
}

TEST(BatchShards, AreEvenWithinTheLongestText) {
    for (const std::int64_t shards : {1, 2, 3, 4, 16})
        for (int texts = 1; texts < 60; texts += 7) {
            std::vector<std::int32_t> offsets = {0};
            std::int32_t longest = 0;
            for (int i = 0; i < texts; ++i) {
                const std::int32_t length = i * 7919 % 31;  // some without tokens
                longest = std::max(longest, length);
                offsets.push_back(offsets.back() + length);
            }
            const auto cuts = cut_shards(offsets, shards);
            ASSERT_EQ(static_cast<std::int64_t>(cuts.size()), shards + 1);
            EXPECT_EQ(cuts.front(), 0);
            EXPECT_EQ(cuts.back(), texts);
            for (std::int64_t m = 0; m < shards; ++m) {
                const auto at = static_cast<std::size_t>(m);
                ASSERT_LE(cuts[at], cuts[at + 1]);
                const std::int64_t tokens = offsets[static_cast<std::size_t>(cuts[at + 1])] -
                                            offsets[static_cast<std::size_t>(cuts[at])];
                EXPECT_LE(std::abs(tokens * shards - offsets.back()), longest * shards);
            }
        }
}

TEST(BatchShards, WalkPastTextsWithoutTokens) {
    const std::vector<std::int32_t> offsets = {0, 0, 0, 4, 8};  // two empty texts in front
    EXPECT_EQ(cut_shards(offsets, 2), (std::vector<std::int64_t>{0, 3, 4}));
}

TEST(Collectives, GatherAndBroadcastAnyLengths) {
    for (const int size : {1, 2, 3, 7})
        on_ranks(size, [&](Ranks& ranks) {
            const std::string mine(static_cast<std::size_t>(ranks.rank()) * 1000, 'x');  // the first has none
            const auto all = gather(ranks, std::as_bytes(std::span(mine)));
            ASSERT_EQ(static_cast<int>(all.size()), size);
            for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r].size(), r * 1000);

            for (int root = 0; root < size; ++root) {
                std::vector<std::byte> bytes(ranks.rank() == root ? 321u : 5u, std::byte(ranks.rank()));
                broadcast(ranks, bytes, root);
                EXPECT_EQ(bytes, std::vector<std::byte>(321, std::byte(root)));
            }
            std::vector<std::byte> nothing(ranks.is_first() ? 0 : 3);
            broadcast(ranks, nothing);
            EXPECT_TRUE(nothing.empty());
            EXPECT_EQ(any_bits(ranks, 1u << ranks.rank()), (1u << size) - 1);
            ranks.barrier();
        });
}

TEST(Collectives, TheFirstRankWorksFirst) {
    std::atomic<int> done{0};
    on_ranks(4, [&](Ranks& ranks) {
        const FirstRankFirst in_turn(ranks);
        if (!ranks.is_first()) {
            EXPECT_GE(done.load(), 1);
        }
        ++done;
    });
    EXPECT_EQ(done.load(), 4);
}

TEST(Collectives, EachRankGetsItsPartOfWhatTheFirstHas) {
    for (const int size : {1, 2, 5})
        on_ranks(size, [&](Ranks& ranks) {
            std::vector<int> all;
            if (ranks.is_first())
                for (int i = 0; i < 100; ++i) all.push_back(i);
            const std::vector<int> mine = scatter<int>(ranks, [&](int rank) {  // the second has none
                return std::span<const int>(all).subspan(static_cast<std::size_t>(10 * rank),
                                                         rank == 1 ? 0 : 7);
            });
            ASSERT_EQ(mine.size(), ranks.rank() == 1 ? 0u : 7u);
            if (mine.empty()) return;
            EXPECT_EQ(mine.front(), 10 * ranks.rank());
            EXPECT_EQ(mine.back(), 10 * ranks.rank() + 6);
        });
}

// The second rank comes to an exchange only once the first has gone on from its start.
TEST(ExchangeThread, ExchangesTravelWhileTheirRankGoesOn) {
    std::atomic<int> gone_on{0};
    on_ranks(2, [&](Ranks& ranks) {
        ExchangeThread thread(ranks);
        std::int64_t mine[3] = {}, theirs[3] = {};
        for (int i = 0; i < 3; ++i) {
            if (!ranks.is_first())
                while (gone_on.load() <= i) std::this_thread::yield();
            mine[i] = 10 * ranks.rank() + i;
            const int other = 1 - ranks.rank();
            thread.start({{other, std::as_bytes(std::span(&mine[i], 1))}},
                         {{other, std::as_writable_bytes(std::span(&theirs[i], 1))}});
            if (ranks.is_first()) ++gone_on;
        }
        for (int i = 0; i < 3; ++i) {
            thread.finish(i + 1);
            EXPECT_EQ(theirs[i], 10 * (1 - ranks.rank()) + i);
        }
    });
}

class FailingRanks : public Ranks {
  public:
    int rank() const override { return 0; }
    int size() const override { return 2; }
    void exchange(std::span<const Outgoing>, std::span<const Incoming>) override {
        ++calls;
        throw std::runtime_error("the cable");
    }
    void barrier() override {}
    int calls = 0;
};

TEST(ExchangeThread, WhatFailedIsSaidWhereItIsWaitedFor) {
    FailingRanks ranks;
    {
        ExchangeThread thread(ranks);
        thread.start({}, {});
        thread.start({}, {});
        thread.wait(2);
        EXPECT_THROW(thread.finish(1), std::runtime_error);
        EXPECT_THROW(thread.finish(2), std::runtime_error);
    }
    EXPECT_EQ(ranks.calls, 1);  // nothing follows a failure
}

TEST(LaunchedAs, ReadsTheLaunchersEnvironment) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"})
        unsetenv(name);
    EXPECT_EQ(launched_as().size, 1);
    setenv("PMI_SIZE", "8", 1);
    setenv("PMI_RANK", "3", 1);
    EXPECT_EQ(launched_as().size, 8);
    EXPECT_EQ(launched_as().rank, 3);
    setenv("PMI_RANK", "9", 1);  // no rank of 8
    EXPECT_EQ(launched_as().size, 1);
    setenv("PMI_SIZE", "many", 1);
    EXPECT_EQ(launched_as().size, 1);
    unsetenv("PMI_SIZE");
    unsetenv("PMI_RANK");
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("SLURM_PROCID", "1", 1);
    EXPECT_EQ(launched_as().rank, 1);
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_PROCID");
}

}  // namespace
}  // namespace elmo
