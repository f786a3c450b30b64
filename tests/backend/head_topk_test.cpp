// Streaming top-k of the tested backend against the reference.
#include "base/parallel.h"
#include "head_harness.h"

namespace elmo::testing_ops {
namespace {

// Top-k: every label in the ranking has its score within the bound, and none left out is better than the
// worst.
TEST(HeadTopK, ScoresAndRankingWithinBounds) {
    Rng rng(67);
    const auto truth = make_reference_backend();
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages)
            for (const HeadShape& s : kHeadShapes)
                for (const std::int64_t k : {std::int64_t{1}, std::int64_t{5}, s.labels + 2}) {
                    if (repeats(kind, storage)) continue;
                    const DType input = k == 5 ? DType::kF32 : DType::kBf16;
                    const auto x = make_input("x", input, s.batch, s.width, rng);
                    const auto w = make_input("w", storage, s.labels, s.width, rng, 0.3);
                    Workload workload = head_workload(s, storage, 1);
                    workload.training = false;
                    workload.top_k = k;
                    Reserved tested(make_tested_backend(kind), workload);
                    const auto best = tested->head_topk({x->view(), w->view(), k});
                    const auto all = truth->head_topk({x->view(), w->view(), s.labels});
                    const reference::Matrix xm(x->view()), wm(w->view());
                    ASSERT_EQ(static_cast<std::int64_t>(best.size()), s.batch);
                    for (std::size_t b = 0; b < best.size(); ++b) {
                        const auto ranking = best[b].sorted();
                        ASSERT_EQ(static_cast<std::int64_t>(ranking.size()), std::min(k, s.labels));
                        std::vector<double> exact(static_cast<std::size_t>(s.labels)), bound(exact.size());
                        for (const ScoredLabel& l : all[b].sorted()) {
                            exact[static_cast<std::size_t>(l.label)] = l.score;
                            double size = 0;
                            for (std::int64_t d = 0; d < s.width; ++d)
                                size += std::abs(xm(static_cast<std::int64_t>(b), d) * wm(l.label, d));
                            // E4M3 of x may be 1/16 larger; the exact score above is rounded to FP32 once.
                            bound[static_cast<std::size_t>(l.label)] =
                                sum_error(s.width + 1) * size * 1.0625 + 0x1p-126;
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
}

TEST(HeadTopK, TiesByLowerLabelAcrossTiles) {
    const HeadShape s{2, 3, 1030};
    for (const DType storage : kHeadStorages) {
        Tensor x("x", DType::kBf16, 2, 3), w("w", storage, s.labels, 3);
        x.fill([](auto b, auto) { return b == 0 ? 1.0 : -1.0; });
        w.fill([](auto l, auto) { return l % 256 == 7 ? 0.5 : 0.25; });
        for (const int threads : {1, 2, 3}) {
            set_num_threads(threads);
            Workload workload = head_workload(s, storage, 1);
            workload.top_k = 6;
            Reserved tested(make_tested_backend("auto"), workload);
            const auto best = tested->head_topk({x.view(), w.view(), 6});
            std::vector<std::int64_t> labels[2];
            for (int b = 0; b < 2; ++b)
                for (const ScoredLabel& l : best[static_cast<std::size_t>(b)].sorted())
                    labels[b].push_back(l.label);
            EXPECT_EQ(labels[0], (std::vector<std::int64_t>{7, 263, 519, 775, 0, 1}));
            EXPECT_EQ(labels[1], (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
        }
        set_num_threads(0);
    }
}

}  // namespace
}  // namespace elmo::testing_ops
