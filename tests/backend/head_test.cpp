// The fused head step of the tested backend against computed bounds and against itself: chunks, threads,
// storage modes, padding of tiles.
#include "base/parallel.h"
#include "head_harness.h"

namespace elmo::testing_ops::head_test {
namespace {

std::string describe(const HeadShape& s, DType storage, const std::string& kind) {
    return std::string(name_of(storage)) + ", " + kind + " products, " + std::to_string(s.batch) + " x " +
           std::to_string(s.width) + " x " + std::to_string(s.labels);
}

// One step of weights `before`. `tight`: the bounds must leave most rounded weights one right value.
void check_step(const Tensor& x, const Tensor& before, double share, const std::string& kind, bool tight,
                Rng& rng, bool weighted = false, NoiseKind kind_of_noise = NoiseKind::kIndependent) {
    const HeadShape s{x.rows(), x.cols(), before.rows()};
    const DType storage = before.dtype();
    auto positives = random_positives(s, share, rng);
    if (weighted) positives.weigh(random_weights(s.labels, rng));
    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
    w.copy(before);
    Workload workload = head_workload(s, storage, 1);
    workload.weighted = weighted;
    Reserved tested(make_tested_backend(kind), workload);
    HeadStep op = head_op(x, w, positives, dx);
    op.noise = kind_of_noise;
    const HeadStepResult result = tested->head_step(op);
    const HeadBounds bounds(x, before, op);
    EXPECT_LE(std::abs(result.loss_sum - bounds.loss()), bounds.loss_error());
    EXPECT_EQ(result.non_finite, -1);
    std::int64_t certain = 0;
    for (std::int64_t l = 0; l < s.labels; ++l)
        for (std::int64_t d = 0; d < s.width; ++d) {
            const auto [low, high] = bounds.weight(l, d);
            const std::uint16_t noise = rounding_noise(op.noise, op.rounding, l, d);
            const double a = rounded(storage, low, noise), b = rounded(storage, high, noise);
            ASSERT_TRUE(a <= w(l, d) && w(l, d) <= b)
                << "w(" << l << ", " << d << ") = " << w(l, d) << ", expected " << a << " to " << b;
            certain += a == b;
        }
    if (tight && storage != DType::kF32 && s.labels * s.width > 200) {
        EXPECT_GT(certain, s.labels * s.width * 3 / 4);
    }
    Tensor exact("exact dx", DType::kF64, s.batch, s.width);
    exact.fill([&](auto b, auto d) { return bounds.dx(b, d); });
    expect_close(dx, exact, [&](auto b, auto d) { return bounds.dx_error(b, d); });
}

void check_random_steps(DType input, Rng& rng) {
    std::size_t turn = 0;
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages)
            for (const HeadShape& s : head_shapes())
                for (const double share : in_turn({0.0, 0.2}, turn)) {
                    if (repeats(kind, storage)) continue;
                    SCOPED_TRACE(describe(s, storage, kind));
                    const auto x = make_input("x", input, s.batch, s.width, rng);
                    const auto w = make_input("w before", storage, s.labels, s.width, rng, 0.3);
                    check_step(*x, *w, share, kind, !multiplies_codes(storage), rng);
                    if (testing::Test::HasFatalFailure()) return;
                }
}

TEST(HeadStep, WithinBounds) {
    Rng rng(41);
    check_random_steps(DType::kBf16, rng);
}

// An FP32 encoder passes FP32 vectors, for any storage of the head.
TEST(HeadStep, WithinBoundsFromFp32Input) {
    Rng rng(42);
    check_random_steps(DType::kF32, rng);
}

// Logits of many terms: coarse numbers make them exact, so that the bounds stay tight; then any numbers.
// Every other case has noise that all labels share.
TEST(HeadStep, WithinBoundsInTiles) {
    Rng rng(44);
    std::size_t storages = 0, cases = 0;
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages) {
            cases = ++storages;
            for (const HeadShape& s : tiled_shapes()) {
                const NoiseKind noise = cases++ % 2 == 0 ? NoiseKind::kIndependent : NoiseKind::kSharedSteps;
                if (repeats(kind, storage) || skips_tiles(storage)) continue;
                SCOPED_TRACE(describe(s, storage, kind));
                const DType input = storage == DType::kF32 ? DType::kF32 : DType::kBf16;
                const auto x = make_coarse_input("x", input, s.batch, s.width, rng);
                const auto w = make_coarse_input("w before", storage, s.labels, s.width, rng);
                check_step(*x, *w, 0.05, kind, s.batch < 256, rng, false,
                           noise);  // long sums of any size leave roundings open
                if (s.batch * s.width * s.labels < 2000000) {
                    const auto any_x = make_input("x", DType::kBf16, s.batch, s.width, rng);
                    const auto any_w = make_input("w before", storage, s.labels, s.width, rng, 0.1);
                    check_step(*any_x, *any_w, 0.05, kind, false, rng, false, noise);
                }
                if (testing::Test::HasFatalFailure()) return;
            }
        }
}

TEST(HeadStep, WeightedPositivesWithinBounds) {
    Rng rng(48);
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages) {
            if (repeats(kind, storage)) continue;
            for (const HeadShape& s : head_shapes()) {
                SCOPED_TRACE(describe(s, storage, kind));
                const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
                const auto w = make_input("w before", storage, s.labels, s.width, rng, 0.3);
                check_step(*x, *w, 0.2, kind, !multiplies_codes(storage), rng, true);
                if (testing::Test::HasFatalFailure()) return;
            }
            for (const HeadShape& s : tiled_shapes()) {
                if (skips_tiles(storage)) continue;
                SCOPED_TRACE(describe(s, storage, kind));
                const DType input = storage == DType::kF32 ? DType::kF32 : DType::kBf16;
                const auto x = make_coarse_input("x", input, s.batch, s.width, rng);
                const auto w = make_coarse_input("w before", storage, s.labels, s.width, rng);
                check_step(*x, *w, 0.05, kind, s.batch < 256, rng, true);
                if (testing::Test::HasFatalFailure()) return;
            }
        }
}

// The reference is within the same bounds: both backends stand for one definition.
TEST(HeadStep, ReferenceWithinTheSameBounds) {
    Rng rng(43);
    const auto truth = make_reference_backend();
    for (const DType storage : kHeadStorages) {
        const HeadShape s{7, 33, 70};
        const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
        const auto before = make_input("w before", storage, s.labels, s.width, rng, 0.3);
        auto positives = random_positives(s, 0.1, rng);
        if (storage == DType::kE3M4) positives.weigh(random_weights(s.labels, rng));
        Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
        w.copy(*before);
        const HeadStep op = head_op(*x, w, positives, dx);
        const HeadStepResult result = truth->head_step(op);
        const HeadBounds bounds(*x, *before, op);
        EXPECT_NEAR(result.loss_sum, bounds.loss(), 1e-10);
        for (std::int64_t l = 0; l < s.labels; ++l)
            for (std::int64_t d = 0; d < s.width; ++d) {
                const auto [low, high] = bounds.weight(l, d);
                const std::uint16_t noise = noise16(op.rounding, l, d);
                ASSERT_LE(rounded(storage, low, noise), w(l, d));
                ASSERT_GE(rounded(storage, high, noise), w(l, d));
            }
    }
}

// Where all arithmetic is exact, every bit is defined: pairs of columns that cancel make the logits zero and
// g one half, and rates that are powers of two keep the weight before rounding short. From rates that barely
// move a weight to those that saturate an 8-bit one.
TEST(HeadStep, EqualsTheScalarDefinitionWhereArithmeticIsExact) {
    Rng rng(45);
    std::uniform_int_distribution<int> pick(-7, 7);
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages)
            for (const HeadShape& s : tiled_shapes()) {
                if (repeats(kind, storage)) continue;
                SCOPED_TRACE(describe(s, storage, kind));
                Tensor x("x", DType::kBf16, s.batch, s.width), before("w", storage, s.labels, s.width);
                x.fill([&](auto, auto) { return pick(rng) / 4.0; });
                before.fill([&](auto, auto) { return pick(rng) / 16.0; });
                for (std::int64_t d = 1; d < s.width; d += 2) {
                    for (std::int64_t b = 0; b < s.batch; ++b) x.set(b, d, x(b, d - 1));
                    for (std::int64_t l = 0; l < s.labels; ++l) before.set(l, d, -before(l, d - 1));
                }
                x.freeze(), before.freeze();
                const auto positives = random_positives(s, 0.3, rng);
                std::vector<double> sums(static_cast<std::size_t>(s.labels * s.width));
                Tensor exact_dx("exact dx", DType::kF32, s.batch, s.width);
                std::vector<double> dx_sums(static_cast<std::size_t>(s.batch * s.width));
                PositiveWalk walk(positives);
                for (std::int64_t l = 0; l < s.labels; ++l)
                    for (std::int64_t b = 0; b < s.batch; ++b) {
                        const double g = walk.is_positive(l, static_cast<std::int32_t>(b)) ? -0.5 : 0.5;
                        for (std::int64_t d = 0; d < s.width; ++d) {
                            sums[static_cast<std::size_t>(l * s.width + d)] += g * x(b, d);
                            dx_sums[static_cast<std::size_t>(b * s.width + d)] += g * before(l, d);
                        }
                    }
                exact_dx.fill(
                    [&](auto b, auto d) { return dx_sums[static_cast<std::size_t>(b * s.width + d)]; });
                struct Case {
                    float lr, decay;
                    NoiseKind noise;
                };
                constexpr NoiseKind kIndependent = NoiseKind::kIndependent, kSteps = NoiseKind::kSteps;
                for (const auto& [lr, decay, noise] :
                     {Case{0x1p-10f, 0x1p-4f, kIndependent}, Case{0x1p-4f, 0x1p-4f, kSteps},
                      Case{0x1p-4f, 0, kSteps}, Case{0x1p-6f, 0, NoiseKind::kSharedSteps},
                      Case{0x1p3f, 0, kIndependent}}) {
                    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
                    Tensor expected("expected", storage, s.labels, s.width);
                    w.copy(before);
                    Reserved tested(make_tested_backend(kind), head_workload(s, storage, 1));
                    HeadStep op = head_op(x, w, positives, dx);
                    op.lr = lr;
                    op.weight_decay = decay / lr;
                    op.noise = noise;
                    const HeadStepResult result = tested->head_step(op);
                    const double top = storage == DType::kE4M3 ? 448 : 1.9375;
                    std::int64_t saturations = 0;
                    expected.fill([&, lr = lr, decay = decay, noise = noise](auto l, auto d) {
                        const double value = before(l, d) * (1 - double{decay}) -
                                             double{lr} * sums[static_cast<std::size_t>(l * s.width + d)];
                        saturations += size_of(storage) == 1 && std::abs(value) > top;
                        return rounded(storage, value, rounding_noise(noise, op.rounding, l, d));
                    });
                    expect_same_bits(w, expected);
                    expect_same_bits(dx, exact_dx);
                    EXPECT_EQ(result.saturations, saturations);
                    if (testing::Test::HasFatalFailure()) return;
                }
            }
}

struct Outcome {
    std::vector<unsigned char> w, dx;
    double loss = 0;
    std::int64_t saturations = 0;
    bool operator==(const Outcome&) const = default;
};

Outcome run_step(const HeadShape& s, DType storage, const std::string& kind, std::int64_t chunks, int threads,
                 bool ones = false) {
    Rng rng(47);
    const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
    const auto start = make_input("w", storage, s.labels, s.width, rng, 0.3);
    auto positives = random_positives(s, 0.02, rng);
    if (ones) positives.weigh(std::vector<float>(static_cast<std::size_t>(s.labels), 1));
    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
    w.copy(*start);
    Workload workload = head_workload(s, storage, chunks);
    workload.weighted = ones;
    Reserved tested(make_tested_backend(kind, threads), workload);
    HeadStep op = head_op(*x, w, positives, dx);
    op.num_chunks = chunks;
    const HeadStepResult result = tested->head_step(op);
    return {w.bytes(), dx.bytes(), result.loss_sum, result.saturations};
}

// Weights, dx and loss, bit for bit. There are more tiles than slices that dx is summed in: 20 of 256 labels
// on a CPU, 157 of 128 on a GPU, whose matrix instructions need the second shape. The third has more than
// Hopper's teams take at a time.
TEST(HeadStep, ChunksAndRunsAndThreadsDoNotMatter) {
    const HeadShape shapes[] = {{9, 11, 5003}, {130, 128, 20011}, {100, 256, 36011}, {520, 768, 6001}};
    for (const HeadShape& s : std::span(shapes).first(kTestsGpu ? 4 : 1))
        for (const std::string& kind : head_products())
            for (const DType storage : kHeadStorages) {
                if (repeats(kind, storage)) continue;
                SCOPED_TRACE(describe(s, storage, kind));
                const Outcome expected = run_step(s, storage, kind, 1, 1);
                const std::pair<std::int64_t, int> cuts[] = {{1, 2}, {1, 3}, {3, 1},  {3, 2},   {8, 1},
                                                             {8, 3}, {7, 2}, {20, 2}, {1000, 1}};
                for (const auto& [chunks, threads] : cuts)
                    EXPECT_TRUE(run_step(s, storage, kind, chunks, threads) == expected)
                        << chunks << " chunks, " << threads << " threads";
                Outcome ones = run_step(s, storage, kind, 3, 2, true);
                EXPECT_NEAR(ones.loss, expected.loss, 1e-5 * expected.loss);  // added in another order
                ones.loss = expected.loss;
                EXPECT_TRUE(ones == expected) << "weights of one";
            }
}

// Rows that only pad a tile take no part: the first labels of a longer head behave as if they were the only
// ones.
TEST(HeadStep, OtherLabelsDoNotChangeALabel) {
    for (const DType storage : kHeadStorages) {
        Rng rng(53);
        const HeadShape small{4, 19, 3}, large{4, 19, 700};
        const auto x = make_input("x", DType::kBf16, 4, 19, rng);
        const auto start = make_input("start", storage, large.labels, 19, rng, 0.3);
        std::vector<std::vector<unsigned char>> first_rows;
        for (const HeadShape& s : {small, large}) {
            Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
            w.fill([&](auto r, auto c) { return (*start)(r, c); });
            Reserved tested(make_tested_backend("auto"), head_workload(s, storage, 1));
            const PositiveList positives = {{1, 2}};
            tested->head_step(head_op(*x, w, positives, dx));
            auto bytes = w.bytes();
            bytes.resize(static_cast<std::size_t>(3 * 19 * size_of(storage)));
            first_rows.push_back(bytes);
        }
        EXPECT_EQ(first_rows[0], first_rows[1]) << name_of(storage);
    }
}

// A weight of the same FP32 value gives the same bits: one input column, so that nothing is summed.
TEST(HeadStep, RoundingEqualsTheScalarDefinition) {
    for (const DType storage : {DType::kBf16, DType::kE4M3, DType::kE3M4}) {
        const HeadShape s{1, 130, 300};
        Tensor x("x", DType::kBf16, 1, s.width), w("w", storage, s.labels, s.width);
        Tensor dx("dx", DType::kF32, 1, s.width);
        // x = 0: sigmoid(0) = 1/2 exactly, the update is only the decay: w (1 - 1/8 * 1/2).
        x.fill([](auto, auto) { return 0; });
        w.fill(
            [](auto r, auto c) { return 0.003 * static_cast<double>(r) - 0.0021 * static_cast<double>(c); });
        Tensor before("before", storage, s.labels, s.width);
        before.copy(w);
        for (const std::string& kind : head_products()) {
            w.copy(before);
            Reserved tested(make_tested_backend(kind), head_workload(s, storage, 1));
            HeadStep op = head_op(x, w, {}, dx);
            op.lr = 0.125f;
            op.weight_decay = 0.5f;
            tested->head_step(op);
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < s.width; ++d)
                    ASSERT_EQ(w(l, d), rounded(storage, before(l, d) * 0.9375, noise16(op.rounding, l, d)));
        }
        // x = 1 in one column and w = 0 there: g = 1/2, the update is -lr / 2 exactly.
        x.set(0, 5, 1);
        w.fill([](auto, auto) { return 0; });
        Reserved tested(make_tested_backend("auto"), head_workload(s, storage, 1));
        HeadStep op = head_op(x, w, {}, dx);
        op.lr = 0.0011f;
        tested->head_step(op);
        for (std::int64_t l = 0; l < s.labels; ++l)
            for (std::int64_t d = 0; d < s.width; ++d)
                ASSERT_EQ(w(l, d),
                          d == 5 ? rounded(storage, -0.5 * double{0.0011f}, noise16(op.rounding, l, d)) : 0);
    }
}

// p > 0.998 rounds to 1 in BF16; the gradient must be taken before that rounding.
TEST(HeadStep, ConfidentPositiveStillLearns) {
    for (const std::string& kind : head_products()) {
        Tensor x("x", DType::kBf16, 1, 1), w("w", DType::kF32, 2, 1), dx("dx", DType::kF32, 1, 1);
        x.set(0, 0, 1);
        w.set(0, 0, 8);   // p = 0.99966, positive
        w.set(1, 0, -8);  // p = 0.00034, negative
        Reserved tested(make_tested_backend(kind), head_workload({1, 1, 2}, DType::kF32, 1));
        const PositiveList positives = {{0, 0}};
        HeadStep op = head_op(x, w, positives, dx);
        op.weight_decay = 0;
        op.lr = 1;
        tested->head_step(op);
        const double g = 1 / (1 + std::exp(8.0));
        // BF16 of g within a unit: 2^-8; FP32 near p = 1 within 2^-24.
        EXPECT_NEAR(w(0, 0) - 8, g, g * 0x1p-8 + 0x1p-22);
        EXPECT_NEAR(w(1, 0) + 8, -g, g * 0x1p-8 + 0x1p-20);
        EXPECT_NEAR(dx(0, 0), -16 * g, 16 * g * 0x1p-7);
    }
}

TEST(HeadStep, WeightDecayActs) {
    for (const DType storage : kHeadStorages) {
        Rng rng(59);
        const HeadShape s{2, 64, 64};
        const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
        double totals[2] = {0, 0};
        for (const int decays : {0, 1}) {
            Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
            w.fill([](auto, auto) { return 1.0; });
            Reserved tested(make_tested_backend("auto"), head_workload(s, storage, 1));
            HeadStep op = head_op(*x, w, {}, dx);
            op.lr = 0.1f;
            op.weight_decay = decays ? 0.4f : 0.0f;
            tested->head_step(op);
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < s.width; ++d) totals[decays] += w(l, d) / (64 * 64);
        }
        // Two means of 4096 roundings with a spacing of at most 1/8.
        const double standard_error = std::sqrt(2.0) * 0.5 * 0.125 / 64;
        EXPECT_NEAR(totals[0] - totals[1], 0.04, 5 * standard_error) << name_of(storage);
    }
}

TEST(HeadStep, SaturationsAreCountedAndFinite) {
    const HeadShape s{1, 4, 300};
    for (const DType storage : {DType::kE4M3, DType::kE3M4}) {
        const double top = storage == DType::kE4M3 ? 448 : 1.9375;
        Tensor x("x", DType::kBf16, 1, 4), w("w", storage, s.labels, 4), dx("dx", DType::kF32, 1, 4);
        x.fill([](auto, auto c) { return c == 0 ? 1.0 : c == 1 ? -1.0 : 0.0; });
        w.fill([](auto, auto) { return 0; });
        Reserved tested(make_tested_backend("auto"), head_workload(s, storage, 1));
        HeadStep op = head_op(x, w, {}, dx);
        op.lr = 2000;
        EXPECT_EQ(tested->head_step(op).saturations, 2 * s.labels);
        for (std::int64_t l = 0; l < s.labels; ++l) {
            ASSERT_EQ(w(l, 0), -top);
            ASSERT_EQ(w(l, 1), top);
            ASSERT_EQ(w(l, 2), 0);
        }
    }
}

// Labels in parts, with first_label set and without dx, get the bits of one step over all:
// that is how a head is refined within a memory budget. Parts are cut between tiles.
void check_parts(Backend& backend, const HeadShape& s, DType storage, float dropout, Rng& rng) {
    const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
    const auto start = make_input("w", storage, s.labels, s.width, rng, 0.2);
    const auto positives = random_positives(s, 0.05, rng);
    Tensor whole("whole", storage, s.labels, s.width), parts("parts", storage, s.labels, s.width);
    Tensor dx("dx", DType::kF32, s.batch, s.width);
    whole.copy(*start);
    parts.copy(*start);
    HeadStep op = head_op(*x, whole, positives, dx);
    op.weight_dropout = {dropout, {77, 5, 6}};
    const double loss = backend.head_step(op).loss_sum;
    dx.freeze();
    double part_losses = 0;
    for (const auto& [first, last] :
         {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 768}, {768, s.labels}}) {
        const PositiveList mine = part_of(positives, first, last);
        op.w_LD = parts.view().slice(first, last);
        op.positives = mine;
        op.first_label = first;
        op.dx_BD = {};
        part_losses += backend.head_step(op).loss_sum;
    }
    expect_same_bits(whole, parts);
    EXPECT_NEAR(part_losses, loss, 0x1p-40 * loss);  // the same FP32 sums, added in FP64 in another order
}

TEST(HeadStep, PartsOfTheLabelsEqualTheWhole) {
    Rng rng(62);
    std::size_t turn = 0;
    for (const std::string& kind : head_products())
        for (const DType storage : kHeadStorages)
            for (const std::int64_t width : {64, 33, 128}) {
                if (repeats(kind, storage) || (skips_tiles(storage) && width != 33)) continue;
                const HeadShape s{7, width, under_sanitizer() ? 800 : 1000};
                SCOPED_TRACE(describe(s, storage, kind));
                Reserved tested(make_tested_backend(kind), head_workload(s, storage, 1));
                for (const float dropout : in_turn({0.0f, 0.3f}, turn))
                    check_parts(*tested, s, storage, dropout, rng);
            }
    const auto truth = make_reference_backend();
    for (const DType storage : kHeadStorages)
        for (const float dropout : {0.0f, 0.3f}) check_parts(*truth, {2, 5, 800}, storage, dropout, rng);
}

TEST(HeadStep, LossIsOptionalAndDxIsSet) {
    Rng rng(61);
    const HeadShape s{3, 5, 40};
    const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
    const auto start = make_input("w", DType::kBf16, s.labels, s.width, rng);
    Reserved tested(make_tested_backend("auto"), head_workload(s, DType::kBf16, 1));
    Tensor w1("w1", DType::kBf16, s.labels, s.width), w2("w2", DType::kBf16, s.labels, s.width);
    Tensor dx("dx", DType::kF32, s.batch, s.width), again("again", DType::kF32, s.batch, s.width);
    w1.copy(*start);
    w2.copy(*start);
    again.fill([](auto, auto) { return 1e6; });
    HeadStep op = head_op(*x, w1, {}, dx);
    EXPECT_GT(tested->head_step(op).loss_sum, 0);
    op.want_loss = false;
    op.w_LD = w2.view();
    op.dx_BD = again.view();
    EXPECT_EQ(tested->head_step(op).loss_sum, 0);
    expect_same_bits(w1, w2);
    expect_same_bits(dx, again);
}

}  // namespace
}  // namespace elmo::testing_ops::head_test
