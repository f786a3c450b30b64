// parallel_for: every index once, exceptions reach the caller, nesting and thread counts.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace elmo {
namespace {

class Parallel : public testing::TestWithParam<int> {
  protected:
    void SetUp() override { set_num_threads(GetParam()); }
    void TearDown() override { set_num_threads(0); }
};

TEST_P(Parallel, EveryIndexOnce) {
    for (const std::int64_t count : {-1, 0, 1, 2, 3, 1000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
        parallel_for(count, [&](std::int64_t i) { ++visits.at(static_cast<std::size_t>(i)); });
        for (const auto& n : visits) EXPECT_EQ(n, 1);
    }
}

TEST_P(Parallel, RangesCoverAndDependOnSizeAlone) {
    for (const std::int64_t count : {0, 1, 6, 7, 8, 99}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        parallel_ranges(count, 7, [&](std::int64_t begin, std::int64_t end) {
            EXPECT_EQ(begin % 7, 0);
            EXPECT_EQ(end, std::min<std::int64_t>(begin + 7, count));
            for (std::int64_t i = begin; i < end; ++i) ++visits.at(static_cast<std::size_t>(i));
        });
        for (const auto& n : visits) EXPECT_EQ(n, 1);
    }
}

TEST_P(Parallel, FirstExceptionReachesTheCaller) {
    EXPECT_THROW(parallel_for(100,
                              [](std::int64_t i) {
                                  if (i % 10 == 3) throw std::domain_error("three");
                              }),
                 std::domain_error);
    // And the pool is still usable.
    std::atomic<int> sum{0};
    parallel_for(10, [&](std::int64_t) { ++sum; });
    EXPECT_EQ(sum, 10);
}

TEST_P(Parallel, NestedLoopsRunInline) {
    std::atomic<int> sum{0};
    EXPECT_THROW(parallel_for(4,
                              [&](std::int64_t i) {
                                  parallel_for(5, [&](std::int64_t j) {
                                      ++sum;
                                      if (i == 2 && j == 4) throw std::range_error("inner");
                                  });
                              }),
                 std::range_error);
    EXPECT_GE(sum, 15);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3, 8));

TEST(NumThreads, SettingAndDefault) {
    set_num_threads(3);
    EXPECT_EQ(num_threads(), 3);
    set_num_threads(0);
    EXPECT_GE(num_threads(), 1);
}

}  // namespace
}  // namespace elmo
