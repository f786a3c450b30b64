// Residual, dropout and LayerNorm of the tested backend against the reference.
#include "base/parallel.h"
#include "op_harness.h"

namespace elmo::testing_ops::norm_test {
namespace {

constexpr double u = kF32Roundoff;

struct Shape {
    std::int64_t tokens, width;
};
const Shape kShapes[] = {{1, 1},    {1, 2},   {2, 7},    {15, 16},  {16, 17},  {17, 127},
                         {33, 128}, {5, 129}, {37, 384}, {70, 768}, {3, 1000}, {2, 1032}};

Workload workload_of(const Shape& shape) {
    Workload workload;
    workload.tokens = shape.tokens;
    workload.longest = shape.tokens;
    workload.width = shape.width;
    return workload;
}

template <class Body>
void for_each_case(const Body& body) {
    Rng rng(11);
    std::size_t turn = 0;
    for (const Mode& mode : tested_modes()) {
        if (mode.products == "bf16") continue;  // no products here
        for (const Shape& shape : kShapes)
            for (const float p : in_turn({0.0f, 0.3f}, turn)) {
                SCOPED_TRACE(describe(mode) + ", " + std::to_string(shape.tokens) + " x " +
                             std::to_string(shape.width) + ", dropout " + std::to_string(p));
                Reserved tested(make_tested_backend(mode.products), workload_of(shape));
                body(mode.storage, shape, Dropout{p, {3, 1, 77}}, tested, rng);
                if (testing::Test::HasFatalFailure()) return;
            }
    }
}

// Error bounds of the forward of one row from its sums as stored: of the mean, of each centred value, and the
// relative one of 1 / sqrt(var + eps).
struct RowBounds {
    double mean = 0, inverse = 0, mean_error = 0, inverse_error = 0;
    double centred_error(double sum) const { return mean_error + u * std::abs(sum - mean); }
};

RowBounds row_bounds(const Tensor& sum, std::int64_t t, double epsilon) {
    const std::int64_t width = sum.cols();
    const auto n = static_cast<double>(width);
    RowBounds b;
    double size = 0, variance = 0, variance_error = 0;
    for (std::int64_t d = 0; d < width; ++d) {
        b.mean += sum(t, d) / n;
        size += std::abs(sum(t, d)) / n;
    }
    b.mean_error = sum_error(width) * size;
    for (std::int64_t d = 0; d < width; ++d) {
        const double centred = sum(t, d) - b.mean, e = b.centred_error(sum(t, d));
        variance += centred * centred / n;
        variance_error += (2 * std::abs(centred) * e + e * e) / n;
    }
    variance_error += sum_error(width + 2) * (variance + variance_error);
    b.inverse = 1 / std::sqrt(variance + epsilon);
    // Relative, without linearisation: where the variance is all rounding the bound says so.
    const double low = std::max(variance - variance_error, 0.0) + epsilon;
    b.inverse_error = std::sqrt((variance + epsilon) / low) - 1 + 4 * u;
    return b;
}

TEST(Norm, Forward) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Shape& s, const Dropout& dropout, Reserved& tested, Rng& rng) {
        const float epsilon = 1e-5f;
        const auto a = make_input("a", storage, s.tokens, s.width, rng);
        const auto residual = make_input("residual", storage, s.tokens, s.width, rng);
        const auto gamma = make_input("gamma", storage, 1, s.width, rng);
        const auto beta = make_input("beta", storage, 1, s.width, rng);
        for (const bool with_residual : {true, false}) {
            const View residual_view = with_residual ? residual->view() : View{};
            Tensor sum("sum", storage, s.tokens, s.width), y("y", storage, s.tokens, s.width);
            Tensor stats("stats", DType::kF32, s.tokens, 2);
            tested->residual_norm_forward({a->view(), residual_view, dropout, gamma->view(), beta->view(),
                                           epsilon, sum.view(), y.view(), stats.view()});
            Tensor esum("exact sum", DType::kF64, s.tokens, s.width),
                ey("exact y", DType::kF64, s.tokens, s.width);
            Tensor estats("exact stats", DType::kF64, s.tokens, 2);
            truth->residual_norm_forward({a->view(), residual_view, dropout, gamma->view(), beta->view(),
                                          epsilon, esum.view(), ey.view(), estats.view()});
            expect_close(sum, esum, [&](auto r, auto c) {
                const double kept = std::abs(esum(r, c) - (with_residual ? (*residual)(r, c) : 0));
                return 2 * u * kept + u * std::abs(esum(r, c));
            });
            // The rest is a function of the sum as stored.
            truth->residual_norm_forward({sum.view(),
                                          {},
                                          {},
                                          gamma->view(),
                                          beta->view(),
                                          epsilon,
                                          esum.view(),
                                          ey.view(),
                                          estats.view()});
            std::vector<RowBounds> rows;
            for (std::int64_t t = 0; t < s.tokens; ++t) rows.push_back(row_bounds(sum, t, double{epsilon}));
            expect_close(stats, estats, [&](auto t, auto c) {
                return c == 0 ? rows[t].mean_error : rows[t].inverse_error * estats(t, 1);
            });
            expect_close(y, ey, [&](auto t, auto d) {
                const RowBounds& b = rows[t];
                const double centred = std::abs(sum(t, d) - b.mean),
                             scale = std::abs((*gamma)(0, d)) * b.inverse;
                return scale * (b.centred_error(sum(t, d)) * (1 + b.inverse_error) +
                                centred * (b.inverse_error + 3 * u)) +
                       u * std::abs(ey(t, d));
            });
            // sum may alias a.
            Tensor aliased("aliased", storage, s.tokens, s.width), y2("y2", storage, s.tokens, s.width);
            Tensor stats2("stats2", DType::kF32, s.tokens, 2);
            aliased.copy(*a);
            tested->residual_norm_forward({aliased.view(), residual_view, dropout, gamma->view(),
                                           beta->view(), epsilon, aliased.view(), y2.view(), stats2.view()});
            expect_same_bits(aliased, sum);
            expect_same_bits(y2, y);
        }
    });
}

// What a norm makes of a sum may be kept in E4M3 in place of the sum: the forward is the same, and the
// backward that of those numbers.
TEST(Norm, NormalsInEightBits) {
    for_each_case([&](DType storage, const Shape& s, const Dropout& dropout, Reserved& tested, Rng& rng) {
        const auto input = [&](const char* name, std::int64_t rows) {
            return make_input(name, storage, rows, s.width, rng);
        };
        const auto a = input("a", s.tokens), residual = input("residual", s.tokens),
                   gamma = input("gamma", 1), beta = input("beta", 1), dy = input("dy", s.tokens);
        Tensor sum("sum", storage, s.tokens, s.width), y("y", storage, s.tokens, s.width),
            y2("y2", storage, s.tokens, s.width), stats("stats", DType::kF32, s.tokens, 2),
            stats2("stats2", DType::kF32, s.tokens, 2), normal("normal", DType::kE4M3, s.tokens, s.width);
        tested->residual_norm_forward({a->view(), residual->view(), dropout, gamma->view(), beta->view(),
                                       1e-5f, sum.view(), y.view(), stats.view()});
        tested->residual_norm_forward({a->view(), residual->view(), dropout, gamma->view(), beta->view(),
                                       1e-5f, View{}, y2.view(), stats2.view(), Dropout{}, normal.view()});
        expect_same_bits(y2, y);
        expect_same_bits(stats2, stats);
        for (std::int64_t t = 0; t < s.tokens; ++t)
            for (std::int64_t d = 0; d < s.width; ++d) {
                const float mean = static_cast<float>(stats(t, 0)), inverse = static_cast<float>(stats(t, 1));
                const float exact = (static_cast<float>(sum(t, d)) - mean) * inverse;
                ASSERT_EQ(normal.view().codes()[t * s.width + d], round_nearest(kE4M3, exact)) << exact;
            }
        struct Gradients {
            Tensor dsum, da, dgamma, dbeta, dbias;
            Gradients(DType dtype, const Shape& of)
                : dsum("dsum", dtype, of.tokens, of.width),
                  da("da", dtype, of.tokens, of.width),
                  dgamma("dgamma", dtype, 1, of.width),
                  dbeta("dbeta", dtype, 1, of.width),
                  dbias("dbias", dtype, 1, of.width) {}
        };
        const auto run = [&](const View& of_sum, const View& of_stats, const View& of_normal, bool rounds) {
            auto g = std::make_unique<Gradients>(storage, s);
            ResidualNormBackward op{dy->view(),     of_sum,       of_stats,         gamma->view(),  dropout,
                                    g->dsum.view(), g->da.view(), g->dgamma.view(), g->dbeta.view()};
            op.dbias_1D = g->dbias.view();
            op.normal_TD = of_normal;
            op.rounds = rounds;
            tested->residual_norm_backward(op);
            return g;
        };
        const auto expect_same = [&](const Gradients& found, const Gradients& expected) {
            expect_same_bits(found.dsum, expected.dsum);
            expect_same_bits(found.da, expected.da);
            expect_same_bits(found.dgamma, expected.dgamma);
            expect_same_bits(found.dbeta, expected.dbeta);
            expect_same_bits(found.dbias, expected.dbias);
        };
        expect_same(*run(sum.view(), stats.view(), {}, true), *run({}, stats.view(), normal.view(), true));
        // A sum with these numbers, a mean of 0 and a deviation of 1.
        Tensor stands("stands for", storage, s.tokens, s.width), plain("plain", DType::kF32, s.tokens, 2);
        plain.fill([](auto, auto c) { return static_cast<double>(c); });
        stands.fill([&](auto t, auto d) { return normal(t, d); });
        expect_same(*run({}, plain.view(), normal.view(), false),
                    *run(stands.view(), plain.view(), {}, false));
    });
}

TEST(Norm, Backward) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Shape& s, const Dropout& dropout, Reserved& tested, Rng& rng) {
        const auto n = static_cast<double>(s.width);
        const auto dy = make_input("dy", storage, s.tokens, s.width, rng);
        const auto sum = make_input("sum", storage, s.tokens, s.width, rng);
        const auto gamma = make_input("gamma", storage, 1, s.width, rng);
        const auto start = make_input("start", storage, 2, s.width, rng);
        Tensor stats("stats", DType::kF32, s.tokens, 2);
        stats.fill([&](auto t, auto c) { return c == 0 ? 0.01 * static_cast<double>(t) : 1.1; });
        stats.freeze();
        for (const bool accumulate : {false, true}) {
            const auto fill_start = [&](Tensor& dgamma, Tensor& dbeta) {
                dgamma.fill([&](auto, auto c) { return (*start)(0, c); });
                dbeta.fill([&](auto, auto c) { return (*start)(1, c); });
            };
            Tensor dsum("dsum", storage, s.tokens, s.width), da("da", storage, s.tokens, s.width);
            Tensor dgamma("dgamma", storage, 1, s.width), dbeta("dbeta", storage, 1, s.width);
            Tensor edsum("exact dsum", DType::kF64, s.tokens, s.width),
                eda("exact da", DType::kF64, s.tokens, s.width);
            Tensor edgamma("exact dgamma", DType::kF64, 1, s.width),
                edbeta("exact dbeta", DType::kF64, 1, s.width);
            if (accumulate) fill_start(dgamma, dbeta), fill_start(edgamma, edbeta);
            tested->residual_norm_backward({dy->view(), sum->view(), stats.view(), gamma->view(), dropout,
                                            dsum.view(), da.view(), dgamma.view(), dbeta.view(), accumulate});
            truth->residual_norm_backward({dy->view(), sum->view(), stats.view(), gamma->view(), dropout,
                                           edsum.view(), eda.view(), edgamma.view(), edbeta.view(),
                                           accumulate});
            // normal = (sum - mean) * inverse has three roundings, dnormal = dy * gamma one.
            std::vector<double> sizes, product_sizes;  // mean |dnormal| and mean |dnormal * normal| of a row
            for (std::int64_t t = 0; t < s.tokens; ++t) {
                sizes.push_back(0), product_sizes.push_back(0);
                for (std::int64_t i = 0; i < s.width; ++i) {
                    const double dnormal = std::abs((*dy)(t, i) * (*gamma)(0, i));
                    sizes.back() += dnormal / n;
                    product_sizes.back() +=
                        dnormal * std::abs(((*sum)(t, i) - stats(t, 0)) * stats(t, 1)) / n;
                }
            }
            const auto dsum_error = [&](std::int64_t t, std::int64_t d) {
                const double mean = stats(t, 0), inverse = stats(t, 1);
                const double size = sizes[t], size_product = product_sizes[t];
                const double normal = std::abs(((*sum)(t, d) - mean) * inverse);
                const double dnormal = std::abs((*dy)(t, d) * (*gamma)(0, d));
                const double error = dnormal * u + sum_error(s.width + 2) * size +
                                     normal * (sum_error(s.width + 6) * size_product + 4 * u * size_product);
                return inverse * (error + 4 * u * (dnormal + size + normal * size_product));
            };
            expect_close(dsum, edsum, dsum_error);
            expect_close(da, eda, [&](auto t, auto d) {
                const double factor = reference::dropout_factor(dropout, t, d);
                return factor * dsum_error(t, d) + 2 * u * std::abs(eda(t, d));
            });
            const auto column = [&](std::int64_t d, bool with_normal) {
                double size = accumulate ? std::abs((*start)(with_normal ? 0 : 1, d)) : 0;
                for (std::int64_t t = 0; t < s.tokens; ++t)
                    size += std::abs((*dy)(t, d)) *
                            (with_normal ? std::abs(((*sum)(t, d) - stats(t, 0)) * stats(t, 1)) : 1);
                return size;
            };
            expect_close(dgamma, edgamma,
                         [&](auto, auto d) { return sum_error(s.tokens + 18 + 4) * column(d, true); });
            expect_close(dbeta, edbeta,
                         [&](auto, auto d) { return sum_error(s.tokens + 18) * column(d, false); });
            // da may alias sum.
            Tensor over_sum("da over sum", storage, s.tokens, s.width),
                dsum3("dsum3", storage, s.tokens, s.width);
            Tensor dgamma3("dgamma3", storage, 1, s.width), dbeta3("dbeta3", storage, 1, s.width);
            if (accumulate) fill_start(dgamma3, dbeta3);
            over_sum.copy(*sum);
            tested->residual_norm_backward({dy->view(), over_sum.view(), stats.view(), gamma->view(), dropout,
                                            dsum3.view(), over_sum.view(), dgamma3.view(), dbeta3.view(),
                                            accumulate});
            expect_same_bits(over_sum, da);
            expect_same_bits(dsum3, dsum);
            expect_same_bits(dgamma3, dgamma);
            if (dropout.p != 0) continue;
            // dy may alias dsum, and da may be empty.
            Tensor aliased("aliased", storage, s.tokens, s.width);
            Tensor dgamma2("dgamma2", storage, 1, s.width), dbeta2("dbeta2", storage, 1, s.width);
            if (accumulate) fill_start(dgamma2, dbeta2);
            aliased.copy(*dy);
            tested->residual_norm_backward({aliased.view(),
                                            sum->view(),
                                            stats.view(),
                                            gamma->view(),
                                            dropout,
                                            aliased.view(),
                                            {},
                                            dgamma2.view(),
                                            dbeta2.view(),
                                            accumulate});
            expect_same_bits(aliased, dsum);
            expect_same_bits(dgamma2, dgamma);
            expect_same_bits(dbeta2, dbeta);
        }
    });
}

struct BackwardResult {
    Tensor dsum, da, dgamma, dbeta, dbias;
    BackwardResult(DType dtype, std::int64_t rows, std::int64_t cols)
        : dsum("dsum", dtype, rows, cols),
          da("da", dtype, rows, cols),
          dgamma("dgamma", dtype, 1, cols),
          dbeta("dbeta", dtype, 1, cols),
          dbias("dbias", dtype, 1, cols) {}
};

// A second gradient of y has the bits of an addition before the op. The bias gradient is the sums of what was
// stored.
TEST(Norm, BackwardOfTwoUsersAndABias) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Shape& s, const Dropout& dropout, Reserved& tested, Rng& rng) {
        const auto dy = make_input("dy", storage, s.tokens, s.width, rng);
        const auto more = make_input("more dy", storage, s.tokens, s.width, rng);
        const auto sum = make_input("sum", storage, s.tokens, s.width, rng);
        const auto gamma = make_input("gamma", storage, 1, s.width, rng);
        const auto start = make_input("dbias before", storage, 1, s.width, rng);
        const auto stats = make_input("stats", DType::kF32, s.tokens, 2, rng);
        Tensor both("dy of both", storage, s.tokens, s.width);
        both.copy(*dy);
        truth->add({both.view(), more->view()});
        both.freeze();
        for (const bool accumulate : {false, true})
            for (const bool branch : {true, false}) {
                if (!branch && dropout.p != 0) continue;
                BackwardResult two(storage, s.tokens, s.width), one(storage, s.tokens, s.width);
                const auto run = [&](BackwardResult& r, const Tensor& first, View second, View dbias) {
                    if (accumulate)
                        for (Tensor* t : {&r.dgamma, &r.dbeta, &r.dbias}) t->copy(*start);
                    tested->residual_norm_backward({first.view(), sum->view(), stats->view(), gamma->view(),
                                                    dropout, r.dsum.view(), branch ? r.da.view() : View{},
                                                    r.dgamma.view(), r.dbeta.view(), accumulate, second,
                                                    dbias});
                };
                run(two, *dy, more->view(), two.dbias.view());
                run(one, both, {}, {});
                expect_same_bits(two.dsum, one.dsum);
                if (branch) expect_same_bits(two.da, one.da);
                expect_same_bits(two.dgamma, one.dgamma);
                expect_same_bits(two.dbeta, one.dbeta);
                expect_column_sums(two.dbias, branch ? two.da : two.dsum, accumulate ? start.get() : nullptr);
            }
    });
}

// A dropout of y has the bits of that op before and after the norm. The backward gives y again to the bit.
TEST(Norm, DropoutOfTheOutputAndTheOutputAgain) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Shape& s, const Dropout& dropout, Reserved& tested, Rng& rng) {
        const auto sum = make_input("sum", storage, s.tokens, s.width, rng);
        const auto dy = make_input("dy", storage, s.tokens, s.width, rng);
        const auto more = make_input("more dy", storage, s.tokens, s.width, rng);
        const auto gamma = make_input("gamma", storage, 1, s.width, rng);
        const auto beta = make_input("beta", storage, 1, s.width, rng);
        const Dropout no_dropout, of_y{0.4f, {5, 2, 78}};
        for (Backend* backend : {&*tested, truth.get()}) {
            Tensor stored("sum", storage, s.tokens, s.width), y("y", storage, s.tokens, s.width),
                dropped("y dropped", storage, s.tokens, s.width),
                again("y again", storage, s.tokens, s.width);
            Tensor stats("stats", DType::kF32, s.tokens, 2);
            stored.copy(*sum);
            const auto forward = [&](Tensor& to, const Dropout& after) {
                backend->residual_norm_forward({stored.view(), View{}, no_dropout, gamma->view(),
                                                beta->view(), 1e-5f, stored.view(), to.view(), stats.view(),
                                                after});
            };
            forward(y, no_dropout);
            forward(dropped, of_y);
            Tensor dy_dropped("dy dropped", storage, s.tokens, s.width);
            dy_dropped.copy(*dy);
            backend->add({dy_dropped.view(), more->view()});
            backend->dropout({dy_dropped.view(), of_y});
            BackwardResult one(storage, s.tokens, s.width), separate(storage, s.tokens, s.width);
            backend->residual_norm_backward({dy->view(), stored.view(), stats.view(), gamma->view(), dropout,
                                             one.dsum.view(), one.da.view(), one.dgamma.view(),
                                             one.dbeta.view(), false, more->view(), View{}, of_y,
                                             beta->view(), again.view(), 1e-5f});
            backend->residual_norm_backward({dy_dropped.view(), stored.view(), stats.view(), gamma->view(),
                                             dropout, separate.dsum.view(), separate.da.view(),
                                             separate.dgamma.view(), separate.dbeta.view(), false});
            expect_same_bits(one.dsum, separate.dsum);
            expect_same_bits(one.da, separate.da);
            expect_same_bits(one.dgamma, separate.dgamma);
            expect_same_bits(one.dbeta, separate.dbeta);
            expect_same_bits(again, y);
            backend->dropout({y.view(), of_y});
            expect_same_bits(dropped, y);
        }
    });
}

// More rows than a device works on at a time: each row comes out as in a separate batch, and the gradients
// have all of them.
TEST(Norm, BackwardOfManyRows) {
    const std::int64_t rows = 3001, piece = 157;
    for (const std::int64_t width : {8, 264, 520, 1000, 1032}) {
        SCOPED_TRACE(width);
        Rng rng(19);
        const DType storage = DType::kBf16;
        Reserved tested(make_tested_backend("fp32"), workload_of({rows, width}));
        const auto dy = make_input("dy", storage, rows, width, rng);
        const auto more = make_input("more dy", storage, rows, width, rng);
        const auto sum = make_input("sum", storage, rows, width, rng);
        const auto gamma = make_input("gamma", storage, 1, width, rng);
        Tensor stats("stats", DType::kF32, rows, 2);
        stats.fill([](auto, auto c) { return c == 0 ? 0.0 : 1.0; });  // so that dgamma is sums of dy * sum
        struct Gradients {
            Tensor gamma, beta, bias;
            explicit Gradients(std::int64_t cols)
                : gamma("dgamma", DType::kF32, 1, cols),
                  beta("dbeta", DType::kF32, 1, cols),
                  bias("dbias", DType::kF32, 1, cols) {}
        };
        Gradients all(width), part(width);
        Tensor dsum("dsum", storage, rows, width), by_piece("dsum by piece", storage, rows, width);
        const auto run = [&](std::int64_t first, std::int64_t count, const Tensor& to, Gradients& g) {
            const auto slice = [&](const View& v) {
                return View{static_cast<char*>(v.data) + first * v.cols * size_of(v.dtype), v.dtype, count,
                            v.cols};
            };
            tested->residual_norm_backward({slice(dy->view()),
                                            slice(sum->view()),
                                            slice(stats.view()),
                                            gamma->view(),
                                            {},
                                            slice(to.view()),
                                            {},
                                            g.gamma.view(),
                                            g.beta.view(),
                                            false,
                                            slice(more->view()),
                                            g.bias.view()});
        };
        run(0, rows, dsum, all);
        for (std::int64_t first = 0; first < rows; first += piece)
            run(first, std::min(piece, rows - first), by_piece, part);
        expect_same_bits(dsum, by_piece);
        expect_column_sums(all.bias, dsum, nullptr);
        Tensor both("dy of both", storage, rows, width), product("dy * sum", DType::kF64, rows, width);
        both.fill([&](auto r, auto c) { return (*dy)(r, c) + (*more)(r, c); });
        expect_column_sums(all.beta, both, nullptr);
        product.fill([&](auto r, auto c) { return both(r, c) * (*sum)(r, c); });
        expect_column_sums(all.gamma, product, nullptr);
    }
}

TEST(Norm, DropoutAndAdd) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Shape& s, const Dropout& dropout, Reserved& tested, Rng& rng) {
        const auto x = make_input("x", storage, s.tokens, s.width, rng);
        const auto y = make_input("y", storage, s.tokens, s.width, rng);
        Tensor dropped("dropped", storage, s.tokens, s.width), exact("exact", DType::kF64, s.tokens, s.width);
        dropped.copy(*x);
        exact.copy(*x);
        tested->dropout({dropped.view(), dropout});
        truth->dropout({exact.view(), dropout});
        expect_close(dropped, exact, [&](auto r, auto c) { return 2 * u * std::abs(exact(r, c)); });
        for (std::int64_t r = 0; r < s.tokens; ++r)
            for (std::int64_t c = 0; c < s.width; ++c)
                ASSERT_EQ(dropped(r, c) == 0, exact(r, c) == 0) << r << ", " << c;
        Tensor sum("sum", storage, s.tokens, s.width);
        sum.copy(*y);
        exact.copy(*y);
        tested->add({sum.view(), x->view()});
        truth->add({exact.view(), x->view()});
        expect_close(sum, exact, [&](auto r, auto c) { return u * std::abs(exact(r, c)); });
    });
}

// Inverted dropout keeps the expectation: the share dropped is p, the mean stays.
TEST(Norm, DropoutKeepsTheMean) {
    const std::int64_t rows = 64, width = 1024;
    Reserved tested(make_tested_backend("fp32"), workload_of({rows, width}));
    for (const float p : {0.1f, 0.6f, 0.85f}) {
        Tensor x("x", DType::kF32, rows, width);
        x.fill([](auto, auto) { return 1; });
        tested->dropout({x.view(), {p, {9, 9, 9}}});
        double sum = 0, zeros = 0;
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < width; ++c) sum += x(r, c), zeros += x(r, c) == 0;
        const double n = rows * width, q = double{p};
        EXPECT_NEAR(zeros / n, q, 5 * std::sqrt(q * (1 - q) / n) + 0x1p-16);
        EXPECT_NEAR(sum / n, 1, 5 * std::sqrt(q / (1 - q) / n) + 0x1p-15);
    }
}

TEST(Norm, RunsAndThreadsDoNotMatter) {
    const Shape s{101, 65};
    std::vector<std::vector<unsigned char>> results;
    for (const int threads : {1, 2, 3}) {
        Rng rng(3);
        Reserved tested(make_tested_backend("fp32", threads), workload_of(s));
        const auto dy = make_input("dy", DType::kBf16, s.tokens, s.width, rng);
        const auto sum = make_input("sum", DType::kBf16, s.tokens, s.width, rng);
        const auto gamma = make_input("gamma", DType::kBf16, 1, s.width, rng);
        const auto stats = make_input("stats", DType::kF32, s.tokens, 2, rng);
        Tensor dsum("dsum", DType::kBf16, s.tokens, s.width), dgamma("dgamma", DType::kF32, 1, s.width);
        Tensor dbeta("dbeta", DType::kF32, 1, s.width);
        tested->residual_norm_backward({dy->view(),
                                        sum->view(),
                                        stats->view(),
                                        gamma->view(),
                                        {},
                                        dsum.view(),
                                        {},
                                        dgamma.view(),
                                        dbeta.view(),
                                        false});
        auto all = dsum.bytes();
        for (const auto b : dgamma.bytes()) all.push_back(b);
        for (const auto b : dbeta.bytes()) all.push_back(b);
        results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace elmo::testing_ops::norm_test
