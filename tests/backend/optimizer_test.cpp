// AdamW of the tested backend. The moments and the update are FP32 computations of a few roundings, so the
// stored numbers must lie between the roundings, with the same noise, of the two ends of the computed
// interval.
#include "base/parallel.h"
#include "optimizer_harness.h"

namespace elmo::testing_ops::optimizer_test {
namespace {

constexpr double u = kF32Roundoff;

using Shape = MatrixShape;
const Shape kShapes[] = {{1, 1}, {1, 127}, {3, 129}, {2, 1023}, {2, 1025}, {65, 7}};

// The state of one tensor.
struct State {
    Tensor w, m, v, c;
    State(const std::string& name, DType dtype, const Shape& s)
        : w(name + " w", dtype, s.rows, s.cols),
          m(name + " m", dtype, s.rows, s.cols),
          v(name + " v", dtype, s.rows, s.cols),
          c(name + " c", dtype, s.rows, s.cols) {}
    void copy(const State& o) { w.copy(o.w), m.copy(o.m), v.copy(o.v), c.copy(o.c); }
    std::vector<const Tensor*> tensors() const { return {&w, &m, &v, &c}; }
};

void fill_random(State& state, Rng& rng) {
    std::normal_distribution<double> normal;
    state.w.fill([&](auto, auto) { return 0.1 * normal(rng); });
    state.m.fill([&](auto, auto) { return 0.01 * normal(rng); });
    state.v.fill([&](auto, auto) { return 1e-4 * std::pow(normal(rng), 2); });
    state.c.fill([&](auto, auto) { return 1e-5 * normal(rng); });
}

TEST(AdamW, MatchesTheFormulaWithinItsRoundings) {
    Rng rng(29);
    std::size_t turn = 0;
    for (const DType dtype : {DType::kF32, DType::kBf16})
        for (const Shape& s : kShapes)
            for (const std::int64_t t : in_turn({1, 2, 1000}, turn)) {
                SCOPED_TRACE(std::string(name_of(dtype)) + ", " + std::to_string(s.rows) + " x " +
                             std::to_string(s.cols) + ", update " + std::to_string(t));
                Reserved tested(make_tested_backend("fp32"), workload_of(s));
                State before("before", dtype, s), after("after", dtype, s);
                fill_random(before, rng);
                const auto grad = make_input("grad", dtype, s.rows, s.cols, rng, 0.05);
                after.copy(before);
                const AdamWUpdate op = op_of(after, *grad, t);
                tested->adamw({&op, 1});
                for (std::int64_t r = 0; r < s.rows; ++r)
                    for (std::int64_t c = 0; c < s.cols; ++c) {
                        const double w = before.w(r, c);
                        const auto [m, m_error, v, v_error, update, update_error] =
                            AdamWBounds(op, (*grad)(r, c), w, before.m(r, c), before.v(r, c));
                        if (dtype == DType::kF32) {
                            const double kNext = w + update;
                            EXPECT_NEAR(after.m(r, c), m, m_error + u * std::abs(m));
                            EXPECT_NEAR(after.v(r, c), v, v_error + u * v);
                            ASSERT_NEAR(after.w(r, c), kNext, update_error + u * std::abs(kNext));
                            continue;
                        }
                        const auto between = [&](double value, double error, double stored,
                                                 std::uint16_t noise) {
                            const auto sr = [&](double x) {
                                return to_float(round_stochastic_bf16(static_cast<float>(x), noise));
                            };
                            return sr(value - error) <= stored && stored <= sr(value + error);
                        };
                        const NoiseKey second{op.key.seed, op.key.step, op.key.stream + 1};
                        ASSERT_TRUE(between(m, m_error, after.m(r, c), noise16(op.key, r, c))) << m;
                        ASSERT_TRUE(between(v, v_error, after.v(r, c), noise16(second, r, c))) << v;
                        // Kahan: w' = bf16(w + y), c = bf16(y - (w' - w)).
                        const double y = update + before.c(r, c);
                        const double y_error = update_error + u * std::abs(y);
                        const double sum_error_ = y_error + u * std::abs(w + y);
                        const auto nearest = [](double x) {
                            return to_float(to_bf16(static_cast<float>(x)));
                        };
                        ASSERT_LE(nearest(w + y - sum_error_), after.w(r, c));
                        ASSERT_GE(nearest(w + y + sum_error_), after.w(r, c));
                        const double rest = y - (after.w(r, c) - w);
                        ASSERT_LE(nearest(rest - y_error - u * std::abs(rest)), after.c(r, c));
                        ASSERT_GE(nearest(rest + y_error + u * std::abs(rest)), after.c(r, c));
                    }
            }
}

// Gradients that are powers of two, betas of one half, first update: every intermediate is exact, so the
// tested backend and the reference agree bit for bit, noise and all.
TEST(AdamW, EqualsTheReferenceWhereArithmeticIsExact) {
    const Shape s{3, 130};
    const auto truth = make_reference_backend();
    Reserved tested(make_tested_backend("fp32"), workload_of(s));
    State start("start", DType::kBf16, s), a("tested", DType::kBf16, s), b("reference", DType::kBf16, s);
    Rng rng(1);
    std::uniform_int_distribution<int> small(-3, 3);
    Tensor grad("grad", DType::kBf16, s.rows, s.cols);
    grad.fill([&](auto, auto) { return std::ldexp(small(rng) < 0 ? -1.0 : 1.0, small(rng)); });
    grad.freeze();
    start.w.fill([&](auto, auto) { return std::ldexp(1.0, small(rng)); });
    start.m.fill([&](auto, auto) { return 1 + 0x1p-7 * small(rng); });
    start.v.fill([](auto, auto) { return 0; });  // so that v / (1 - beta2) = g^2 has an exact root
    start.c.fill([&](auto, auto) { return std::ldexp(small(rng), -14); });
    a.copy(start);
    b.copy(start);
    for (State* state : {&a, &b}) {
        AdamWUpdate op = op_of(*state, grad, 1);
        op.lr = 0.125f;
        op.beta1 = op.beta2 = 0.5f;
        op.epsilon = 0;
        op.weight_decay = 0.25f;
        op.grad_scale = 1;
        state == &a ? tested->adamw({&op, 1}) : truth->adamw({&op, 1});
    }
    expect_same_bits(a.m, b.m);
    expect_same_bits(a.v, b.v);
    expect_same_bits(a.w, b.w);
    expect_same_bits(a.c, b.c);
    // And the noise is in use: some moments are not the nearest BF16, some compensations are not zero.
    int stochastic = 0, compensated = 0;
    for (std::int64_t c = 0; c < s.cols; ++c) {
        const double exact = 0.5 * start.m(0, c) + 0.5 * grad(0, c);
        stochastic += a.m(0, c) != to_float(to_bf16(static_cast<float>(exact)));
        compensated += a.c(0, c) != 0;
    }
    EXPECT_GT(stochastic, 0);
    EXPECT_GT(compensated, 0);
}

// Ranks update some rows each: noise belongs to the row of the whole tensor.
TEST(AdamW, RowsByThemselvesHaveTheSameBits) {
    Rng rng(5);
    for (const DType dtype : {DType::kF32, DType::kBf16})
        for (const Shape& s : {Shape{65, 7}, Shape{9, 128}}) {
            Reserved tested(make_tested_backend("fp32"), workload_of(s));
            State whole("whole", dtype, s), parts("parts", dtype, s);
            fill_random(whole, rng);
            parts.copy(whole);
            const auto grad = make_input("grad", dtype, s.rows, s.cols, rng, 0.05);
            const AdamWUpdate op = op_of(whole, *grad, 3);
            tested->adamw({&op, 1});
            update_by_parts(*tested, parts, *grad);
            expect_same_bits(whole.w, parts.w);
            expect_same_bits(whole.m, parts.m);
            expect_same_bits(whole.v, parts.v);
            if (dtype == DType::kBf16) expect_same_bits(whole.c, parts.c);
        }
}

// A constant gradient of 1 on a weight of 1, `updates` times.
void run_constant(State& state, float lr, float beta1, float beta2, int updates) {
    Reserved tested(make_tested_backend("fp32"), workload_of({1, state.w.cols()}));
    state.w.fill([](auto, auto) { return 1.0; });
    for (Tensor* t : {&state.m, &state.v, &state.c}) t->fill([](auto, auto) { return 0; });
    Tensor grad("grad", DType::kBf16, 1, state.w.cols());
    grad.fill([](auto, auto) { return 1.0; });
    grad.freeze();
    for (int t = 1; t <= updates; ++t) {
        AdamWUpdate op = op_of(state, grad, t);
        op.grad_scale = 1;
        op.weight_decay = 0;
        op.lr = lr;
        op.beta1 = beta1;
        op.beta2 = beta2;
        tested->adamw({&op, 1});
    }
}

// With beta2 = 0.999 a BF16 second moment moves only by stochastic rounding.
TEST(AdamW, SecondMomentMoves) {
    State state("state", DType::kBf16, {1, 1024});
    const int updates = 200;
    run_constant(state, 1e-5f, 0.9f, 0.999f, updates);
    double v = 0, v2 = 0;
    for (std::int64_t c = 0; c < 1024; ++c) {
        v += state.v(0, c) / 1024;
        v2 += state.v(0, c) * state.v(0, c) / 1024;
    }
    EXPECT_NEAR(v, 1 - std::pow(double{0.999f}, updates), 5 * std::sqrt((v2 - v * v) / 1024));
    EXPECT_GT(v2 - v * v, 0);
}

// Updates of 1e-4 on a weight of 1, where a unit of BF16 is 2^-8: each one is lost by itself, with Kahan none
// is. The compensation stays below 2^-9, so rounding it to BF16 loses at most 2^-18 an update.
TEST(AdamW, KahanKeepsSmallUpdates) {
    State state("state", DType::kBf16, {1, 33});
    const int updates = 200;
    run_constant(state, 1e-4f, 0, 0, updates);  // m = g, v = g^2: a direction of 1 / (1 + epsilon)
    for (std::int64_t c = 0; c < 33; ++c)
        EXPECT_NEAR(state.w(0, c) + state.c(0, c), 1 - updates * 1e-4, updates * (0x1p-18 + 2e-10));
}

// Without a compensation an update is what one of zero gives, and what rounding leaves out is lost.
TEST(AdamW, WithoutCompensationAWeightIsRoundedToNearest) {
    for (const Shape& s : kShapes) {
        Rng rng(31);
        State with("with", DType::kBf16, s), without("without", DType::kBf16, s),
            truth("truth", DType::kBf16, s);
        fill_random(with, rng);
        with.c.fill([](auto, auto) { return 0; });
        without.copy(with), truth.copy(with);
        const auto grad = make_input("grad", DType::kBf16, s.rows, s.cols, rng, 0.05);
        Reserved tested(make_tested_backend("fp32"), workload_of(s));
        AdamWUpdate a = op_of(with, *grad, 3), b = op_of(without, *grad, 3), c = op_of(truth, *grad, 3);
        b.c = c.c = {};
        tested->adamw({&a, 1});
        tested->adamw({&b, 1});
        make_reference_backend()->adamw({&c, 1});
        expect_same_bits(with.w, without.w);
        expect_same_bits(with.m, without.m);
        for (std::int64_t r = 0; r < s.rows; ++r)
            for (std::int64_t i = 0; i < s.cols; ++i) {
                EXPECT_EQ(without.c(r, i), 0);
                EXPECT_NEAR(without.w(r, i), truth.w(r, i), 0x1p-7 * std::abs(truth.w(r, i)));
            }
    }
}

// Moments saturate at the largest BF16 number, infinities and NaNs stay what they are, and the columns beside
// them have the bits that they have without such neighbours.
TEST(AdamW, NumbersBeyondBf16ChangeNoNeighbour) {
    const Shape s{3, 300};
    Rng rng(37);
    Reserved tested(make_tested_backend("fp32"), workload_of(s));
    State plain("plain", DType::kBf16, s), huge("huge", DType::kBf16, s);
    fill_random(plain, rng);
    huge.copy(plain);
    std::normal_distribution<double> normal;
    Tensor small("small gradient", DType::kF32, s.rows, s.cols),
        large("large gradient", DType::kF32, s.rows, s.cols);
    small.fill([&](auto, auto) { return 0.05 * normal(rng); });
    // Rows 0 and 1: one column in seven; row 2 has none.
    constexpr float kMost = std::numeric_limits<float>::max();
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const auto odd = [](std::int64_t r, std::int64_t c) { return r < 2 && c % 7 == 3; };
    const auto value = [](std::int64_t r, std::int64_t c) {
        return r == 0 ? kMost : c % 2 == 0 ? kInfinite : kNan;
    };
    large.fill([&](auto r, auto c) { return odd(r, c) ? double{value(r, c)} : small(r, c); });
    const double largest_bf16 = to_float(Bf16{0x7f7f});
    huge.m.fill([&](auto r, auto c) { return odd(r, c) && r == 0 ? largest_bf16 : plain.m(r, c); });
    small.freeze(), large.freeze();
    AdamWUpdate a = op_of(plain, small, 1000), b = op_of(huge, large, 1000);  // late: m is not scaled up
    a.grad_scale = b.grad_scale = 1;
    tested->adamw({&a, 1});
    tested->adamw({&b, 1});
    for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < s.cols; ++c) {
            SCOPED_TRACE("row " + std::to_string(r) + ", column " + std::to_string(c));
            if (!odd(r, c)) {
                ASSERT_EQ(huge.w(r, c), plain.w(r, c));
                ASSERT_EQ(huge.m(r, c), plain.m(r, c));
                ASSERT_EQ(huge.v(r, c), plain.v(r, c));
                ASSERT_EQ(huge.c(r, c), plain.c(r, c));
            } else if (r == 0) {  // m = 0.9 * (largest BF16) + 0.1 * (largest FP32): noise must not make it
                                  // infinite
                ASSERT_EQ(huge.m(r, c), largest_bf16);
                ASSERT_EQ(huge.v(r, c), kInfinite);
                ASSERT_TRUE(std::isfinite(huge.w(r, c)));
            } else {
                ASSERT_TRUE(std::isnan(huge.w(r, c)));
                ASSERT_EQ(std::isnan(huge.m(r, c)), c % 2 != 0);
            }
        }
}

TEST(AdamW, RunsAndThreadsDoNotMatter) {
    expect_threads_do_not_matter([](const Shape& s, Rng& rng) {
        auto state = std::make_unique<State>("state", DType::kBf16, s);
        fill_random(*state, rng);
        return state;
    });
}

}  // namespace
}  // namespace elmo::testing_ops::optimizer_test
