// Embeddings, pooling and the bag of the tested backend against the reference.
#include "base/parallel.h"
#include "op_harness.h"

namespace elmo::testing_ops::embedding_test {
namespace {

struct Case {
    std::vector<std::int32_t> counts;
    std::int64_t width, vocab;
};
const Case kCases[] = {
    {{1}, 1, 1},        {{0}, 3, 2},           {{0, 1, 0}, 2, 3},     {{5, 0, 1, 17}, 127, 7},
    {{2, 3}, 128, 300}, {{64, 1, 31}, 129, 5}, {{7, 7, 7, 7}, 16, 2}, {{8, 65, 300, 9}, 264, 11},
    {{300, 200}, 8, 3}, {{40, 30}, 1032, 9}};

Workload workload_of(const Case& c) {
    Workload workload;
    workload.batch = static_cast<std::int64_t>(c.counts.size());
    workload.tokens = offsets_of(c.counts).back();
    workload.longest = *std::max_element(c.counts.begin(), c.counts.end());
    workload.width = c.width;
    workload.vocab = c.vocab;
    return workload;
}

template <class Body>
void for_each_case(const Body& body) {
    Rng rng(31);
    for (const DType storage : {DType::kF32, DType::kBf16})
        for (const Case& c : kCases) {
            SCOPED_TRACE(std::string(name_of(storage)) + ", " + std::to_string(c.counts.size()) +
                         " texts, width " + std::to_string(c.width));
            Reserved tested(make_tested_backend("fp32"), workload_of(c));
            const auto offsets = offsets_of(c.counts);
            body(storage, c, offsets, random_tokens(offsets.back(), c.vocab, rng), tested, rng);
            if (testing::Test::HasFatalFailure()) return;
        }
}

using Ints = std::vector<std::int32_t>;

TEST(Embedding, EmbedForward) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Case& c, const Ints& offsets, const Ints& tokens, Reserved& tested,
                      Rng& rng) {
        const std::int64_t base = 2, positions = base + workload_of(c).longest;
        const auto word = make_input("word", storage, c.vocab, c.width, rng);
        const auto position = make_input("position", storage, positions, c.width, rng);
        const auto type = make_input("type", storage, 1, c.width, rng);
        const auto aw = absolute(*word), ap = absolute(*position), at = absolute(*type);
        for (const bool all : {true, false}) {
            Tensor out("out", storage, offsets.back(), c.width),
                exact("exact", DType::kF64, offsets.back(), c.width);
            Tensor size("size", DType::kF64, offsets.back(), c.width);
            const View none;
            const auto run = [&](Backend& b, const Tensor& w, const Tensor& p, const Tensor& t, Tensor& to) {
                b.embed_forward({tokens, offsets, w.view(), all ? p.view() : none, all ? t.view() : none,
                                 base, to.view()});
            };
            run(*tested, *word, *position, *type, out);
            run(*truth, *word, *position, *type, exact);
            run(*truth, *aw, *ap, *at, size);
            expect_close(out, exact, [&](auto r, auto col) { return sum_error(2) * size(r, col); });
        }
    });
}

TEST(Embedding, EmbedBackward) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Case& c, const Ints& offsets, const Ints& tokens, Reserved& tested,
                      Rng& rng) {
        const std::int64_t base = 1, positions = base + workload_of(c).longest, count = offsets.back();
        const auto dout = make_input("dout", storage, count, c.width, rng);
        const auto adout = absolute(*dout);
        for (const bool accumulate : {false, true})
            for (const bool all : {true, false}) {
                const auto run = [&](Backend& b, const Tensor& d, Tensor& dword, Tensor& dposition,
                                     Tensor& dtype) {
                    if (accumulate)
                        for (Tensor* t : {&dword, &dposition, &dtype})
                            t->fill([](auto r, auto col) {
                                return 0.5 * static_cast<double>(r % 3) + static_cast<double>(col % 2);
                            });
                    const View none;
                    b.embed_backward({d.view(), tokens, offsets, dword.view(), all ? dposition.view() : none,
                                      all ? dtype.view() : none, base, accumulate});
                };
                Tensor dw("dword", storage, c.vocab, c.width), dp("dposition", storage, positions, c.width);
                Tensor dt("dtype", storage, 1, c.width);
                Tensor ew("exact dword", DType::kF64, c.vocab, c.width),
                    sw("size dword", DType::kF64, c.vocab, c.width);
                Tensor ep("exact dposition", DType::kF64, positions, c.width);
                Tensor sp("size dposition", DType::kF64, positions, c.width);
                Tensor et("exact dtype", DType::kF64, 1, c.width), st("size dtype", DType::kF64, 1, c.width);
                run(*tested, *dout, dw, dp, dt);
                run(*truth, *dout, ew, ep, et);
                run(*truth, *adout, sw, sp, st);
                const auto bound = [&](const Tensor& size) {
                    return [&](auto r, auto col) { return sum_error(count + 1) * size(r, col); };
                };
                expect_close(dw, ew, bound(sw));
                if (!all) continue;
                expect_close(dp, ep, bound(sp));
                expect_close(dt, et, bound(st));
            }
    });
}

TEST(Embedding, Pool) {
    const auto truth = make_reference_backend();
    for_each_case(
        [&](DType storage, const Case& c, const Ints& offsets, const Ints&, Reserved& tested, Rng& rng) {
            const auto texts = static_cast<std::int64_t>(c.counts.size());
            const auto x = make_input("x", storage, offsets.back(), c.width, rng);
            const auto dout = make_input("dout", storage, texts, c.width, rng);
            const auto ax = absolute(*x), adout = absolute(*dout);
            for (const Pooling pooling : {Pooling::kMean, Pooling::kCls})
                for (const float p : {0.0f, 0.6f}) {
                    const Dropout dropout{p, {1, 2, 3}};
                    Tensor out("out", storage, texts, c.width), exact("exact", DType::kF64, texts, c.width);
                    Tensor size("size", DType::kF64, texts, c.width);
                    tested->pool_forward({x->view(), offsets, pooling, dropout, out.view()});
                    truth->pool_forward({x->view(), offsets, pooling, dropout, exact.view()});
                    truth->pool_forward({ax->view(), offsets, pooling, dropout, size.view()});
                    expect_close(out, exact,
                                 [&](auto b, auto d) { return sum_error(c.counts[b] + 4) * size(b, d); });
                    Tensor dx("dx", storage, offsets.back(), c.width);
                    Tensor edx("exact dx", DType::kF64, offsets.back(), c.width);
                    Tensor sdx("size dx", DType::kF64, offsets.back(), c.width);
                    tested->pool_backward({dout->view(), offsets, pooling, dropout, dx.view()});
                    truth->pool_backward({dout->view(), offsets, pooling, dropout, edx.view()});
                    truth->pool_backward({adout->view(), offsets, pooling, dropout, sdx.view()});
                    expect_close(dx, edx, [&](auto t, auto d) { return sum_error(4) * sdx(t, d); });
                }
        });
}

TEST(Embedding, Bag) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Case& c, const Ints& offsets, const Ints& tokens, Reserved& tested,
                      Rng& rng) {
        const auto texts = static_cast<std::int64_t>(c.counts.size());
        const auto word = make_input("word", storage, c.vocab, c.width, rng);
        const auto dout = make_input("dout", storage, texts, c.width, rng);
        const auto aw = absolute(*word), ad = absolute(*dout);
        Tensor out("out", storage, texts, c.width), exact("exact", DType::kF64, texts, c.width);
        Tensor size("size", DType::kF64, texts, c.width);
        tested->bag_forward({tokens, offsets, word->view(), out.view()});
        truth->bag_forward({tokens, offsets, word->view(), exact.view()});
        truth->bag_forward({tokens, offsets, aw->view(), size.view()});
        expect_close(out, exact, [&](auto b, auto d) { return sum_error(c.counts[b] + 2) * size(b, d); });
        for (const bool accumulate : {false, true}) {
            const auto run = [&](Backend& b, const Tensor& d, Tensor& dword) {
                if (accumulate) dword.fill([](auto r, auto) { return static_cast<double>(r % 2); });
                b.bag_backward({d.view(), tokens, offsets, dword.view(), accumulate});
            };
            Tensor dw("dword", storage, c.vocab, c.width), ew("exact", DType::kF64, c.vocab, c.width);
            Tensor sw("size", DType::kF64, c.vocab, c.width);
            run(*tested, *dout, dw);
            run(*truth, *dout, ew);
            run(*truth, *ad, sw);
            expect_close(dw, ew, [&](auto r, auto d) { return sum_error(offsets.back() + 3) * sw(r, d); });
        }
    });
}

TEST(Embedding, RunsAndThreadsDoNotMatter) {
    const Case c{{40, 3, 29, 11}, 33, 9};
    const auto offsets = offsets_of(c.counts);
    std::vector<std::vector<unsigned char>> results;
    for (const int threads : {1, 2, 3}) {
        Rng rng(3);
        Reserved tested(make_tested_backend("fp32", threads), workload_of(c));
        const auto tokens = random_tokens(offsets.back(), c.vocab, rng);
        const auto dout = make_input("dout", DType::kBf16, offsets.back(), c.width, rng);
        Tensor dword("dword", DType::kF32, c.vocab, c.width),
            dposition("dposition", DType::kF32, 40, c.width);
        tested->embed_backward({dout->view(), tokens, offsets, dword.view(), dposition.view(), {}, 0, false});
        auto all = dword.bytes();
        for (const auto b : dposition.bytes()) all.push_back(b);
        results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace elmo::testing_ops::embedding_test
