// Streaming top-k of the tested backend against the reference.
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "head_harness.h"

namespace elmo::testing_ops::head_topk_test {
namespace {

std::vector<std::int64_t> labels_of(const TopK& best) {
    std::vector<std::int64_t> labels;
    for (const ScoredLabel& l : best.sorted()) labels.push_back(l.label);
    return labels;
}

// Every label in the ranking has its score within the bound, and none left out is better than the worst.
void check_ranking(const HeadShape& s, std::int64_t k, DType storage, const std::string& kind, Backend& truth,
                   Rng& rng, const WeightGrid& grid = {}) {
    const DType input = k == 5 ? DType::kF32 : DType::kBf16;
    const auto x = make_input("x", input, s.batch, s.width, rng);
    const auto drawn = make_input("w", grid.used() ? DType::kE4M3 : storage, s.labels, s.width, rng, 0.3);
    const auto w = std::make_unique<Tensor>("w", storage, s.labels, s.width);
    w->copy(*drawn);
    w->freeze();
    Workload workload = head_workload(s, storage, 1);
    workload.training = false;
    workload.top_k = k;
    Reserved tested(make_tested_backend(kind), workload);
    const auto best = tested->head_topk({x->view(), w->view(), k, grid});
    const auto all = truth.head_topk({x->view(), w->view(), s.labels, grid});
    const reference::Matrix xm(x->view()), wm(w->view());
    ASSERT_EQ(static_cast<std::int64_t>(best.size()), s.batch);
    for (std::size_t b = 0; b < best.size(); ++b) {
        const auto ranking = best[b].sorted();
        ASSERT_EQ(static_cast<std::int64_t>(ranking.size()), std::min(k, s.labels));
        std::vector<double> exact(static_cast<std::size_t>(s.labels)), bound(exact.size()),
            magnitudes(static_cast<std::size_t>(s.width));
        for (const ScoredLabel& l : all[b].sorted()) {
            exact[static_cast<std::size_t>(l.label)] = l.score;
            // E4M3 of x may be 1/16 larger.
            for (std::int64_t d = 0; d < s.width; ++d)
                magnitudes[static_cast<std::size_t>(d)] =
                    std::abs(xm(static_cast<std::int64_t>(b), d) * wm(l.label, d)) * 1.0625;
            // The exact score above is rounded to FP32 once: the bound has a term for it.
            bound[static_cast<std::size_t>(l.label)] = logit_error(storage, 0, magnitudes) + 0x1p-126;
        }
        std::vector<bool> taken(exact.size());
        for (std::size_t i = 0; i < ranking.size(); ++i) {
            const auto label = static_cast<std::size_t>(ranking[i].label);
            ASSERT_LT(label, exact.size());
            ASSERT_FALSE(taken[label]);
            taken[label] = true;
            ASSERT_LE(std::abs(ranking[i].score - exact[label]), bound[label]);
            if (i > 0) {
                ASSERT_TRUE(ranks_before(ranking[i - 1], ranking[i]));
            }
        }
        for (std::size_t label = 0; label < exact.size(); ++label) {
            if (!taken[label]) {
                ASSERT_LE(exact[label], ranking.back().score + bound[label]);
            }
        }
    }
}

TEST(HeadTopK, ScoresAndRankingWithinBounds) {
    Rng rng(67);
    const auto truth = make_reference_backend();
    std::vector<HeadShape> shapes(std::begin(kHeadShapes), std::end(kHeadShapes));
    for (const HeadShape& s : tiled_shapes())
        if (s.batch * s.width * s.labels < 10000000) shapes.push_back(s);
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages)
            for (const HeadShape& s : shapes)
                // A GPU ranks no more than 4096 at once.
                for (const std::int64_t k :
                     {std::int64_t{1}, std::int64_t{5},
                      kTestsGpu ? std::min<std::int64_t>(s.labels + 2, 4096) : s.labels + 2}) {
                    if (repeats(kind, storage)) continue;
                    SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind + " products, " +
                                 std::to_string(s.batch) + " x " + std::to_string(s.width) + " x " +
                                 std::to_string(s.labels) + ", k " + std::to_string(k));
                    check_ranking(s, k, storage, kind, *truth, rng);
                    if (testing::Test::HasFatalFailure()) return;
                }
}

// Around the numbers of texts for which a GPU has separate kernels, and the widths from which on it keeps
// fewer texts or fewer weights in shared memory.
const HeadShape kRankedShapes[] = {{1, 136, 700},  {16, 136, 300}, {17, 136, 300}, {64, 136, 129},
                                   {65, 100, 300}, {513, 40, 300}, {17, 1040, 65}, {65, 1032, 129},
                                   {70, 784, 129}, {2, 1552, 65}};

TEST(HeadTopK, WithinBoundsForAnyNumberOfTexts) {
    Rng rng(68);
    const auto truth = make_reference_backend();
    std::size_t turn = 0;
    for (const HeadShape& s : std::span(kRankedShapes).first(few_shapes() ? 6 : std::size(kRankedShapes)))
        for (const DType storage : in_turn({DType::kBf16, DType::kE4M3, DType::kE3M4}, turn)) {
            SCOPED_TRACE(std::string(name_of(storage)) + ", " + std::to_string(s.batch) + " x " +
                         std::to_string(s.width) + " x " + std::to_string(s.labels));
            check_ranking(s, 20, storage, "auto", *truth, rng);
            if (testing::Test::HasFatalFailure()) return;
        }
}

// BF16 weights on the grid of E4M3 (`exmy:4,3`): x is rounded to E4M3, the products are of BF16.
TEST(HeadTopK, WithinBoundsOnTheGridOfE4M3) {
    Rng rng(70);
    const auto truth = make_reference_backend();
    for (const HeadShape& s : {HeadShape{3, 40, 150}, HeadShape{17, 136, 300}, HeadShape{70, 768, 129}}) {
        check_ranking(s, 20, DType::kBf16, "auto", *truth, rng, WeightGrid{4, 3, 7});
        if (testing::Test::HasFatalFailure()) return;
    }
}

// A text has the same scores, to the last bit, alone and among others. (A CPU adds in one order for up to
// four texts, and in another for more.)
TEST(HeadTopK, SameBitsInAnyBatch) {
    Rng rng(69);
    const std::int64_t most = under_sanitizer() ? 66 : 513, labels = 300, k = 20;
    std::size_t turn = 0;
    for (const DType storage : in_turn({DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4}, turn))
        for (const std::int64_t width : in_turn({100, 136, 768}, turn)) {
            const auto x = make_input("x", DType::kBf16, most, width, rng);
            const auto w = make_input("w", storage, labels, width, rng, 0.3);
            Workload workload = head_workload({most, width, labels}, storage, 1);
            workload.training = false;
            workload.top_k = k;
            Reserved tested(make_tested_backend("auto"), workload);
            const auto rank = [&](std::int64_t first, std::int64_t last) {
                return tested->head_topk({x->view().slice(first, last), w->view(), k});
            };
            const auto all = rank(0, most), few = kTestsGpu ? all : rank(most - 4, most);
            for (const std::int64_t texts : {1, 2, 3, 16, 17, 64, 65, 129}) {
                if (texts >= most) continue;
                const auto& wanted = texts < 4 ? few : all;
                SCOPED_TRACE(std::string(name_of(storage)) + ", width " + std::to_string(width) + ", " +
                             std::to_string(texts) + " texts");
                const auto part = rank(most - texts, most);
                for (std::int64_t i = 0; i < texts; ++i)
                    ASSERT_EQ(part[static_cast<std::size_t>(i)].sorted(),
                              wanted[wanted.size() - static_cast<std::size_t>(texts - i)].sorted());
            }
        }
}

TEST(HeadTopK, InfinitiesRankAndNanNeverEnters) {
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
    const double weights[] = {-1, -infinity, nan, 2, infinity, 0, -infinity};
    const std::int64_t labels = std::size(weights);
    for (const DType storage : {DType::kF32, DType::kBf16})
        for (const std::int64_t texts : {1, 17, 70}) {
            Tensor x("x", DType::kBf16, texts, 1), w("w", storage, labels, 1);
            x.fill([](auto, auto) { return 1.0; });
            w.fill([&](auto l, auto) { return weights[l]; });
            Workload workload = head_workload({texts, 1, labels}, storage, 1);
            workload.training = false;
            workload.top_k = labels;
            Reserved tested(make_tested_backend("auto"), workload);
            const auto best = tested->head_topk({x.view(), w.view(), labels});
            for (const TopK& one : best)
                EXPECT_EQ(labels_of(one), (std::vector<std::int64_t>{4, 3, 5, 0, 1, 6}));
        }
}

// The order of the labels does not matter: scores that rise with the label, so that every label is the best
// so far; scores that fall; and scores that are all the same. The numbers are whole: exact in BF16, their
// sums in FP32. On a GPU with k = 1024 so many labels find no room that it starts three times.
TEST(HeadTopK, RisingFallingAndEqualScores) {
    const std::int64_t labels = few_shapes() ? 3200 : 42240, last = labels - 1;
    std::size_t turn = 0;
    for (const DType storage : {DType::kF32, DType::kBf16})
        for (const std::int64_t width : {2, 64})
            for (const std::int64_t texts : in_turn({3, 18, 67}, turn)) {
                Tensor x("x", DType::kBf16, texts, width), w("w", storage, labels, width);
                x.fill([](auto b, auto d) {
                    return d > 1 ? 0.0 : b % 3 == 0 ? 1.0 : b % 3 == 1 ? -1.0 : 0.0;
                });
                w.fill([](auto l, auto d) {
                    return static_cast<double>(d == 0 ? l / 256 * 256 : d == 1 ? l % 256 : 1);
                });
                x.freeze(), w.freeze();
                for (const std::int64_t k : in_turn({1, 5, 100, 1024}, turn)) {
                    Workload workload = head_workload({texts, width, labels}, storage, 1);
                    workload.training = false;
                    workload.top_k = k;
                    Reserved tested(make_tested_backend("auto"), workload);
                    const auto best = tested->head_topk({x.view(), w.view(), k});
                    std::vector<std::int64_t> rising, falling;
                    for (std::int64_t i = 0; i < k; ++i) rising.push_back(last - i), falling.push_back(i);
                    for (std::size_t b = 0; b < best.size(); ++b)
                        EXPECT_EQ(labels_of(best[b]), b % 3 == 0 ? rising : falling);
                }
            }
}

TEST(HeadTopK, TiesByLowerLabelAcrossTiles) {
    const HeadShape s{2, 3, 1030};
    std::size_t turn = 0;
    for (const DType storage : kHeadStorages) {
        Tensor x("x", DType::kBf16, 2, 3), w("w", storage, s.labels, 3);
        x.fill([](auto b, auto) { return b == 0 ? 1.0 : -1.0; });
        w.fill([](auto l, auto) { return l % 256 == 7 ? 0.5 : 0.25; });
        for (const int threads : in_turn({1, 2, 3}, turn)) {
            Workload workload = head_workload(s, storage, 1);
            workload.top_k = 6;
            Reserved tested(make_tested_backend("auto", threads), workload);
            const auto best = tested->head_topk({x.view(), w.view(), 6});
            EXPECT_EQ(labels_of(best[0]), (std::vector<std::int64_t>{7, 263, 519, 775, 0, 1}));
            EXPECT_EQ(labels_of(best[1]), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
        }
    }
}

}  // namespace
}  // namespace elmo::testing_ops::head_topk_test
