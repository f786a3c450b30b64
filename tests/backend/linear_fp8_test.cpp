// FP8 products of linear layers: the reference against a second implementation of the contract, the tested
// backend against the reference, and the tensors that need care: zeros, extremes, what is not finite.
#include <limits>
#include <numbers>

#include "op_harness.h"

namespace elmo::testing_ops::linear_fp8_test {
namespace {

struct Shape {
    std::int64_t tokens, k, n;
};

// Widths in sixteens are multiplied in FP8 by a GPU that has it, others by a plain kernel.
const Shape kShapes[] = {{0, 16, 16},   {1, 16, 32},   {17, 32, 16},    {31, 64, 48}, {128, 16, 144},
                         {129, 80, 16}, {513, 16, 80}, {1041, 144, 16}, {1, 3, 5},    {17, 7, 16},
                         {31, 16, 9},   {65, 33, 31},  {300, 24, 40}};

Workload workload_of(const Shape& s) {
    Workload workload;
    workload.tokens = s.tokens;
    workload.longest = s.tokens;
    workload.widest = std::max(s.k, s.n);
    workload.largest_weight = s.k * s.n;
    workload.fp8_products = true;
    return workload;
}

std::vector<Mode> fp8_modes() {
    std::vector<Mode> modes = tested_modes();
    std::erase_if(modes, [](const Mode& mode) { return mode.storage != DType::kBf16; });
    return modes;
}

// body(shape, tested backend, rng) for all products and shapes.
template <class Body>
void for_each_case(const Body& body) {
    Rng rng(11);
    for (const Mode& mode : fp8_modes())
        for (const Shape& shape : thinned(kShapes, 3)) {
            SCOPED_TRACE(describe(mode) + ", " + std::to_string(shape.tokens) + " x " +
                         std::to_string(shape.k) + " x " + std::to_string(shape.n));
            Reserved tested(make_tested_backend(mode.products), workload_of(shape));
            body(shape, *tested, rng);
            if (testing::Test::HasFatalFailure()) return;
        }
}

// Bound of the error of a sum of n FP8 products relative to the sum of their magnitudes. A GPU's instruction
// adds 32 products and the sum so far, each cut at 13 bits below the largest of them, and the result once
// more.
double product_error(std::int64_t n) {
    if (!kTestsGpu) return sum_error(n + 1);
    const std::int64_t instructions = (n + 31) / 32;
    return static_cast<double>(instructions * 34) * 0x1p-13 + sum_error(n + 1);
}

// One layer with its gradients, of one storage type. The backward has of x what the forward kept.
struct Layer {
    Tensor y, pre, dx, dw, dbias, amax, codes, room;
    Layer(DType dtype, const Shape& s)
        : y("y", dtype, s.tokens, s.n),
          pre("pre", dtype, s.tokens, s.n),
          dx("dx", dtype, s.tokens, s.k),
          dw("dw", dtype, s.n, s.k),
          dbias("dbias", dtype, 1, s.n),
          amax("amax", DType::kF32, 1, 3),
          codes("codes", DType::kU8, in_sixteens(s.tokens), s.k),
          room("room", DType::kU8, in_sixteens(s.tokens), std::max(s.k, 2 * s.n)) {}

    void run(Backend& backend, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& dy,
             Activation activation = Activation::kNone, const View& slope = {}) {
        const bool gelu = activation == Activation::kGelu;
        backend.linear_forward({x.view(), w.view(), bias.view(), y.view(), activation,
                                gelu ? pre.view() : View{}, amax.view(), codes.view(), slope, room.view()});
        backend.linear_backward({dy.view(),
                                 {},
                                 w.view(),
                                 dx.view(),
                                 dw.view(),
                                 dbias.view(),
                                 false,
                                 amax.view(),
                                 codes.view(),
                                 {},
                                 room.view()});
    }
};

struct Inputs {
    std::unique_ptr<Tensor> x, w, bias, dy;
    Inputs(const Shape& s, Rng& rng)
        : x(make_input("x", DType::kBf16, s.tokens, s.k, rng, 3)),
          w(make_input("w", DType::kBf16, s.n, s.k, rng, 0.05)),
          bias(make_input("bias", DType::kBf16, 1, s.n, rng)),
          dy(make_input("dy", DType::kBf16, s.tokens, s.n, rng, 1e-4)) {}
};

// The nearest number of the format, ties to the even code, found by looking at all of them.
double nearest_by_search(const MiniFloat& format, double x) {
    double best = 0;
    int best_code = 0;
    for (int code = 0; code <= format.top_code; ++code) {
        const double value = format.decode(static_cast<std::uint32_t>(code));
        const double gain = std::abs(std::abs(x) - best) - std::abs(std::abs(x) - value);
        if (gain > 0 || (gain == 0 && code % 2 == 0 && best_code % 2 == 1)) best = value, best_code = code;
    }
    return std::copysign(best, x);
}

// What a tensor becomes, by the words of the contract.
std::vector<double> on_grid(const MiniFloat& format, const Tensor& t) {
    double amax = 0;
    for (std::int64_t r = 0; r < t.rows(); ++r)
        for (std::int64_t c = 0; c < t.cols(); ++c) amax = std::max(amax, std::abs(t(r, c)));
    double scale = 1;
    if (amax > 0) {
        while (amax * scale * 2 <= format.max_value()) scale *= 2;
        while (amax * scale > format.max_value()) scale /= 2;
    }
    std::vector<double> values;
    for (std::int64_t r = 0; r < t.rows(); ++r)
        for (std::int64_t c = 0; c < t.cols(); ++c)
            values.push_back(nearest_by_search(format, t(r, c) * scale) / scale);
    return values;
}

// A sum in FP64, and how far another order of it may be: each of the two is off by at most the unit roundoff
// of all sizes a term. Products of FP8 numbers are exact.
struct Sum {
    double value = 0, size = 0;
    int terms = 0;
    void add(double term) {
        value += term;
        size += std::abs(term);
        ++terms;
    }
    double error() const { return 2 * terms * 0x1p-53 * size; }
};

TEST(LinearFp8, TheReferenceIsTheContract) {
    const auto truth = make_reference_backend();
    Rng rng(3);
    for (const Shape& s : {Shape{5, 7, 3}, Shape{17, 16, 16}}) {
        const Inputs in(s, rng);
        Layer layer(DType::kF64, s);
        layer.run(*truth, *in.x, *in.w, *in.bias, *in.dy);
        const auto x = on_grid(kE4M3, *in.x), w = on_grid(kE4M3, *in.w), dy = on_grid(kE5M2, *in.dy);
        const auto at = [](const std::vector<double>& m, std::int64_t cols, auto r, auto c) {
            return m[static_cast<std::size_t>(r * cols + c)];
        };
        double amax = 0;
        for (std::int64_t t = 0; t < s.tokens; ++t)
            for (std::int64_t k = 0; k < s.k; ++k) amax = std::max(amax, std::abs((*in.x)(t, k)));
        EXPECT_EQ(layer.amax(0, 0), amax);
        for (std::int64_t t = 0; t < s.tokens; ++t)
            for (std::int64_t n = 0; n < s.n; ++n) {
                Sum sum;
                sum.add((*in.bias)(0, n));
                for (std::int64_t k = 0; k < s.k; ++k) sum.add(at(x, s.k, t, k) * at(w, s.k, n, k));
                EXPECT_NEAR(layer.y(t, n), sum.value, sum.error());
            }
        for (std::int64_t t = 0; t < s.tokens; ++t)
            for (std::int64_t k = 0; k < s.k; ++k) {
                Sum sum;
                for (std::int64_t n = 0; n < s.n; ++n) sum.add(at(dy, s.n, t, n) * at(w, s.k, n, k));
                EXPECT_NEAR(layer.dx(t, k), sum.value, sum.error());
            }
        for (std::int64_t n = 0; n < s.n; ++n) {
            for (std::int64_t k = 0; k < s.k; ++k) {
                Sum sum;
                for (std::int64_t t = 0; t < s.tokens; ++t) sum.add(at(dy, s.n, t, n) * at(x, s.k, t, k));
                EXPECT_NEAR(layer.dw(n, k), sum.value, sum.error());
            }
            Sum sum;
            for (std::int64_t t = 0; t < s.tokens; ++t) sum.add((*in.dy)(t, n));
            EXPECT_NEAR(layer.dbias(0, n), sum.value, sum.error());
        }
    }
}

TEST(LinearFp8, ForwardAndBackward) {
    const auto truth = make_reference_backend();
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        Layer found(DType::kBf16, s), exact(DType::kF64, s), size(DType::kF64, s);
        found.run(tested, *in.x, *in.w, *in.bias, *in.dy);
        exact.run(*truth, *in.x, *in.w, *in.bias, *in.dy);
        const auto ax = absolute(*in.x), aw = absolute(*in.w), ab = absolute(*in.bias),
                   ady = absolute(*in.dy);
        size.run(*truth, *ax, *aw, *ab, *ady);
        if (s.tokens > 0) expect_same_bits(found.amax, exact.amax);
        expect_close(found.y, exact.y, [&](auto r, auto c) { return product_error(s.k) * size.y(r, c); });
        expect_close(found.dx, exact.dx, [&](auto r, auto c) { return product_error(s.n) * size.dx(r, c); });
        expect_close(found.dw, exact.dw,
                     [&](auto r, auto c) { return product_error(s.tokens) * size.dw(r, c); });
        expect_close(found.dbias, exact.dbias,
                     [&](auto r, auto c) { return sum_error(s.tokens + 1) * size.dbias(r, c); });
        // Two calls give the bits of one; a part may be left out; x itself gives what its codes give.
        Tensor dw("dw alone", DType::kBf16, s.n, s.k), dx("dx alone", DType::kBf16, s.tokens, s.k);
        Tensor codes("codes of x", DType::kU8, in_sixteens(s.tokens), s.k);
        tested.linear_backward({in.dy->view(),
                                {},
                                in.w->view(),
                                dx.view(),
                                {},
                                {},
                                false,
                                found.amax.view(),
                                {},
                                {},
                                found.room.view()});
        tested.linear_backward({in.dy->view(),
                                in.x->view(),
                                in.w->view(),
                                {},
                                dw.view(),
                                {},
                                false,
                                found.amax.view(),
                                codes.view(),
                                {},
                                found.room.view()});
        expect_same_bits(dx, found.dx);
        expect_same_bits(dw, found.dw);
    });
}

// Whole numbers from -2 to 2 are on both grids, and sums of their products need at most 13 bits: every
// backend has the same bits, independent of what the instruction keeps.
TEST(LinearFp8, SumsOfSmallWholeNumbersAreExact) {
    const auto truth = make_reference_backend();
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const auto whole = [&](const char* name, std::int64_t rows, std::int64_t cols) {
            auto t = std::make_unique<Tensor>(name, DType::kBf16, rows, cols);
            std::uniform_int_distribution<int> pick(-2, 2);
            t->fill([&](auto, auto) { return pick(rng); });
            t->freeze();
            return t;
        };
        const auto x = whole("x", s.tokens, s.k), w = whole("w", s.n, s.k), bias = whole("bias", 1, s.n);
        const auto dy = whole("dy", s.tokens, s.n);
        Layer found(DType::kBf16, s), exact(DType::kBf16, s);
        found.run(tested, *x, *w, *bias, *dy);
        exact.run(*truth, *x, *w, *bias, *dy);
        expect_same_bits(found.y, exact.y);
        expect_same_bits(found.dx, exact.dx);
        expect_same_bits(found.dw, exact.dw);
        expect_same_bits(found.dbias, exact.dbias);
        // Gradients of several steps are summed in FP32.
        Tensor sum("sum", DType::kF32, s.n, s.k), sums("sum of biases", DType::kF32, 1, s.n);
        sum.fill([](auto, auto) { return 0.25; });
        sums.fill([](auto, auto) { return 0.25; });
        tested.linear_backward({dy->view(),
                                {},
                                w->view(),
                                {},
                                sum.view(),
                                sums.view(),
                                true,
                                found.amax.view(),
                                found.codes.view(),
                                {},
                                found.room.view()});
        Tensor truth_sum("sum", DType::kF32, s.n, s.k), truth_sums("sum of biases", DType::kF32, 1, s.n);
        truth_sum.fill([](auto, auto) { return 0.25; });
        truth_sums.fill([](auto, auto) { return 0.25; });
        truth->linear_backward({dy->view(),
                                x->view(),
                                w->view(),
                                {},
                                truth_sum.view(),
                                truth_sums.view(),
                                true,
                                exact.amax.view()});
        expect_same_bits(sum, truth_sum);
        expect_same_bits(sums, truth_sums);
    });
}

TEST(LinearFp8, GeluSeesTheRoundedSum) {
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        Layer found(DType::kBf16, s), plain(DType::kBf16, s);
        found.run(tested, *in.x, *in.w, *in.bias, *in.dy, Activation::kGelu);
        plain.run(tested, *in.x, *in.w, *in.bias, *in.dy);
        expect_same_bits(found.pre, plain.y);
        Tensor y("gelu", DType::kF64, s.tokens, s.n);
        y.fill([&](auto r, auto c) {
            const double pre = found.pre(r, c);
            return pre * 0.5 * std::erfc(-pre / std::sqrt(2.0));
        });
        expect_close(found.y, y, [&](auto r, auto c) {
            return 0.5 * std::abs(found.pre(r, c)) * (kErfError + 4 * kF32Roundoff);
        });
    });
}

// A product that takes the gelu of its input gives what it gives of the gelu. The slopes are the nearest
// codes, and all that the gelu's backward takes.
TEST(LinearFp8, TakesTheGeluOfItsInput) {
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        const auto like_x = [&](const char* name, DType dtype) {
            return std::make_unique<Tensor>(name, dtype, s.tokens, s.k);
        };
        const auto dy = make_input("dy", DType::kBf16, s.tokens, s.k, rng);
        const auto gelu = like_x("gelu", DType::kBf16), product = like_x("dy times slope", DType::kBf16);
        product->copy(*dy);
        tested.gelu_backward({in.x->view(), product->view(), gelu->view()});
        gelu->freeze();
        Layer expected(DType::kBf16, s), found(DType::kBf16, s);
        expected.run(tested, *gelu, *in.w, *in.bias, *in.dy);
        const auto x = like_x("x", DType::kBf16), slope = like_x("slope", DType::kU8);
        x->copy(*in.x);
        found.run(tested, *x, *in.w, *in.bias, *in.dy, Activation::kNone, slope->view());
        expect_same_bits(found.y, expected.y);
        expect_same_bits(found.dx, expected.dx);
        expect_same_bits(found.dw, expected.dw);
        if (s.tokens > 0) expect_same_bits(found.amax, expected.amax);

        // From x again, with dx in its place.
        const auto slope_again = like_x("slope again", DType::kU8);
        Tensor dw("dw again", DType::kBf16, s.n, s.k), codes("codes", DType::kU8, in_sixteens(s.tokens), s.k);
        x->copy(*in.x);
        tested.linear_backward({in.dy->view(),
                                x->view(),
                                in.w->view(),
                                x->view(),
                                dw.view(),
                                {},
                                false,
                                found.amax.view(),
                                codes.view(),
                                slope_again->view(),
                                found.room.view()});
        expect_same_bits(dw, expected.dw);
        EXPECT_EQ(x->bytes(), expected.dx.bytes());
        EXPECT_EQ(slope_again->bytes(), slope->bytes());

        const std::vector<unsigned char> slopes = slope->bytes();
        product->copy(*dy);
        tested.gelu_backward({{}, product->view(), {}, {}, false, slope->view()});
        Tensor rounded("rounded", DType::kBf16, s.tokens, s.k);
        for (std::int64_t r = 0; r < s.tokens; ++r)
            for (std::int64_t c = 0; c < s.k; ++c) {
                const double pre = (*in.x)(r, c);
                const double exact = 0.5 * std::erfc(-pre / std::numbers::sqrt2) +
                                     pre * std::exp(-0.5 * pre * pre) / std::sqrt(2 * std::numbers::pi);
                const float stored = slope_of(slopes[static_cast<std::size_t>(r * s.k + c)]);
                ASSERT_NEAR(stored, exact, 0x1p-8 + kErfError + std::abs(pre) * kExpError) << pre;
                rounded.set(r, c, (*dy)(r, c) * static_cast<double>(stored));
            }
        expect_same_bits(*product, rounded);
    });
}

// What a bias's gradient should be.
struct ColumnSums {
    Tensor exact, size;
    std::int64_t tokens;
    explicit ColumnSums(const Tensor& of)
        : exact("exact", DType::kF64, 1, of.cols()),
          size("size", DType::kF64, 1, of.cols()),
          tokens(of.rows()) {
        for (std::int64_t c = 0; c < of.cols(); ++c) {
            double sum = 0, sizes = 0;
            for (std::int64_t r = 0; r < tokens; ++r) sum += of(r, c), sizes += std::abs(of(r, c));
            exact.set(0, c, sum);
            size.set(0, c, sizes);
        }
    }
    void expect_close_to(const Tensor& found) const {
        expect_close(found, exact, [&](auto, auto c) { return sum_error(tokens + 1) * size(0, c); });
    }
};

// What a GELU saw may be kept as codes: the forward is the same, and the backward that of what they stand
// for.
TEST(LinearFp8, GeluOfCodes) {
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        const auto with_large = [&](Tensor& x) {
            const double large[] = {-1e30, 17.0, 100.0, -15.5, 1e30, 16.0};
            x.copy(*in.x);
            for (std::int64_t i = 0; i < std::min<std::int64_t>(6, s.tokens * s.k / 3); ++i)
                x.set(3 * i / s.k, 3 * i % s.k, large[i]);
        };
        Tensor x("x", DType::kBf16, s.tokens, s.k), slope("slope", DType::kU8, s.tokens, s.k),
            seen("seen", DType::kU8, s.tokens, s.k), stands("stands for", DType::kBf16, s.tokens, s.k);
        Layer expected(DType::kBf16, s), found(DType::kBf16, s);
        // Once with the guess of nothing, then with the right one.
        for (int round = 0; round < 2; ++round) {
            with_large(x);
            expected.run(tested, x, *in.w, *in.bias, *in.dy, Activation::kNone, slope.view());
            with_large(x);
            LinearForward op{x.view(),
                             in.w->view(),
                             in.bias->view(),
                             found.y.view(),
                             Activation::kNone,
                             {},
                             found.amax.view(),
                             {},
                             {},
                             found.room.view()};
            op.seen_TK = seen.view();
            tested.linear_forward(op);
            expect_same_bits(found.y, expected.y);
            with_large(x);
            for (std::int64_t r = 0; r < s.tokens; ++r)
                for (std::int64_t c = 0; c < s.k; ++c) {
                    const std::uint8_t code = seen.view().codes()[r * s.k + c];
                    ASSERT_EQ(code, pre_code(static_cast<float>(x(r, c)))) << x(r, c);
                    stands.set(r, c, static_cast<double>(pre_of(code)));
                }
        }
        const auto backward = [&](Layer& layer, const View& of, const View& slopes) {
            tested.linear_backward({in.dy->view(),
                                    of,
                                    in.w->view(),
                                    layer.dx.view(),
                                    layer.dw.view(),
                                    {},
                                    false,
                                    found.amax.view(),
                                    layer.codes.view(),
                                    slopes,
                                    layer.room.view()});
        };
        backward(expected, stands.view(), slope.view());
        backward(found, seen.view(), {});
        expect_same_bits(found.dx, expected.dx);
        expect_same_bits(found.dw, expected.dw);
    });
}

// A gradient that is multiplied by GELU's derivatives at codes on its way to the products gives what it gives
// when that is done first.
TEST(LinearFp8, MultipliesItsGradientByDerivativesAtCodes) {
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        Tensor seen("seen", DType::kU8, s.tokens, s.n), product("product", DType::kBf16, s.tokens, s.n),
            dy("dy", DType::kBf16, s.tokens, s.n);
        std::uniform_int_distribution<int> pick(0, 255);
        for (std::int64_t i = 0; i < s.tokens * s.n; ++i)
            seen.view().codes()[i] = static_cast<std::uint8_t>(pick(rng));
        seen.freeze();
        product.copy(*in.dy);
        tested.gelu_backward({seen.view(), product.view()});
        product.freeze();
        Layer expected(DType::kBf16, s), found(DType::kBf16, s);
        expected.run(tested, *in.x, *in.w, *in.bias, product);
        const ColumnSums sums(product);
        found.run(tested, *in.x, *in.w, *in.bias, *in.dy);
        // Once with a wrong guess, then with the right one.
        for (int round = 0; round < 2; ++round) {
            dy.copy(*in.dy);
            LinearBackward op{dy.view(),         {}, in.w->view(), found.dx.view(), found.dw.view(),
                              found.dbias.view()};
            op.amax_13 = found.amax.view();
            op.x_codes = found.codes.view();
            op.room = found.room.view();
            op.dy_seen_TN = seen.view();
            tested.linear_backward(op);
            expect_same_bits(found.dx, expected.dx);
            expect_same_bits(found.dw, expected.dw);
            if (s.tokens > 0) expect_same_bits(found.amax, expected.amax);
            sums.expect_close_to(found.dbias);
        }
    });
}

// A gradient that is multiplied by slopes on its way to the products gives what it gives when that is done
// first. The slopes may be where room for codes is.
TEST(LinearFp8, MultipliesItsGradientBySlopes) {
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        Tensor slope("slope", DType::kU8, s.tokens, s.n);
        std::uniform_int_distribution<int> pick(slope_code(-0.13f), slope_code(1.13f));
        for (std::int64_t i = 0; i < s.tokens * s.n; ++i)
            slope.view().codes()[i] = static_cast<std::uint8_t>(pick(rng));
        const bool bad = s.tokens == 129;
        if (bad) slope.view().codes()[s.n * 20 + s.n - 1] = kSlopeNan;
        slope.freeze();
        Tensor product("product", DType::kBf16, s.tokens, s.n);
        product.copy(*in.dy);
        tested.gelu_backward({{}, product.view(), {}, {}, false, slope.view()});
        product.freeze();
        Layer expected(DType::kBf16, s), found(DType::kBf16, s);
        expected.run(tested, *in.x, *in.w, *in.bias, product);
        const ColumnSums sums(product);

        // Once with the guess of nothing, then with the right one; the room begins with dead bytes.
        const std::int64_t padded = in_sixteens(s.tokens) + 16;
        Tensor room("room", DType::kU8, 2 * padded, s.n);
        const View inside{room.view().codes() + padded * s.n, DType::kU8, s.tokens, s.n};
        tested.linear_forward({in.x->view(),
                               in.w->view(),
                               in.bias->view(),
                               found.y.view(),
                               Activation::kNone,
                               {},
                               found.amax.view(),
                               found.codes.view(),
                               {},
                               found.room.view()});
        for (const bool in_room : {false, true, true}) {
            SCOPED_TRACE(in_room);
            Tensor dy("dy", DType::kBf16, s.tokens, s.n);
            dy.copy(*in.dy);
            std::copy_n(slope.view().codes(), s.tokens * s.n, inside.codes());
            tested.linear_backward({dy.view(),
                                    {},
                                    in.w->view(),
                                    found.dx.view(),
                                    found.dw.view(),
                                    found.dbias.view(),
                                    false,
                                    found.amax.view(),
                                    found.codes.view(),
                                    {},
                                    in_room ? room.view() : found.room.view(),
                                    false,
                                    in_room ? inside : slope.view()});
            expect_same_bits(found.dx, expected.dx);
            expect_same_bits(found.dw, expected.dw);
            if (s.tokens > 0) expect_same_bits(found.amax, expected.amax);
            if (bad)
                EXPECT_TRUE(std::isnan(found.dbias(0, s.n - 1)));
            else
                sums.expect_close_to(found.dbias);
        }
    });
}

// A call for dx and one for dw may share the codes of dy.
TEST(LinearFp8, TwoCallsShareCodesOfTheGradient) {
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        Layer expected(DType::kBf16, s), found(DType::kBf16, s);
        for (Layer* layer : {&expected, &found}) layer->run(tested, *in.x, *in.w, *in.bias, *in.dy);
        found.dx.fill([](auto, auto) { return 0; });
        found.dw.fill([](auto, auto) { return 0; });
        LinearBackward op{in.dy->view(), {}, in.w->view(), found.dx.view(), {}, {}};
        op.amax_13 = found.amax.view();
        op.room = found.room.view();
        op.dy_codes = true;
        tested.linear_backward(op);
        op.dx_TK = {};
        op.dw_NK = found.dw.view();
        op.x_codes = found.codes.view();
        tested.linear_backward(op);
        expect_same_bits(found.dx, expected.dx);
        expect_same_bits(found.dw, expected.dw);
    });
}

// Numbers of every size, of both signs: a backend may have a table of what GELU makes of them.
TEST(LinearFp8, GeluOfEverySize) {
    const Shape s{16, 16, 16};
    Rng rng(5);
    for (const Mode& mode : fp8_modes()) {
        Reserved tested(make_tested_backend(mode.products), workload_of(s));
        for (int power = -12; power <= 6; ++power) {
            SCOPED_TRACE(power);
            Tensor x("x", DType::kBf16, 16, 16), w("w", DType::kBf16, 16, 16),
                bias("bias", DType::kBf16, 1, 16);
            x.fill([&](auto r, auto c) {
                const double size = 1 + static_cast<double>(r % 8 * 16 + c) / 128;
                return std::ldexp(r < 8 ? size : -size, power);
            });
            w.fill([](auto r, auto c) { return r == c; });
            bias.fill([](auto, auto) { return 0; });
            Tensor gelu("gelu", DType::kBf16, 16, 16), dy("dy", DType::kBf16, 16, 16);
            Tensor slope("slope", DType::kU8, 16, 16);
            dy.fill([](auto, auto) { return 1; });
            dy.freeze();
            Tensor ones("ones", DType::kBf16, 16, 16);
            ones.copy(dy);
            (*tested).gelu_backward({x.view(), ones.view(), gelu.view()});
            Layer expected(DType::kBf16, s), found(DType::kBf16, s);
            expected.run(*tested, gelu, w, bias, dy);
            for (std::int64_t r = 0; r < 16; ++r)
                for (std::int64_t c = 0; c < 16; ++c) gelu.set(r, c, x(r, c));
            found.run(*tested, gelu, w, bias, dy, Activation::kNone, slope.view());
            expect_same_bits(found.y, expected.y);
            expect_same_bits(found.dw, expected.dw);
            expect_same_bits(found.amax, expected.amax);
            for (std::int64_t r = 0; r < 16; ++r)
                for (std::int64_t c = 0; c < 16; ++c) {
                    const double pre = x(r, c);
                    const double exact = 0.5 * std::erfc(-pre / std::numbers::sqrt2) +
                                         pre * std::exp(-0.5 * pre * pre) / std::sqrt(2 * std::numbers::pi);
                    ASSERT_NEAR(slope_of(slope.view().codes()[r * 16 + c]), exact,
                                0x1p-8 + kErfError + std::abs(pre) * kExpError)
                        << pre;
                }
        }
    }
}

TEST(LinearFp8, SlopesOfTheTailsAreExact) {
    EXPECT_EQ(slope_of(slope_code(0.0f)), 0.0f);
    EXPECT_EQ(slope_of(slope_code(1.0f)), 1.0f);
    EXPECT_NEAR(slope_of(slope_code(1.1290f)), 1.1290, 0x1p-8);
    EXPECT_NEAR(slope_of(slope_code(-0.1290f)), -0.1290, 0x1p-8);
    EXPECT_TRUE(std::isnan(slope_of(slope_code(std::numeric_limits<float>::quiet_NaN()))));
}

// One operand scaled by a power of two scales the results, however far from 1 it is; zeros give zeros.
TEST(LinearFp8, ScalesTakeAnyMagnitude) {
    std::size_t turn = 0;
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        const auto times = [](const Tensor& t, double factor) {
            auto scaled = std::make_unique<Tensor>(t.name() + " scaled", DType::kBf16, t.rows(), t.cols());
            scaled->fill([&](auto r, auto c) { return t(r, c) * factor; });
            scaled->freeze();
            return scaled;
        };
        const auto none = times(*in.bias, 0);
        Layer plain(DType::kBf16, s);
        plain.run(tested, *in.x, *in.w, *none, *in.dy);
        const auto expect_times = [&](const Tensor& found, const Tensor& expected, double factor) {
            Tensor scaled("scaled", DType::kBf16, expected.rows(), expected.cols());
            scaled.fill([&](auto r, auto c) { return expected(r, c) * factor; });
            expect_same_bits(found, scaled);
        };
        for (const double factor : in_turn({0x1p100, 0x1p-70}, turn)) {
            SCOPED_TRACE(factor);
            const auto x = times(*in.x, factor), w = times(*in.w, factor), dy = times(*in.dy, factor);
            Layer found(DType::kBf16, s);
            found.run(tested, *x, *in.w, *none, *in.dy);
            expect_times(found.y, plain.y, factor);
            expect_times(found.dw, plain.dw, factor);
            found.run(tested, *in.x, *w, *none, *dy);
            expect_times(found.y, plain.y, factor);
            expect_times(found.dw, plain.dw, factor);
            found.run(tested, *in.x, *in.w, *none, *dy);
            expect_times(found.dx, plain.dx, factor);
        }
        const auto zero_x = times(*in.x, 0), zero_w = times(*in.w, 0), zero_dy = times(*in.dy, 0);
        Layer found(DType::kBf16, s);
        found.run(tested, *zero_x, *zero_w, *none, *zero_dy);
        for (const Tensor* t : {&found.y, &found.dx, &found.dw, &found.dbias})
            for (std::int64_t r = 0; r < t->rows(); ++r)
                for (std::int64_t c = 0; c < t->cols(); ++c) ASSERT_EQ((*t)(r, c), 0) << t->name();
        EXPECT_TRUE(s.tokens == 0 || found.amax(0, 0) == 0);
    });
}

// A device may guess a scale from what amax held before: no result depends on it.
TEST(LinearFp8, WhatAmaxHeldBeforeChangesNothing) {
    std::size_t turn = 0;
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        const Inputs in(s, rng);
        Layer first(DType::kBf16, s);  // amax begins as NaN
        first.run(tested, *in.x, *in.w, *in.bias, *in.dy);
        for (const double guess :
             in_turn({0.0, 1e-30, 1.0, 1e30, -1.0, std::numeric_limits<double>::infinity()}, turn)) {
            SCOPED_TRACE(guess);
            Layer other(DType::kBf16, s);
            other.amax.fill([&](auto, auto) { return guess; });
            // Once with that guess, once with the right one.
            for (int round = 0; round < 2; ++round) {
                other.run(tested, *in.x, *in.w, *in.bias, *in.dy);
                expect_same_bits(other.y, first.y);
                expect_same_bits(other.dx, first.dx);
                expect_same_bits(other.dw, first.dw);
                if (s.tokens > 0) expect_same_bits(other.amax, first.amax);
            }
        }
    });
}

// What is not finite reaches every result that it is a term of, and no other.
TEST(LinearFp8, WhatIsNotFiniteStaysSo) {
    std::size_t turn = 0;
    for_each_case([&](const Shape& s, Backend& tested, Rng& rng) {
        if (s.tokens == 0) return;
        for (const double bad :
             in_turn({std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                      -std::numeric_limits<double>::infinity()},
                     turn)) {
            const Inputs in(s, rng);
            const std::int64_t row = s.tokens - 1;
            const auto spoiled = [&](const Tensor& t, std::int64_t r, std::int64_t c) {
                auto copy = std::make_unique<Tensor>(t.name(), DType::kBf16, t.rows(), t.cols());
                copy->copy(t);
                copy->set(r, c, bad);
                copy->freeze();
                return copy;
            };
            const auto x = spoiled(*in.x, row, s.k - 1), dy = spoiled(*in.dy, row, s.n - 1);
            const auto w = spoiled(*in.w, s.n - 1, s.k - 1);
            const auto expect_bad = [&](const Tensor& t, auto is_bad) {
                for (std::int64_t r = 0; r < t.rows(); ++r)
                    for (std::int64_t c = 0; c < t.cols(); ++c)
                        ASSERT_EQ(!std::isfinite(t(r, c)), is_bad(r, c))
                            << t.name() << " " << r << " " << c << ": " << t(r, c);
            };
            Layer found(DType::kBf16, s);
            found.run(tested, *x, *in.w, *in.bias, *in.dy);
            expect_bad(found.y, [&](auto r, auto) { return r == row; });
            expect_bad(found.dw, [&](auto, auto c) { return c == s.k - 1; });
            EXPECT_FALSE(std::isfinite(found.amax(0, 0)));
            found.run(tested, *in.x, *in.w, *in.bias, *dy);
            expect_bad(found.dx, [&](auto r, auto) { return r == row; });
            expect_bad(found.dw, [&](auto r, auto) { return r == s.n - 1; });
            found.run(tested, *in.x, *w, *in.bias, *in.dy);
            expect_bad(found.y, [&](auto, auto c) { return c == s.n - 1; });
            expect_bad(found.dx, [&](auto, auto c) { return c == s.k - 1; });
        }
    });
}

}  // namespace
}  // namespace elmo::testing_ops::linear_fp8_test
