// What a head step may carry besides: weight dropout and compensated rows. The tested backend and the
// reference against computed bounds, against the plain step, and against what the modes are for.
#include "base/parallel.h"
#include "head_harness.h"

namespace elmo::testing_ops::head_extras_test {
namespace {

constexpr DType kSmallStorages[] = {DType::kBf16, DType::kE4M3, DType::kE3M4};

Dropout dropout_of(float p) {
    return {p, {77, 5, 6}};
}

// One step with dropout p, and compensation for every third label (but of FP32 weights), against the bounds.
void check_step(Backend& tested, const Tensor& x, const Tensor& before, float p, bool compensate, Rng& rng) {
    const HeadShape s{x.rows(), x.cols(), before.rows()};
    const DType storage = before.dtype();
    const auto positives = random_positives(s, 0.1, rng);
    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
    w.copy(before);
    Compensation compensation(s.labels, s.width, every_third);
    std::normal_distribution<double> normal(0, 0.001);
    compensation.values.fill([&](auto, auto) { return normal(rng); });
    Tensor c("c before", DType::kBf16, compensation.values.rows(), s.width);
    c.copy(compensation.values);
    HeadStep op = head_op(x, w, positives, dx);
    if (s.labels % 2 == 1) op.weight_decay = 0;
    op.weight_dropout = dropout_of(p);
    if (compensate) compensation.give_to(op);
    const HeadStepResult result = tested.head_step(op);
    const HeadBounds bounds(x, before, op);
    EXPECT_LE(std::abs(result.loss_sum - bounds.loss()), bounds.loss_error());
    EXPECT_EQ(result.non_finite, -1);
    const double top = storage == DType::kE4M3 ? 448 : storage == DType::kE3M4 ? 1.9375 : HUGE_VAL;
    for (std::int64_t l = 0; l < s.labels; ++l)
        for (std::int64_t d = 0; d < s.width; ++d) {
            const std::int64_t slot = op.compensates() ? compensation.row(l) : -1;
            double low, high;
            if (slot >= 0) {
                const double was = before(l, d);
                const auto y = bounds.compensated_step(l, d, c(slot, d));
                const double slack =
                    kF32Roundoff * std::max(std::abs(was + y.low), std::abs(was + y.high));  // of the sum
                low = nearest(storage, was + y.low - slack);
                high = nearest(storage, was + y.high + slack);
                const double moved = w(l, d) - was;
                const double rest =
                    kF32Roundoff * (std::abs(moved) + std::abs(y.low - moved) + std::abs(y.high - moved));
                double c_low = nearest(DType::kBf16, y.low - moved - rest);
                double c_high = nearest(DType::kBf16, y.high - moved + rest);
                const bool may_saturate = std::max(was + y.high + slack, -(was + y.low - slack)) > top;
                if (may_saturate) c_low = std::min(c_low, 0.0), c_high = std::max(c_high, 0.0);
                const double now = compensation.values(slot, d);
                ASSERT_TRUE(c_low <= now && now <= c_high) << "c of (" << l << ", " << d << ") = " << now
                                                           << ", expected " << c_low << " to " << c_high;
            } else {
                const auto [from, to] = bounds.weight(l, d);
                const std::uint16_t noise = noise16(op.rounding, l, d);
                low = rounded(storage, from, noise);
                high = rounded(storage, to, noise);
            }
            ASSERT_TRUE(low <= w(l, d) && w(l, d) <= high)
                << "w(" << l << ", " << d << ") = " << w(l, d) << ", expected " << low << " to " << high;
        }
    Tensor exact("exact dx", DType::kF64, s.batch, s.width);
    exact.fill([&](auto b, auto d) { return bounds.dx(b, d); });
    expect_close(dx, exact, [&](auto b, auto d) { return bounds.dx_error(b, d); });
}

void check_steps(std::span<const HeadShape> shapes, bool coarse) {
    Rng rng(71);
    std::size_t turn = coarse ? 1 : 0;  // the third of the tiled shapes takes no dropout: Hopper compensates
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages)
            for (const HeadShape& s : shapes)
                for (const float p : in_turn({0.0f, 0.3f, 0.5f}, turn)) {
                    if (repeats(kind, storage) || (coarse && skips_tiles(storage))) continue;
                    SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind + ", dropout " +
                                 std::to_string(p) + ", " + std::to_string(s.batch) + " x " +
                                 std::to_string(s.width) + " x " + std::to_string(s.labels));
                    // FP32 weights are never compensated.
                    const DType input = storage == DType::kF32 && p > 0.4f ? DType::kF32 : DType::kBf16;
                    const auto x = coarse ? make_coarse_input("x", input, s.batch, s.width, rng)
                                          : make_input("x", input, s.batch, s.width, rng);
                    const auto w = coarse ? make_coarse_input("w before", storage, s.labels, s.width, rng)
                                          : make_input("w before", storage, s.labels, s.width, rng, 0.3);
                    Reserved tested(make_tested_backend(kind), head_workload(s, storage, 1));
                    check_step(*tested, *x, *w, p, storage != DType::kF32, rng);
                    if (testing::Test::HasFatalFailure()) return;
                }
}

TEST(HeadExtras, WithinBounds) {
    check_steps(head_shapes(), false);
}

TEST(HeadExtras, WithinBoundsInTiles) {
    check_steps(tiled_shapes(), true);
}

TEST(HeadExtras, ReferenceWithinTheSameBounds) {
    Rng rng(73);
    const auto truth = make_reference_backend();
    for (const DType storage : kHeadStorages) {
        SCOPED_TRACE(name_of(storage));
        const auto x = make_input("x", DType::kBf16, 7, 33, rng);
        const auto w = make_input("w before", storage, 70, 33, rng, 0.3);
        for (const float p : {0.0f, 0.3f}) check_step(*truth, *x, *w, p, storage != DType::kF32, rng);
    }
}

// With dropout the step is still the gradient of its own loss: a mask that is another one in logits, dx or
// update is not.
TEST(HeadExtras, DroppedStepIsTheGradientOfItsLoss) {
    Rng rng(79);
    const auto truth = make_reference_backend();
    const HeadShape s{3, 5, 4};
    const auto start_x = make_input("x", DType::kF64, s.batch, s.width, rng);
    const auto start_w = make_input("w", DType::kF64, s.labels, s.width, rng);
    const auto positives = random_positives(s, 0.4, rng);
    const auto step = [&](const Tensor& x, Tensor& w, Tensor& dx, float lr) {
        HeadStep op = head_op(x, w, positives, dx);
        op.lr = lr;
        op.weight_decay = 0;
        op.weight_dropout = dropout_of(0.4f);
        return truth->head_step(op).loss_sum;
    };
    const auto loss_near = [&](bool of_x, std::int64_t row, std::int64_t column, double offset) {
        Tensor x("x", DType::kF64, s.batch, s.width), w("w", DType::kF64, s.labels, s.width),
            dx("dx", DType::kF64, s.batch, s.width);
        x.copy(*start_x), w.copy(*start_w);
        Tensor& moved = of_x ? x : w;
        moved.set(row, column, moved(row, column) + offset);
        return step(x, w, dx, 0);
    };
    constexpr double kOffset = 0x1p-12;
    const auto slope = [&](bool of_x, std::int64_t row, std::int64_t column) {
        return (loss_near(of_x, row, column, kOffset) - loss_near(of_x, row, column, -kOffset)) /
               (2 * kOffset);
    };
    Tensor w("w", DType::kF64, s.labels, s.width), dx("dx", DType::kF64, s.batch, s.width);
    w.copy(*start_w);
    step(*start_x, w, dx, 1);
    // Third derivatives of BCE in z are below 1/9, factors (x, and w times its scale) below 8 here: the
    // error is below offset^2 / 6 * 8^3 / 9 * labels.
    constexpr double kError = kOffset * kOffset * 512 / 9;
    std::int64_t dropped = 0;
    for (std::int64_t l = 0; l < s.labels; ++l)
        for (std::int64_t d = 0; d < s.width; ++d) {
            EXPECT_NEAR((*start_w)(l, d) - w(l, d), slope(false, l, d), kError);
            dropped += w(l, d) == (*start_w)(l, d);
        }
    EXPECT_GT(dropped, 0);
    EXPECT_LT(dropped, s.labels * s.width);
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t d = 0; d < s.width; ++d) EXPECT_NEAR(dx(b, d), slope(true, b, d), kError);
}

// Weights that start at zero move where they are kept: as many as are to be expected, others at each step.
TEST(HeadExtras, DropsTheShareThatIsAskedFor) {
    const HeadShape s{1, 64, 500};
    Tensor x("x", DType::kBf16, 1, s.width);
    x.fill([](auto, auto) { return 1.0; });
    x.freeze();
    for (const float p : {0.1f, 0.65f}) {
        std::vector<std::vector<unsigned char>> moved;
        for (const std::uint64_t step : {5, 6}) {
            Tensor w("w", DType::kF32, s.labels, s.width), dx("dx", DType::kF32, 1, s.width);
            w.fill([](auto, auto) { return 0.0; });
            Reserved tested(make_tested_backend("auto"), head_workload(s, DType::kF32, 1));
            HeadStep op = head_op(x, w, {}, dx);
            op.lr = 1;
            op.weight_dropout = {p, {77, step, 6}};
            tested->head_step(op);
            std::int64_t kept = 0;
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < s.width; ++d) {
                    ASSERT_TRUE(w(l, d) == 0 || w(l, d) == double{-0.5f * op.weight_dropout.scale()});
                    kept += w(l, d) != 0;
                }
            const double n = static_cast<double>(s.labels * s.width);
            EXPECT_NEAR(static_cast<double>(kept), n * (1 - p), 5 * std::sqrt(n * p * (1 - p)));
            moved.push_back(w.bytes());
        }
        EXPECT_NE(moved[0], moved[1]);
    }
}

// A thousand equal updates, each below half of the storage's spacing, add up to their sum. g is one half at
// every step, because the logits stay near zero; everything else is exact.
TEST(HeadExtras, CompensationAddsUpWhatRoundingLoses) {
    constexpr int kSteps = 1000;
    for (const std::string& kind : head_products())
        for (const DType storage : kSmallStorages) {
            SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind);
            const HeadShape s{1, 2, 3};
            Tensor x("x", DType::kBf16, 1, 2), w("w", storage, 3, 2), dx("dx", DType::kF32, 1, 2);
            x.fill([](auto, auto) { return 0x1p-8; });
            x.freeze();
            w.fill([](auto, auto d) { return d == 0 ? 1.0 : -1.0; });
            EXPECT_EQ(nearest(storage, 1 - 0x1p-12), 1) << "the update must be one that rounding loses";
            Compensation compensation(3, 2, [](std::int64_t label) { return label == 1; });
            Reserved tested(make_tested_backend(kind), head_workload(s, storage, 1));
            for (int i = 1; i <= kSteps; ++i) {
                HeadStep op = head_op(x, w, {}, dx);
                op.lr = 0x1p-3f;
                op.weight_decay = 0;
                op.rounding.step = static_cast<std::uint64_t>(i);
                compensation.give_to(op);
                tested->head_step(op);
                for (const int d : {0, 1}) {
                    const double start = d == 0 ? 1 : -1, sum = start - i * 0x1p-12;
                    ASSERT_EQ(w(1, d) + compensation.values(0, d), sum) << "after step " << i;
                    ASSERT_EQ(w(1, d), nearest(storage, w(1, d)));
                    ASSERT_LE(std::abs(w(1, d) - sum), 0x1p-4) << "after step " << i;
                }
            }
            EXPECT_LT(w(1, 0), 0.8);
        }
}

struct Outcome {
    std::vector<unsigned char> w, dx, c;
    double loss = 0;
    std::int64_t saturations = 0;
    bool operator==(const Outcome&) const = default;
};

// Three steps, so that what one leaves in the compensation shows in the next.
Outcome run_steps(const HeadShape& s, DType storage, const std::string& kind, std::int64_t chunks,
                  int threads, float p, bool compensate) {
    Rng rng(83);
    const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
    const auto start = make_input("w", storage, s.labels, s.width, rng, 0.3);
    const auto positives = random_positives(s, 0.02, rng);
    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
    w.copy(*start);
    Compensation compensation(s.labels, s.width, every_third);
    Reserved tested(make_tested_backend(kind, threads), head_workload(s, storage, chunks));
    Outcome outcome;
    for (const std::uint64_t step : {1, 2, 3}) {
        HeadStep op = head_op(*x, w, positives, dx);
        op.num_chunks = chunks;
        op.rounding.step = step;
        op.weight_dropout = {p, {77, step, 6}};
        if (compensate) compensation.give_to(op);
        const HeadStepResult result = tested->head_step(op);
        outcome.loss += result.loss_sum;
        outcome.saturations += result.saturations;
    }
    outcome.w = w.bytes();
    outcome.dx = dx.bytes();
    outcome.c = compensation.values.bytes();
    return outcome;
}

// 5003 labels make 20 tiles: more than the slices dx is summed in.
TEST(HeadExtras, ChunksAndThreadsDoNotMatter) {
    const bool few = under_sanitizer();
    std::size_t turn = 0;
    for (const std::string& kind : head_products())
        for (const DType storage : kSmallStorages)
            for (const HeadShape& s :
                 in_turn({HeadShape{9, 11, few ? 700 : 5003}, HeadShape{9, 64, few ? 300 : 1500}}, turn)) {
                SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind + " products");
                const Outcome expected = run_steps(s, storage, kind, 1, 1, 0.25f, true);
                const std::pair<std::int64_t, int> cuts[] = {{1, 2}, {3, 1}, {3, 2}, {8, 1}, {8, 3}};
                for (const auto& [chunks, threads] : std::span(cuts).last(few ? 1 : std::size(cuts)))
                    EXPECT_TRUE(run_steps(s, storage, kind, chunks, threads, 0.25f, true) == expected)
                        << chunks << " chunks, " << threads << " threads";
            }
}

// Hopper's kernels compensate only 8-bit weights of widths that are multiples of 8: with others the
// compensated step runs on other kernels than the plain one and adds in another order.
bool changes_kernels(const HeadShape& s, DType storage) {
    return kTestsGpu && (s.width % 8 != 0 || storage == DType::kBf16);
}

// Labels do not meet in a step: rows without compensation keep the bits of the plain one.
TEST(HeadExtras, OtherRowsKeepTheirBits) {
    std::size_t turn = 0;
    for (const HeadShape& s : {HeadShape{5, 13, 300}, HeadShape{5, 64, 300}, HeadShape{5, 128, 300}})
        for (const std::string& kind : head_products())
            for (const DType storage : kSmallStorages)
                for (const float p : in_turn({0.0f, 0.25f}, turn)) {
                    if (p == 0 && changes_kernels(s, storage)) continue;  // no kernel of Hopper has dropout
                    SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind + " products");
                    const Outcome plain = run_steps(s, storage, kind, 1, 1, p, false);
                    const Outcome some = run_steps(s, storage, kind, 1, 1, p, true);
                    const auto row = [&](const Outcome& outcome, std::int64_t label) {
                        const auto bytes = s.width * size_of(storage);
                        const auto begin = outcome.w.begin() + label * bytes;
                        return std::vector<unsigned char>(begin, begin + bytes);
                    };
                    std::int64_t changed = 0;
                    for (std::int64_t l = 0; l < s.labels; ++l)
                        if (every_third(l))
                            changed += row(plain, l) != row(some, l);
                        else
                            EXPECT_EQ(row(plain, l), row(some, l)) << "label " << l;
                    EXPECT_GT(changed, 50);
                }
}

// A step whose extras are there but do nothing is the plain step, bit for bit: no label is marked.
TEST(HeadExtras, NoMarksAreThePlainStep) {
    Rng rng(89);
    for (const HeadShape& s : {HeadShape{5, 13, 300}, HeadShape{5, 64, 300}, HeadShape{5, 128, 300}})
        for (const DType storage : kSmallStorages) {
            if (changes_kernels(s, storage)) continue;
            const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
            const auto start = make_input("w", storage, s.labels, s.width, rng, 0.3);
            Compensation none(s.labels, s.width, [](auto) { return false; });
            Tensor c("c", DType::kBf16, 1, s.width);
            c.fill([](auto, auto) { return 7.0; });
            c.freeze();
            Reserved tested(make_tested_backend("auto"), head_workload(s, storage, 1));
            Tensor w1("w1", storage, s.labels, s.width), w2("w2", storage, s.labels, s.width);
            Tensor dx1("dx1", DType::kF32, s.batch, s.width), dx2("dx2", DType::kF32, s.batch, s.width);
            w1.copy(*start), w2.copy(*start);
            tested->head_step(head_op(*x, w1, {}, dx1));
            HeadStep op = head_op(*x, w2, {}, dx2);
            op.compensation_KD = c.view();
            op.compensated_R2 = none.marks.view();
            tested->head_step(op);
            expect_same_bits(w1, w2);
            expect_same_bits(dx1, dx2);
        }
}

TEST(HeadExtras, CompensatedSaturationsAreCountedAndForgotten) {
    for (const HeadShape& s : {HeadShape{1, 4, 300}, HeadShape{1, 64, 300}, HeadShape{1, 128, 300}})
        for (const DType storage : {DType::kE4M3, DType::kE3M4}) {
            const double top = storage == DType::kE4M3 ? 448 : 1.9375;
            Tensor x("x", DType::kBf16, 1, s.width), w("w", storage, s.labels, s.width),
                dx("dx", DType::kF32, 1, s.width);
            x.fill([](auto, auto c) { return c == 0 ? 1.0 : c == 1 ? -1.0 : 0.0; });
            w.fill([](auto, auto) { return 0.0; });
            Compensation compensation(s.labels, s.width, every_third);
            Reserved tested(make_tested_backend("auto"), head_workload(s, storage, 1));
            HeadStep op = head_op(x, w, {}, dx);
            op.lr = 2000;
            compensation.give_to(op);
            EXPECT_EQ(tested->head_step(op).saturations, 2 * s.labels);
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < 3; ++d) {
                    ASSERT_EQ(w(l, d), d == 0 ? -top : d == 1 ? top : 0.0);
                    if (every_third(l)) {
                        ASSERT_EQ(compensation.values(compensation.row(l), d), 0.0);
                    }
                }
        }
}

}  // namespace
}  // namespace elmo::testing_ops::head_extras_test
