// AdamW with its state in bytes, of the tested backend. New moments and weights are FP32 computations of a
// few roundings, so that codes must lie between those, with the same noise, of the two ends of the computed
// interval.
#include "numerics/state_codes.h"
#include "optimizer_harness.h"

namespace elmo::testing_ops::optimizer_bytes_test {
namespace {

constexpr double u = kF32Roundoff;

using Shape = MatrixShape;
const Shape kShapes[] = {{1, 1}, {1, 127}, {3, 129}, {2, 1025}, {65, 7}, {33, 384}, {5, 136}, {40, 8}};

struct State {
    Tensor w, m, v, c, exponents;
    State(const std::string& name, const Shape& s)
        : w(name + " w", DType::kBf16, s.rows, s.cols),
          m(name + " m", DType::kU8, s.rows, s.cols),
          v(name + " v", DType::kU8, s.rows, s.cols),
          c(name + " c", DType::kU8, s.rows, s.cols),
          exponents(name + " exponents", DType::kU8, s.rows, 2 * moment_blocks(s.cols)) {
        for (const Tensor* t : tensors()) std::memset(t->view().data, 0, t->bytes().size());
    }
    std::vector<const Tensor*> tensors() const { return {&w, &m, &v, &c, &exponents}; }
    void copy(const State& o) {
        for (std::size_t i = 0; i < tensors().size(); ++i)
            std::memcpy(tensors()[i]->view().data, o.tensors()[i]->view().data, tensors()[i]->bytes().size());
    }

    static std::uint8_t code(const Tensor& t, std::int64_t r, std::int64_t col) {
        return t.view().codes()[r * t.cols() + col];
    }
    std::uint8_t exponent(std::int64_t r, std::int64_t col, int second) const {
        return code(exponents, r, 2 * (col / kMomentBlock) + second);
    }
    double moment1(std::int64_t r, std::int64_t col) const {
        return decode_first_moment(code(m, r, col), exponent(r, col, 0));
    }
    double moment2(std::int64_t r, std::int64_t col) const {
        return decode_second_moment(code(v, r, col), exponent(r, col, 1));
    }
    double weight(std::int64_t r, std::int64_t col) const {
        return decode_weight(w.view().as<Bf16>()[r * w.cols() + col].bits, code(c, r, col));
    }
};

void expect_same_state(const State& a, const State& b) {
    for (std::size_t i = 0; i < a.tensors().size(); ++i) expect_same_bits(*a.tensors()[i], *b.tensors()[i]);
}

// What a few updates by the reference leave: exponents that differ from block to block, codes of all sizes.
void start(State& state, Rng& rng) {
    std::normal_distribution<double> normal;
    state.w.fill([&](auto, auto) { return 0.1 * normal(rng); });
    for (std::int64_t t = 1; t <= 3; ++t) {
        Tensor grad("first gradient", DType::kF32, state.w.rows(), state.w.cols());
        grad.fill([&](auto r, auto c) {
            return std::ldexp(normal(rng), static_cast<int>((r + c / kMomentBlock) % 5 * 4 - c % 9));
        });
        const AdamWUpdate op = op_of(state, grad, t);
        make_reference_backend()->adamw({&op, 1});
    }
}

TEST(AdamWInBytes, MatchesTheFormulaWithinItsRoundings) {
    Rng rng(29);
    std::size_t turn = 0;
    for (const DType grad_dtype : {DType::kBf16, DType::kF32})
        for (const Shape& s : kShapes)
            for (const std::int64_t t : in_turn({2, 1000}, turn)) {
                SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.cols) + ", update " +
                             std::to_string(t));
                Reserved tested(make_tested_backend("fp32"), workload_of(s));
                State before("before", s), after("after", s);
                start(before, rng);
                const auto grad = make_input("grad", grad_dtype, s.rows, s.cols, rng, 0.05);
                after.copy(before);
                const AdamWUpdate op = op_of(after, *grad, t);
                tested->adamw({&op, 1});
                for (std::int64_t r = 0; r < s.rows; ++r)
                    for (std::int64_t first = 0; first < s.cols; first += kMomentBlock) {
                        double least_m = 0, most_m = 0, least_v = 0, most_v = 0;
                        for (std::int64_t c = first; c < std::min(first + kMomentBlock, s.cols); ++c) {
                            const double w = before.weight(r, c);
                            const auto [m, m_error, v, v_error, update, update_error] =
                                AdamWBounds(op, (*grad)(r, c), w, before.moment1(r, c), before.moment2(r, c));
                            const double sum = w + update, error = update_error + u * std::abs(sum);
                            const auto noise =
                                static_cast<std::uint16_t>(noise16(op.bytes_key(), r, c) + noise_shift(op.t));
                            const auto stored = [&](double x) {
                                const std::uint32_t rounded = round_weight(static_cast<float>(x), noise);
                                return decode_weight(weight_bf16(rounded) >> 16, weight_rest(rounded));
                            };
                            ASSERT_LE(stored(sum - error), after.weight(r, c)) << r << ' ' << c;
                            ASSERT_GE(stored(sum + error), after.weight(r, c)) << r << ' ' << c;
                            const std::uint32_t e1 = after.exponent(r, c, 0), e2 = after.exponent(r, c, 1);
                            const auto first_of = [&](double x) {
                                const auto code = encode_first_moment(static_cast<float>(x), e1, noise);
                                return decode_first_moment(code >> 24, e1);
                            };
                            const auto second_of = [&](double x) {
                                const auto code = encode_second_moment(static_cast<float>(x), e2, noise);
                                return decode_second_moment(code >> 24, e2);
                            };
                            ASSERT_LE(first_of(m - m_error), after.moment1(r, c)) << r << ' ' << c;
                            ASSERT_GE(first_of(m + m_error), after.moment1(r, c)) << r << ' ' << c;
                            ASSERT_LE(second_of(v - v_error), after.moment2(r, c)) << r << ' ' << c;
                            ASSERT_GE(second_of(v + v_error), after.moment2(r, c)) << r << ' ' << c;
                            least_m = std::max(least_m, std::abs(m) - m_error);
                            most_m = std::max(most_m, std::abs(m) + m_error);
                            least_v = std::max(least_v, v - v_error);
                            most_v = std::max(most_v, v + v_error);
                        }
                        const auto exponent = [](double largest, std::uint32_t range) {
                            return moment_exponent(std::bit_cast<std::uint32_t>(static_cast<float>(largest)),
                                                   range);
                        };
                        ASSERT_LE(exponent(least_m, kFirstMomentRange), after.exponent(r, first, 0));
                        ASSERT_GE(exponent(most_m, kFirstMomentRange), after.exponent(r, first, 0));
                        ASSERT_LE(exponent(least_v, kSecondMomentRange), after.exponent(r, first, 1));
                        ASSERT_GE(exponent(most_v, kSecondMomentRange), after.exponent(r, first, 1));
                    }
            }
}

// Gradients that are powers of two, betas of one half, first update: every intermediate is exact, so the
// tested backend and the reference agree bit for bit, noise and all.
TEST(AdamWInBytes, EqualsTheReferenceWhereArithmeticIsExact) {
    const Shape s{3, 300};
    const auto truth = make_reference_backend();
    Reserved tested(make_tested_backend("fp32"), workload_of(s));
    State a("tested", s), b("reference", s);
    Rng rng(1);
    std::uniform_int_distribution<int> small(-3, 3);
    Tensor grad("grad", DType::kBf16, s.rows, s.cols);
    grad.fill([&](auto, auto) { return std::ldexp(small(rng) < 0 ? -1.0 : 1.0, small(rng)); });
    grad.freeze();
    a.w.fill([&](auto, auto) { return std::ldexp(1.0, small(rng)); });
    for (std::int64_t i = 0; i < s.rows * s.cols; ++i)
        a.c.view().codes()[i] = static_cast<std::uint8_t>(small(rng));
    b.copy(a);
    for (State* state : {&a, &b}) {
        AdamWUpdate op = op_of(*state, grad, 1);
        op.lr = 0.126f;  // of 24 bits: what is cut off a weight is not zero
        op.beta1 = op.beta2 = 0.5f;
        op.epsilon = 0;
        op.weight_decay = 0;
        op.grad_scale = 1;
        state == &a ? tested->adamw({&op, 1}) : truth->adamw({&op, 1});
    }
    expect_same_state(a, b);
    // And the noise is in use: weights of one size do not all have one byte.
    int others = 0;
    for (std::int64_t i = 1; i < s.cols; ++i) others += State::code(a.c, 0, i) != State::code(a.c, 0, 0);
    EXPECT_GT(others, 0);
}

// Ranks update some rows each: noise belongs to the row of the whole tensor, exponents to rows.
TEST(AdamWInBytes, RowsByThemselvesHaveTheSameBits) {
    Rng rng(5);
    for (const Shape& s : {Shape{65, 7}, Shape{9, 384}, Shape{6, 136}}) {
        Reserved tested(make_tested_backend("fp32"), workload_of(s));
        State whole("whole", s), parts("parts", s);
        start(whole, rng);
        parts.copy(whole);
        const auto grad = make_input("grad", DType::kBf16, s.rows, s.cols, rng, 0.05);
        const AdamWUpdate op = op_of(whole, *grad, 3);
        tested->adamw({&op, 1});
        update_by_parts(*tested, parts, *grad);
        expect_same_state(whole, parts);
    }
}

// Many small updates, beside the same in FP64. With beta of zero an update is lr, whatever the moments'
// rounding. A weight's rounding is unbiased, less than 1/256 of BF16's spacing, which is 2^-8 below 1: the
// distance is a sum of n such errors, whose deviation is half of one at most, and FP32's own. No drift: the
// mean over columns, whose noise is independent, too.
TEST(AdamWInBytes, WeightsFollowSmallUpdates) {
    const std::int64_t cols = 512, updates = 600;
    State state("state", {1, cols});
    Reserved tested(make_tested_backend("fp32"), workload_of({1, cols}));
    state.w.fill([](auto, auto c) { return c % 2 == 0 ? 0.75 : -0.75; });
    Tensor grad("grad", DType::kBf16, 1, cols);
    grad.fill([](auto, auto) { return 1.0; });
    grad.freeze();
    const float lr = 3e-7f;  // a fiftieth of a byte's unit
    for (std::int64_t t = 1; t <= updates; ++t) {
        AdamWUpdate op = op_of(state, grad, t);
        op.grad_scale = 1;
        op.weight_decay = 0;
        op.lr = lr;
        op.beta1 = op.beta2 = 0;
        tested->adamw({&op, 1});
    }
    const double unit = 0x1p-16, moved = static_cast<double>(updates) * double{lr} / (1 + 1e-6);
    const double deviation = 0.5 * unit * std::sqrt(static_cast<double>(updates));
    const double rounding = static_cast<double>(updates) * (0x1p-25 + 4 * u * double{lr});
    double mean = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
        const double begin = c % 2 == 0 ? 0.75 : -0.75;
        EXPECT_NEAR(state.weight(0, c), begin - moved, 6 * deviation + rounding);
        mean += (state.weight(0, c) - begin) / static_cast<double>(cols);
        ASSERT_LE(std::abs(state.weight(0, c) - state.w(0, c)), 0x1p-9);  // half of BF16's spacing
    }
    EXPECT_NEAR(mean, -moved, 6 * deviation / std::sqrt(static_cast<double>(cols)) + rounding);
}

// Moments that move by less than a code's spacing, an eighth at most: errors do not add up. Where they fall,
// a code that has n neighbours up to the next power of two takes 1 / (n (1 - beta)) updates, so that a power
// of two takes the sum of these, 0.6629 / (1 - beta) from 9 to 16, instead of ln 2 / -ln beta, and what is
// left after many is the exact moment to the power of 1.035 for 0.98. Beside that three codes. Independent
// noise would leave them within a factor of ten.
TEST(AdamWInBytes, ErrorsOfMomentsDoNotAddUp) {
    const std::int64_t cols = 1024, updates = 400;
    const float beta = 0.98f;
    for (const bool falling : {false, true}) {
        State state("state", {1, cols});
        Reserved tested(make_tested_backend("fp32"), workload_of({1, cols}));
        state.w.fill([](auto, auto) { return 1.0; });
        double m = 0;
        for (std::int64_t t = 1; t <= updates; ++t) {
            const double g = !falling || t == 1 ? 1.0 : 0.0;
            Tensor grad("grad", DType::kBf16, 1, cols);
            grad.fill([&](auto, auto) { return g; });
            grad.freeze();
            AdamWUpdate op = op_of(state, grad, t);
            op.grad_scale = 1;
            op.beta1 = op.beta2 = beta;
            tested->adamw({&op, 1});
            m = double{beta} * m + (1 - double{beta}) * g;  // v is the same
        }
        const double power = std::log(2) / -std::log(double{beta}) * (1 - double{beta}) / 0.6629;
        const double least = 0.625 * (falling ? std::pow(m, power) : m), most = 1.375 * m;
        for (std::int64_t c = 0; c < cols; ++c)
            for (const double moment : {state.moment1(0, c), state.moment2(0, c)}) {
                EXPECT_GE(moment, least) << c;
                EXPECT_LE(moment, most) << c;
            }
    }
}

// A gradient that is infinite or NaN shows in its weight at once, and in the weights of its block one update
// later; other blocks keep the bits that they have without it.
TEST(AdamWInBytes, WhatIsNotFiniteShows) {
    const Shape s{2, 300};
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                            1e30f}) {  // whose square is infinite
        Rng rng(37);
        Reserved tested(make_tested_backend("fp32"), workload_of(s));
        State plain("plain", s), other("other", s);
        start(plain, rng);
        other.copy(plain);
        std::normal_distribution<double> normal;
        Tensor small("small", DType::kF32, s.rows, s.cols), large("large", DType::kF32, s.rows, s.cols);
        small.fill([&](auto, auto) { return 0.05 * normal(rng); });
        large.fill([&](auto r, auto c) { return r == 0 && c == 130 ? double{bad} : small(r, c); });
        for (std::int64_t t = 4; t <= 5; ++t) {
            const AdamWUpdate a = op_of(plain, small, t), b = op_of(other, t == 4 ? large : small, t);
            tested->adamw({&a, 1});
            tested->adamw({&b, 1});
            if (bad != 1e30f) {
                EXPECT_TRUE(std::isnan(other.w(0, 130)));
            }
        }
        for (std::int64_t r = 0; r < s.rows; ++r)
            for (std::int64_t c = 0; c < s.cols; ++c) {
                if (r == 0 && c / kMomentBlock == 1) {
                    ASSERT_FALSE(std::isfinite(other.w(r, c))) << bad << ' ' << c;
                } else {
                    ASSERT_EQ(other.weight(r, c), plain.weight(r, c));
                    ASSERT_EQ(other.moment1(r, c), plain.moment1(r, c));
                    ASSERT_EQ(other.moment2(r, c), plain.moment2(r, c));
                }
            }
    }
}

TEST(AdamWInBytes, RunsAndThreadsDoNotMatter) {
    expect_threads_do_not_matter([](const Shape& s, Rng& rng) {
        auto state = std::make_unique<State>("state", s);
        start(*state, rng);
        return state;
    });
}

}  // namespace
}  // namespace elmo::testing_ops::optimizer_bytes_test
