// parallel_for: every index once, exceptions reach the caller, nesting and thread counts.
#include "base/parallel.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace elmo {
namespace {

class Parallel : public testing::TestWithParam<int> {
  protected:
    ThreadPool pool_{GetParam()};
};

TEST_P(Parallel, EveryIndexOnce) {
    for (const std::int64_t count : {-1, 0, 1, 2, 3, 1000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
        pool_.parallel_for(count, [&](std::int64_t i) { ++visits.at(static_cast<std::size_t>(i)); });
        for (const auto& n : visits) EXPECT_EQ(n, 1);
    }
}

TEST_P(Parallel, RangesCoverAndDependOnSizeAlone) {
    for (const std::int64_t count : {0, 1, 6, 7, 8, 99}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        pool_.parallel_ranges(count, 7, [&](std::int64_t begin, std::int64_t end) {
            EXPECT_EQ(begin % 7, 0);
            EXPECT_EQ(end, std::min<std::int64_t>(begin + 7, count));
            for (std::int64_t i = begin; i < end; ++i) ++visits.at(static_cast<std::size_t>(i));
        });
        for (const auto& n : visits) EXPECT_EQ(n, 1);
    }
}

TEST_P(Parallel, FirstExceptionReachesTheCaller) {
    EXPECT_THROW(pool_.parallel_for(100,
                                    [](std::int64_t i) {
                                        if (i % 10 == 3) throw std::domain_error("three");
                                    }),
                 std::domain_error);
    // And the pool is still usable.
    std::atomic<int> sum{0};
    pool_.parallel_for(10, [&](std::int64_t) { ++sum; });
    EXPECT_EQ(sum, 10);
}

TEST_P(Parallel, NestedLoopsRunInline) {
    std::atomic<int> sum{0};
    EXPECT_THROW(pool_.parallel_for(4,
                                    [&](std::int64_t i) {
                                        pool_.parallel_for(5, [&](std::int64_t j) {
                                            ++sum;
                                            if (i == 2 && j == 4) throw std::range_error("inner");
                                        });
                                    }),
                 std::range_error);
    EXPECT_GE(sum, 15);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, SizeAsGivenOrOfTheMachine) {
    EXPECT_EQ(ThreadPool(3).size(), 3);
    EXPECT_GE(ThreadPool(0).size(), 1);
}

// A second thread finds the pool busy and does its work itself: both end, and each body sees a thread index
// that its pool has.
TEST(ThreadPool, TwoThreadsShareAPool) {
    ThreadPool pool(3);
    std::atomic<int> sum{0};
    std::atomic<bool> index_is_known{true};
    const auto loops = [&] {
        for (int round = 0; round < 200; ++round)
            pool.parallel_for(7, [&](std::int64_t) {
                ++sum;
                if (thread_index() < 0 || thread_index() >= 3) index_is_known = false;
            });
    };
    std::thread other(loops);
    loops();
    other.join();
    EXPECT_EQ(sum, 2 * 200 * 7);
    EXPECT_TRUE(index_is_known);
}

// It would wait for the threads of its parent, which it does not have. (The thread sanitizer knows no threads
// after a fork, so the name keeps it out there.)
TEST(ThreadPool, AForkedProcessMakesThreadsOfItsOwnSlow) {
    ThreadPool pool(3);
    const auto sum_of = [&] {
        std::atomic<int> sum{0};
        pool.parallel_for(100, [&](std::int64_t i) { sum += static_cast<int>(i); });
        return sum.load();
    };
    EXPECT_EQ(sum_of(), 4950);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(sum_of() == 4950 && sum_of() == 4950 ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(sum_of(), 4950);
}

// Threads that sleep are woken by whoever starts a loop: the program, or a library opened at run time.
TEST(ThreadPool, IsSharedWithALibrary) {
    void* library = ::dlopen(ELMO_POOL_STUB, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    const auto there = reinterpret_cast<int (*)(ThreadPool&)>(::dlsym(library, "elmo_count_to_eight"));
    ASSERT_NE(there, nullptr);
    // Long enough for threads to sleep on most machines; where they are still awake, this tests less.
    const auto fall_asleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    for (const bool library_first : {false, true}) {
        ThreadPool pool(4);
        if (library_first) {
            EXPECT_EQ(there(pool), 8);
        }
        for (int i = 0; i < 3; ++i) {
            std::atomic<int> here = 0;
            fall_asleep();
            pool.parallel_for(8, [&](std::int64_t) { ++here; });
            EXPECT_EQ(here, 8);
            fall_asleep();
            EXPECT_EQ(there(pool), 8);
        }
        fall_asleep();
    }
    ::dlclose(library);
}

}  // namespace
}  // namespace elmo
