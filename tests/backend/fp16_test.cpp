// FP16 products of linear layers and attention (`fp16` of ops): the reference against numbers worked out by
// hand, the tested backend against the reference. Operands are chosen so that sums in FP32 are exact in any
// order: then what is rounded to FP16 must be the same.
#include <bit>
#include <limits>

#include "op_harness.h"

namespace elmo::testing_ops::fp16_test {
namespace {

constexpr double kStep = 0x1p-10;  // between neighbouring FP16 numbers, relative
constexpr double kLeast = 0x1p-24;

// Multiples of `unit` up to 15, most with a part that FP16 rounds off.
std::unique_ptr<Tensor> make_coarse(const std::string& name, std::int64_t rows, std::int64_t cols, Rng& rng,
                                    double unit, bool rough = true) {
    auto tensor = std::make_unique<Tensor>(name, DType::kF32, rows, cols);
    std::uniform_int_distribution<int> number(-15, 15);
    tensor->fill([&](auto, auto) {
        const double x = number(rng) * unit;
        return rough ? x * (1 + 0x1p-14) : x;
    });
    tensor->freeze();
    return tensor;
}

// The same numbers: a zero may have either sign.
void expect_equal(const Tensor& found, const Tensor& expected) {
    for (std::int64_t r = 0; r < found.rows(); ++r)
        for (std::int64_t c = 0; c < found.cols(); ++c)
            ASSERT_EQ(found(r, c), expected(r, c)) << found.name() << "(" << r << ", " << c << ")";
}

void expect_fp16_numbers(const Tensor& found) {
    for (std::int64_t r = 0; r < found.rows(); ++r)
        for (std::int64_t c = 0; c < found.cols(); ++c)
            ASSERT_EQ(found(r, c), round_fp16(static_cast<float>(found(r, c)))) << found.name();
}

struct Shape {
    std::int64_t tokens, k, n;
};
const Shape kShapes[] = {{0, 3, 5}, {1, 1, 1}, {31, 7, 5}, {33, 32, 64}, {129, 64, 48}, {513, 24, 10}};

// body(shape, tested backend, rng)
template <class Body>
void for_each_shape(const Body& body) {
    Rng rng(5);
    for (const Shape& s : thinned(kShapes, 2)) {
        SCOPED_TRACE(std::to_string(s.tokens) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n));
        Workload workload;
        workload.tokens = workload.longest = s.tokens;
        workload.widest = std::max(s.k, s.n);
        workload.largest_weight = s.k * s.n;
        workload.encoder_dtype = DType::kF32;
        workload.fp16_products = true;
        Reserved tested(make_tested_backend(tested_modes().front().products), workload);
        body(s, *tested, rng);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(Fp16, EveryKindOfNumberIsRoundedAsDefined) {
    std::vector<float> numbers = {0.0f,      -0.0f,        65504.0f,    65519.9f,        65520.0f,
                                  -65520.0f, 1e38f,        0x1p-25f,    0x1.000002p-25f, 0x1.8p-24f,
                                  0x1p-14f,  0x1.ffep-15f, 0x1.fffp-15f};
    numbers.push_back(std::numeric_limits<float>::infinity());
    numbers.push_back(std::numeric_limits<float>::quiet_NaN());
    Rng rng(3);
    std::uniform_int_distribution<std::uint32_t> bits(0, 0x01ffffffu);
    for (std::uint32_t exponent = 90; exponent < 150; ++exponent)
        for (int i = 0; i < 40; ++i) {
            const std::uint32_t mantissa = bits(rng) & (i % 2 == 0 ? 0x7fffffu : 0x7ff000u);  // ties too
            numbers.push_back(std::bit_cast<float>(exponent << 23 | mantissa | (bits(rng) & 1u) << 31));
        }
    const auto count = static_cast<std::int64_t>(numbers.size());
    const auto truth = make_reference_backend();
    Reserved tested(make_tested_backend(tested_modes().front().products), Workload{});
    for (Backend* backend : {truth.get(), &*tested}) {
        Tensor x("x", DType::kF32, 1, count);
        std::memcpy(x.view().data, numbers.data(), numbers.size() * sizeof(float));
        backend->round_fp16(x.view());
        for (std::int64_t i = 0; i < count; ++i) {
            const float from = numbers[static_cast<std::size_t>(i)], found = x.view().as<float>()[i];
            if (std::isnan(from))
                EXPECT_TRUE(std::isnan(found));
            else
                EXPECT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(round_fp16(from)))
                    << backend->name() << ": " << from << " became " << found;
        }
    }
}

// 1 + 2^-11 is half way between two FP16 numbers and goes to 1, 1 + 3 * 2^-11 goes to 1 + 2^-9.
TEST(Fp16, TheReferenceComputesWhatHandsDo) {
    const auto truth = make_reference_backend();
    Tensor x("x", DType::kF32, 2, 2), w("w", DType::kF32, 2, 2), bias("bias", DType::kF32, 1, 2);
    const double one = 1 + 0x1p-11, two = 1 + 3 * 0x1p-11, two16 = 1 + 0x1p-9;
    x.set(0, 0, one), x.set(0, 1, two), x.set(1, 0, 300), x.set(1, 1, 0);
    w.set(0, 0, 2048), w.set(0, 1, 1), w.set(1, 0, 0.5), w.set(1, 1, -0.5);
    bias.set(0, 0, one), bias.set(0, 1, 0);
    Tensor y("y", DType::kF32, 2, 2), dx("dx", DType::kF32, 2, 2), dw("dw", DType::kF32, 2, 2);
    truth->linear_forward(
        {x.view(), w.view(), bias.view(), y.view(), Activation::kNone, {}, {}, {}, {}, {}, true});
    EXPECT_EQ(y(0, 0), 2050);  // 2048 + 1 + 2^-9 + 1 = 2050.002, and FP16 counts by 2 there
    EXPECT_EQ(y(0, 1), -0x1p-10);
    EXPECT_TRUE(std::isinf(y(1, 0)));  // 300 * 2048 = 614,400
    EXPECT_EQ(y(1, 1), 150);
    truth->linear_backward(
        {x.view(), x.view(), w.view(), dx.view(), dw.view(), {}, false, {}, {}, {}, {}, true});
    EXPECT_EQ(dx(0, 0), 2048);  // 2048 + 0.5 (1 + 2^-9) is between 2048 and 2050
    EXPECT_EQ(dx(0, 1), 0.5 - 0x1p-10);
    EXPECT_EQ(dw(0, 1), two16);  // not rounded: 1 * (1 + 2^-9) + 300 * 0
    EXPECT_EQ(dw(0, 0), 90001);  // beyond FP16
}

TEST(Fp16, LinearLayersHaveTheNumbersOfTheReference) {
    const auto truth = make_reference_backend();
    for_each_shape([&](const Shape& s, Backend& tested, Rng& rng) {
        const auto x = make_coarse("x", s.tokens, s.k, rng, 0.25), w = make_coarse("w", s.n, s.k, rng, 0.125);
        const auto bias = make_coarse("bias", 1, s.n, rng, 0.5);
        const auto dy = make_coarse("dy", s.tokens, s.n, rng, 0.5);
        struct Results {
            Tensor y, pre, gelu, dx, dw, dbias;
            explicit Results(const Shape& s)
                : y("y", DType::kF32, s.tokens, s.n),
                  pre("pre", DType::kF32, s.tokens, s.n),
                  gelu("gelu", DType::kF32, s.tokens, s.n),
                  dx("dx", DType::kF32, s.tokens, s.k),
                  dw("dw", DType::kF32, s.n, s.k),
                  dbias("dbias", DType::kF32, 1, s.n) {}
        } found(s), expected(s);
        for (const auto& [backend, to] : {std::pair(&tested, &found), {truth.get(), &expected}}) {
            // (clang 14 captures no structured binding by reference.)
            const auto forward = [&, backend = backend](Activation activation, const Tensor& y, View pre) {
                backend->linear_forward(
                    {x->view(), w->view(), bias->view(), y.view(), activation, pre, {}, {}, {}, {}, true});
            };
            forward(Activation::kNone, to->y, {});
            forward(Activation::kGelu, to->gelu, to->pre.view());
            backend->linear_backward({dy->view(),
                                      x->view(),
                                      w->view(),
                                      to->dx.view(),
                                      to->dw.view(),
                                      to->dbias.view(),
                                      false,
                                      {},
                                      {},
                                      {},
                                      {},
                                      true});
        }
        expect_equal(found.y, expected.y);
        expect_equal(found.pre, expected.pre);
        expect_equal(found.pre, found.y);
        expect_equal(found.dx, expected.dx);
        expect_equal(found.dw, expected.dw);
        expect_equal(found.dbias, expected.dbias);
        // Rounding may go the other way.
        expect_close(found.gelu, expected.gelu, [&](auto r, auto c) {
            const double error = std::abs(found.pre(r, c)) * (kErfError + 4 * kF32Roundoff);
            return error + kStep * (std::abs(expected.gelu(r, c)) + error) + kLeast;
        });
    });
}

TEST(Fp16, GeluBackwardRoundsWhatItStores) {
    const auto truth = make_reference_backend();
    for_each_shape([&](const Shape& s, Backend& tested, Rng& rng) {
        const auto pre = make_coarse("pre", s.tokens, s.n, rng, 0.25, false);
        const auto dy = make_coarse("dy", s.tokens, s.n, rng, 0.5, false);
        Tensor d("d", DType::kF32, s.tokens, s.n), exact("exact", DType::kF32, s.tokens, s.n);
        Tensor gelu("gelu", DType::kF32, s.tokens, s.n), exact_gelu("exact gelu", DType::kF32, s.tokens, s.n);
        Tensor dbias("dbias", DType::kF32, 1, s.n);
        d.copy(*dy), exact.copy(*dy);
        tested.gelu_backward({pre->view(), d.view(), gelu.view(), dbias.view(), false, {}, true});
        truth->gelu_backward({pre->view(), exact.view(), exact_gelu.view(), {}, false, {}, true});
        const auto close = [&](const Tensor& found, const Tensor& expected, double size) {
            expect_close(found, expected, [&](auto r, auto c) {
                const double error = size * 4 * (kErfError + kExpError);
                return error + kStep * (std::abs(expected(r, c)) + error) + kLeast;
            });
            expect_fp16_numbers(found);
        };
        close(d, exact, 15 * 0.5 * 4);
        close(gelu, exact_gelu, 15 * 0.25);
        expect_column_sums(dbias, d, nullptr);
    });
}

// Widths of heads whose scale is a power of two: scores are exact before they are rounded.
TEST(Fp16, AttentionIsTheReferencesUpToAStep) {
    struct Case {
        std::vector<std::int32_t> counts;
        std::int64_t width, heads;
    };
    const Case cases[] = {{{1}, 4, 1}, {{3, 0, 17}, 32, 2}, {{40, 5, 33}, 128, 2}};
    const auto truth = make_reference_backend();
    Rng rng(9);
    for (const Case& c : cases)
        for (const bool biased : {false, true})
            for (const float p : {0.0f, 0.25f}) {
                SCOPED_TRACE("width " + std::to_string(c.width) + ", bias " + std::to_string(biased) +
                             ", dropout " + std::to_string(p));
                const auto offsets = offsets_of(c.counts);
                const std::int64_t tokens = offsets.back(), longest = *std::ranges::max_element(c.counts);
                Workload workload;
                workload.batch = static_cast<std::int64_t>(c.counts.size());
                workload.tokens = tokens;
                workload.longest = longest;
                workload.width = c.width;
                workload.widest = 3 * c.width;
                workload.heads = c.heads;
                workload.encoder_dtype = DType::kF32;
                workload.relative_bias = biased;
                workload.fp16_products = true;
                Reserved tested(make_tested_backend(tested_modes().front().products), workload);
                const auto qkv = make_coarse("qkv", tokens, 3 * c.width, rng, 0.0625, false);
                const auto dcontext = make_coarse("dcontext", tokens, c.width, rng, 0.25, false);
                const auto bias =
                    biased ? make_coarse("bias", kRelativeBuckets, c.heads, rng, 0.0625) : nullptr;
                const Dropout dropout{p, {5, 6, 7}};
                struct Results {
                    Tensor context, again, lse, dqkv, dbias;
                    Results(const Case& c, std::int64_t tokens)
                        : context("context", DType::kF32, tokens, c.width),
                          again("context again", DType::kF32, tokens, c.width),
                          lse("lse", DType::kF32, tokens, c.heads),
                          dqkv("dqkv", DType::kF32, tokens, 3 * c.width),
                          dbias("dbias", DType::kF32, kRelativeBuckets, c.heads) {
                        dbias.fill([](auto, auto) { return 0.0; });
                    }
                } found(c, tokens), expected(c, tokens);
                for (const auto& [backend, to] : {std::pair(&*tested, &found), {truth.get(), &expected}}) {
                    backend->attention_forward({qkv->view(),
                                                offsets,
                                                c.heads,
                                                dropout,
                                                to->context.view(),
                                                to->lse.view(),
                                                view_of(bias),
                                                {},
                                                true});
                    AttentionBackward op{dcontext->view(),
                                         qkv->view(),
                                         to->again.view(),
                                         to->lse.view(),
                                         offsets,
                                         c.heads,
                                         dropout,
                                         to->dqkv.view(),
                                         view_of(bias),
                                         biased ? to->dbias.view() : View{},
                                         true};
                    op.fp16 = true;
                    backend->attention_backward(op);
                    expect_same_bits(to->again, to->context);
                }
                // Scores are the reference's, weights near them, so what is rounded is a step away at most.
                // Magnitudes: scores below sqrt(size) + 1, v and dcontext below 1 and 4, weights of a row add
                // up to 1, dropped ones to 4 / 3.
                const auto n = static_cast<double>(longest), size = static_cast<double>(c.width / c.heads);
                const double lse = 2 * kExpError + (n + 16 + std::sqrt(size)) * 2 * kF32Roundoff;
                const double relative = 4 * lse;
                expect_close(found.lse, expected.lse, [&](auto, auto) { return lse; });
                const auto on_grid = [&](const Tensor& t, double error) {
                    return [&t, error](auto r, auto col) {
                        return error + kStep * (std::abs(t(r, col)) + error) + kLeast;
                    };
                };
                expect_close(found.context, expected.context,
                             on_grid(expected.context, 1.4 * (relative + kStep) + n * kLeast));
                // |dp| is below 4 size / 0.75, |ds| twice that times the weight; of keys and queries n each.
                const double dp = 4 * size / 0.75;
                const double by_row = 2 * dp * (4 * relative + kStep) / std::sqrt(size) + n * kLeast;
                expect_close(found.dqkv, expected.dqkv, [&](auto r, auto col) {
                    const double rows = col < c.width ? 1 : n;
                    return on_grid(expected.dqkv, rows * (2 * by_row + 1.4 * 4 * (relative + kStep)))(r, col);
                });
                expect_fp16_numbers(found.context);
                expect_fp16_numbers(found.dqkv);
                if (biased)
                    expect_close(found.dbias, expected.dbias,
                                 [&](auto, auto) { return static_cast<double>(tokens) * 8 * dp * relative; });
            }
}

}  // namespace
}  // namespace elmo::testing_ops::fp16_test
