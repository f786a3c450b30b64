// The head's step with weights on a grid: every bit where the arithmetic is exact, kinds of noise, exponents
// of rows, chunks.
#include <cstring>
#include <tuple>

#include "base/parallel.h"
#include "head_harness.h"
#include "numerics/row_exponents.h"

namespace elmo::testing_ops::head_grid_test {
namespace {

struct GridCase {
    WeightGrid grid;
    NoiseKind noise = NoiseKind::kIndependent;
    bool compensated = false;  // every third label
};
constexpr bool kNearest = true, kCompensated = true;
const GridCase kCases[] = {{{3, 4, 7}},
                           {{4, 3, 7, false, kNearest}},
                           {{2, 5, 2}, NoiseKind::kSteps},
                           {{0, 7, 0, true}},
                           {{2, 3, 1, true}, NoiseKind::kSteps},
                           {{0, 3, 0, true, kNearest}},
                           {{8, 7, 127}, NoiseKind::kPaired},
                           {{3, 12, 5}, NoiseKind::kShared},
                           {{2, 9, 1, false, kNearest}},
                           {{3, 4, 7}, NoiseKind::kIndependent, kCompensated},
                           {{0, 3, 0, true, kNearest}, NoiseKind::kIndependent, kCompensated},
                           {kE2M5Grid, NoiseKind::kSharedSteps, kCompensated},
                           {{2, 9, 1}, NoiseKind::kSteps, kCompensated}};

// Under a sanitizer those that take different kernels, where the kind of noise does not matter: BF16 and
// FP32, with and without exponents and compensation.
std::vector<GridCase> cases_of_every_kernel() {
    if (under_sanitizer()) return {kCases[1], kCases[4], kCases[7], kCases[11], kCases[12]};
    return {std::begin(kCases), std::end(kCases)};
}

DType storage_of(const WeightGrid& grid) {
    return grid.fits_bf16() ? DType::kBf16 : DType::kF32;
}

// A step whose arithmetic is exact: pairs of columns cancel in the logits, so g is one half, and the rate and
// the decay are powers of two.
struct ExactStep {
    HeadShape shape;
    GridCase mode;
    std::unique_ptr<Tensor> x, w, before, dx, exponents;
    Compensation compensation;
    PositiveList positives;
    HeadStep op;

    ExactStep(const HeadShape& s, const GridCase& given, float lr, std::uint64_t step, Rng& rng,
              float decay = 0x1p-4f)
        : shape(s), mode(given), compensation(s.labels, s.width, every_third) {
        const WeightGrid& grid = mode.grid;
        std::uniform_int_distribution<int> pick(-7, 7);
        compensation.values.fill([&](auto, auto) { return pick(rng) * 0x1p-12; });
        x = std::make_unique<Tensor>("x", DType::kBf16, s.batch, s.width);
        before = std::make_unique<Tensor>("before", storage_of(grid), s.labels, s.width);
        w = std::make_unique<Tensor>("w", storage_of(grid), s.labels, s.width);
        dx = std::make_unique<Tensor>("dx", DType::kF32, s.batch, s.width);
        exponents = std::make_unique<Tensor>("exponents", DType::kU8, s.labels, 1);
        x->fill([&](auto, auto) { return pick(rng) / 4.0; });
        for (std::int64_t l = 0; l < s.labels; ++l) {
            const int exponent = grid.row_scaled ? static_cast<int>(l % 5) - 4 : 0;
            exponents->view().codes()[l] = encode_row_exponent(exponent);
            const GridRow row = grid_row(grid, exponent);
            std::uint32_t ignored = 0;
            for (std::int64_t d = 0; d < s.width; ++d)
                before->set(l, d,
                            round_to_grid(row, static_cast<float>(pick(rng)) * std::min(row.max, 1.0f) / 16,
                                          true, 0, ignored));
        }
        for (std::int64_t d = 1; d < s.width; d += 2) {
            for (std::int64_t b = 0; b < s.batch; ++b) x->set(b, d, (*x)(b, d - 1));
            for (std::int64_t l = 0; l < s.labels; ++l) before->set(l, d, -(*before)(l, d - 1));
        }
        if (s.width % 2 == 1)
            for (std::int64_t b = 0; b < s.batch; ++b) x->set(b, s.width - 1, 0);
        x->freeze(), before->freeze();
        w->copy(*before);
        positives = random_positives(s, 0.3, rng);
        op = head_op(*x, *w, positives, *dx);
        op.lr = lr;
        op.weight_decay = decay / lr;
        op.rounding.step = op.rescaling.step = step;
        op.rescaling.seed = op.rounding.seed;
        op.rescaling.stream = 9;
        op.noise = mode.noise;
        op.grid = grid;
        if (grid.row_scaled) op.row_exponents_L1 = exponents->view();
        if (mode.compensated) compensation.give_to(op);
    }
    Workload workload(std::int64_t chunks) const {
        Workload work = head_workload(shape, w->dtype(), chunks);
        work.head_row_exponents = mode.grid.row_scaled;
        return work;
    }
};

std::string describe(const ExactStep& s) {
    return grid_name(s.mode.grid) + (s.mode.grid.nearest ? " nearest, " : " stochastic, ") + "noise " +
           std::to_string(static_cast<int>(s.mode.noise)) + ", " + std::to_string(s.shape.batch) + " x " +
           std::to_string(s.shape.width) + " x " + std::to_string(s.shape.labels) + ", lr " +
           std::to_string(s.op.lr) + (s.mode.compensated ? ", compensated" : "");
}

void check_exact(const HeadShape& shape, const GridCase& mode, float lr, std::uint64_t step,
                 const std::string& kind, Rng& rng) {
    ExactStep s(shape, mode, lr, step, rng);
    SCOPED_TRACE(describe(s));
    std::vector<double> sums(static_cast<std::size_t>(shape.labels * shape.width));
    PositiveWalk walk(s.positives);
    for (std::int64_t l = 0; l < shape.labels; ++l)
        for (std::int64_t b = 0; b < shape.batch; ++b) {
            const bool positive = walk.is_positive(l, static_cast<std::int32_t>(b));
            for (std::int64_t d = 0; d < shape.width; ++d)
                sums[static_cast<std::size_t>(l * shape.width + d)] += (positive ? -0.5 : 0.5) * (*s.x)(b, d);
        }
    Tensor expected("expected", s.w->dtype(), shape.labels, shape.width);
    Tensor rest("rest", DType::kBf16, s.compensation.values.rows(), shape.width);
    rest.copy(s.compensation.values);
    std::vector<std::uint8_t> exponents;
    std::int64_t saturations = 0;
    int raised = 0, lowered = 0;
    for (std::int64_t l = 0; l < shape.labels; ++l) {
        const int exponent = mode.grid.row_scaled ? static_cast<int>(l % 5) - 4 : 0;
        const GridRow row = grid_row(mode.grid, exponent);
        const std::int64_t c = mode.compensated ? s.compensation.row(l) : -1;
        std::uint32_t saturated = 0, ignored = 0;
        float largest = 0;
        for (std::int64_t d = 0; d < shape.width; ++d) {
            const double before = (*s.before)(l, d),
                         descent = double{lr} * sums[static_cast<std::size_t>(l * shape.width + d)];
            float t;
            if (c < 0) {
                t = round_to_grid(row, static_cast<float>(before * (1 - 0x1p-4) - descent), mode.grid.nearest,
                                  rounding_noise(mode.noise, s.op.rounding, l, d), saturated);
            } else {
                std::uint32_t beyond = 0;
                const auto y = static_cast<float>(-0x1p-4 * before - descent + rest(c, d));
                t = round_to_grid(row, static_cast<float>(before + y), true, 0, beyond);
                rest.set(c, d, beyond > 0 && !mode.grid.row_scaled ? 0 : y - (t - before));
                saturated += beyond;
            }
            expected.set(l, d, t);
            largest = std::max(largest, std::abs(t));
        }
        saturations += saturated;
        if (!mode.grid.row_scaled) continue;
        const int after = moved_row_exponent(mode.grid, exponent, saturated > 0, largest, step);
        exponents.push_back(encode_row_exponent(after));
        raised += after > exponent, lowered += after < exponent;
        if (after > exponent)
            for (std::int64_t d = 0; d < shape.width; ++d) {
                const auto w = static_cast<float>(expected(l, d));
                const float t = round_to_grid(grid_row(mode.grid, after), w, mode.grid.nearest || c >= 0,
                                              noise16(s.op.rescaling, l, d), ignored);
                expected.set(l, d, t);
                if (c >= 0) rest.set(c, d, rest(c, d) + (w - t));
            }
    }
    Reserved tested(make_tested_backend(kind), s.workload(1));
    const HeadStepResult result = tested->head_step(s.op);
    expect_same_bits(*s.w, expected);
    expect_same_bits(s.compensation.values, rest);
    EXPECT_EQ(result.saturations, saturations);
    if (!mode.grid.row_scaled) return;
    for (std::int64_t l = 0; l < shape.labels; ++l)
        ASSERT_EQ(s.exponents->view().codes()[l], exponents[static_cast<std::size_t>(l)]) << "row " << l;
    if (shape.labels < 100) return;
    if (lr > 0.1f) {
        EXPECT_GT(raised, 0);
    }
    if (step % kLoweringSteps == 0 && lr < 0.01f) {
        EXPECT_GT(lowered, 0);
    }
}

TEST(HeadGrid, EqualsTheScalarDefinitionWhereArithmeticIsExact) {
    Rng rng(61);
    std::size_t shape_turn = 0, turn = 0;
    for (const std::string& kind : head_products())
        for (const GridCase& mode : kCases) {
            if (repeats(kind, storage_of(mode.grid))) continue;
            for (const HeadShape& s : in_turn({HeadShape{3, 19, 131}, HeadShape{2, 64, 300}}, shape_turn))
                for (const float lr : in_turn({0x1p-10f, 0x1p-4f, 0x1p-1f}, turn)) {
                    check_exact(s, mode, lr, 5, kind, rng);
                    if (testing::Test::HasFatalFailure()) return;
                }
            if (under_sanitizer() && !mode.grid.row_scaled) continue;  // nothing to lower
            check_exact({1, 128, 129}, mode, 0x1p-12f, 2 * kLoweringSteps, kind, rng);
            if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(HeadGrid, ReferenceIsTheSame) {
    Rng rng(62);
    std::size_t turn = 0;
    for (const GridCase& mode : kCases)
        for (const float lr : in_turn({0x1p-10f, 0x1p-2f}, turn)) {
            Rng same = rng;
            ExactStep a({3, 64, 150}, mode, lr, kLoweringSteps, rng),
                b({3, 64, 150}, mode, lr, kLoweringSteps, same);
            SCOPED_TRACE(describe(a));
            Reserved tested(make_tested_backend("auto"), a.workload(1));
            tested->head_step(a.op);
            make_reference_backend()->head_step(b.op);
            expect_same_bits(*a.w, *b.w);
            expect_same_bits(a.compensation.values, b.compensation.values);
            EXPECT_EQ(a.exponents->bytes(), b.exponents->bytes());
        }
}

TEST(HeadGrid, ChunksAndThreadsDoNotMatter) {
    for (const GridCase& mode : cases_of_every_kernel()) {
        std::vector<std::vector<unsigned char>> outcomes;
        for (const auto& [chunks, threads] : {std::pair{1, 1}, std::pair{3, 2}, std::pair{8, 3}}) {
            Rng rng(63);
            ExactStep s({5, 64, under_sanitizer() ? 700 : 2600}, mode, 0x1p-3f, kLoweringSteps, rng);
            s.op.num_chunks = chunks;
            Reserved tested(make_tested_backend("auto", threads), s.workload(chunks));
            tested->head_step(s.op);
            auto bytes = s.w->bytes();
            for (const auto& more : {s.exponents->bytes(), s.dx->bytes(), s.compensation.values.bytes()})
                bytes.insert(bytes.end(), more.begin(), more.end());
            outcomes.push_back(bytes);
        }
        EXPECT_TRUE(outcomes[0] == outcomes[1] && outcomes[0] == outcomes[2]) << grid_name(mode.grid);
    }
}

// The kinds of noise serve every storage that is rounded.
TEST(HeadGrid, NoiseOfPlainStorages) {
    for (const DType storage : {DType::kBf16, DType::kE4M3, DType::kE3M4})
        for (const NoiseKind noise :
             {NoiseKind::kPaired, NoiseKind::kShared, NoiseKind::kSteps, NoiseKind::kSharedSteps})
            for (const auto& [batch, width] : {std::pair<std::int64_t, std::int64_t>{1, 33},
                                               {1, 64},
                                               {7, 128},
                                               {300, 128},
                                               {7, 384},
                                               {7, 768}}) {
                // A GPU has no more kernels for these.
                if (under_sanitizer() && !moves_by_step(noise) && width > 64) continue;
                Tensor x("x", DType::kBf16, batch, width), w("w", storage, 140, width);
                Tensor before("before", storage, 140, width), dx("dx", DType::kF32, batch, width);
                x.fill([](auto, auto) { return 0; });
                before.fill([](auto r, auto c) {
                    return 0.003 * static_cast<double>(r) - 0.0021 * static_cast<double>(c);
                });
                w.copy(before);
                Reserved tested(make_tested_backend("auto"), head_workload({batch, width, 140}, storage, 1));
                HeadStep op = head_op(x, w, {}, dx);
                op.lr = 0.125f;
                op.weight_decay = 0.5f;
                op.noise = noise;
                tested->head_step(op);
                for (std::int64_t l = 0; l < w.rows(); ++l)
                    for (std::int64_t d = 0; d < width; ++d)
                        ASSERT_EQ(w(l, d), rounded(storage, before(l, d) * 0.9375,
                                                   rounding_noise(noise, op.rounding, l, d)));
            }
}

// exmy:4,3 is fp8 in every product: x goes through E4M3 for the logits and the grid ends at 448. On a GPU a
// width that has no kernel of matrix instructions, where fp8 has another order of sums.
TEST(HeadGrid, E4M3IsFp8) {
    const WeightGrid grid{4, 3, 7};
    for (const HeadShape& s : {HeadShape{5, 33, 150}, HeadShape{130, 64, 300}}) {
        if (kTestsGpu && s.width % 64 == 0) continue;
        Rng rng(64);
        std::normal_distribution<double> normal;
        Tensor x("x", DType::kBf16, s.batch, s.width), codes("codes", DType::kE4M3, s.labels, s.width);
        Tensor w("w", DType::kBf16, s.labels, s.width);
        Tensor dx("dx", DType::kF32, s.batch, s.width), other("other", DType::kF32, s.batch, s.width);
        x.fill([&](auto, auto) { return normal(rng); });
        codes.fill([&](auto, auto column) { return column == 3 ? 447 : 0.2 * normal(rng); });
        w.copy(codes);
        const PositiveList positives = random_positives(s, 0.1, rng);
        for (const bool reference : {false, true}) {
            const auto run = [&](Tensor& weights, Tensor& to, const WeightGrid& on) {
                HeadStep op = head_op(x, weights, positives, to);
                op.lr = 8;
                op.weight_decay = 0;
                op.grid = on;
                if (reference) return make_reference_backend()->head_step(op);
                Reserved tested(make_tested_backend("auto"), head_workload(s, weights.dtype(), 1));
                return tested->head_step(op);
            };
            const HeadStepResult a = run(codes, dx, {}), b = run(w, other, grid);
            EXPECT_EQ(a.saturations, b.saturations);
            expect_same_bits(dx, other);
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < s.width; ++d) ASSERT_EQ(codes(l, d), w(l, d)) << l << " " << d;
        }
    }
}

// Weights as 8-bit codes of rows with exponents, as precision e2m5 keeps them.
struct Codes {
    Tensor codes, exponents;
    Codes(std::int64_t labels, std::int64_t width)
        : codes("codes", DType::kU8, labels, width), exponents("exponents", DType::kU8, labels, 1) {}

    int exponent(std::int64_t l) const { return decode_row_exponent(exponents.view().codes()[l]); }
    double operator()(std::int64_t l, std::int64_t d) const {
        return decode_grid_code(grid_row(kE2M5Grid, exponent(l)), codes.view().codes()[l * codes.cols() + d]);
    }
    void set_exponent(std::int64_t l, int e) { exponents.view().codes()[l] = encode_row_exponent(e); }
    void set(std::int64_t l, std::int64_t d, double x) {  // a number of the row's grid
        codes.view().codes()[l * codes.cols() + d] =
            encode_grid_code(grid_row(kE2M5Grid, exponent(l)), static_cast<float>(x));
    }
    // The op on these weights instead.
    HeadStep step(HeadStep op) const {
        op.w_LD = codes.view();
        op.grid = kE2M5Grid;
        op.row_exponents_L1 = exponents.view();
        return op;
    }
};

// Codes of 8 bits with an exponent per row are the same weights as those kept in BF16: same step, same
// ranking. On a GPU the two may take different kernels, which add losses in another order.
TEST(HeadGrid, CodesAreTheSameWeights) {
    Rng rng(64);
    int raised = 0, lowered = 0;
    std::vector<HeadShape> shapes = {{3, 19, 131}, {2, 64, 300}, {130, 128, 129}};
    shapes.insert(shapes.end(), tiled_shapes().begin(), tiled_shapes().end());
    struct Case {
        float lr, decay;
        int step;
        float dropout;
        NoiseKind noise;
        bool compensated = false;
    };
    constexpr NoiseKind kIndependent = NoiseKind::kIndependent, kSteps = NoiseKind::kSteps;
    const std::initializer_list<Case> all = {{0x1p-10f, 0x1p-4f, 5, 0, kSteps},
                                             {0x1p-2f, 0x1p-4f, 6, 0, kIndependent},
                                             {0x1p-2f, 0, 7, 0, kSteps},
                                             {0x1p-4f, 0, 9, 0, NoiseKind::kSharedSteps},
                                             {0x1p-2f, 0x1p-4f, 8, 0.3f, kSteps},
                                             {0x1p-12f, 0, 128, 0, kIndependent},
                                             {0x1p-2f, 0x1p-4f, 11, 0, NoiseKind::kSharedSteps, kCompensated},
                                             {0x1p-3f, 0, 13, 0, NoiseKind::kSharedSteps, kCompensated},
                                             {0x1p-4f, 0, 12, 0.3f, kSteps, kCompensated}};
    // Hopper has a kernel for each decay and noise: one of its shapes takes all cases. The first shape, for
    // which there are plain loops, begins with the last: dropout and compensation.
    auto cases_for = [&, turn = all.size() - 1](const HeadShape& s) mutable {
        return s.width == 128 && s.labels == 129 ? std::vector(all) : in_turn(all, turn);
    };
    for (const std::string& kind : head_products())
        for (const HeadShape& shape : shapes)
            for (const auto& [lr, decay, step, dropout, noise, compensated] : cases_for(shape)) {
                const std::int64_t labels = shape.labels, width = shape.width;
                ExactStep s(shape, {kE2M5Grid, noise, compensated}, lr, static_cast<std::uint64_t>(step), rng,
                            decay);
                SCOPED_TRACE(describe(s) + ", dropout " + std::to_string(dropout));
                s.op.weight_dropout = {dropout, {77, 5, 6}};
                Codes codes(labels, width);
                Tensor dx("dx", DType::kF32, shape.batch, width);
                std::memcpy(codes.exponents.view().data, s.exponents->view().data,
                            static_cast<std::size_t>(labels));
                for (std::int64_t l = 0; l < labels; ++l)
                    for (std::int64_t d = 0; d < width; ++d) codes.set(l, d, (*s.before)(l, d));
                HeadStep packed = codes.step(s.op);
                packed.dx_BD = dx.view();
                Compensation compensation(labels, width, every_third);
                compensation.values.copy(s.compensation.values);
                if (compensated) compensation.give_to(packed);
                packed.num_chunks = 3;
                const auto before = s.exponents->bytes();
                Workload workload = s.workload(1);
                workload.top_k = 7;
                Workload coded_workload = workload;
                coded_workload.head_dtype = DType::kU8;
                Reserved tested(make_tested_backend(kind), workload),
                    coded(make_tested_backend(kind), coded_workload);
                const HeadStepResult expected = tested->head_step(s.op), result = coded->head_step(packed);
                EXPECT_EQ(result.saturations, expected.saturations);
                // Lanes of at most 64 FP32 additions, five more in a warp, then FP64.
                EXPECT_NEAR(result.loss_sum, expected.loss_sum,
                            kTestsGpu ? 2 * sum_error(64 + 5) * expected.loss_sum : 0);
                expect_same_bits(dx, *s.dx);
                expect_same_bits(compensation.values, s.compensation.values);
                ASSERT_EQ(codes.exponents.bytes(), s.exponents->bytes());
                for (std::size_t l = 0; l < before.size(); ++l) {
                    raised += codes.exponents.bytes()[l] > before[l];
                    lowered += codes.exponents.bytes()[l] < before[l];
                }
                for (std::int64_t l = 0; l < labels; ++l)
                    for (std::int64_t d = 0; d < width; ++d) ASSERT_EQ(codes(l, d), (*s.w)(l, d));
                // One factor per text: the logits are exact.
                Tensor x("x", DType::kBf16, shape.batch, width);
                x.fill([&](auto b, auto d) { return d == b % width ? 1 : 0; });
                const View w = codes.codes.view(), exponents = codes.exponents.view();
                const auto a = tested->head_topk({x.view(), s.w->view(), 7});
                const auto b = coded->head_topk({x.view(), w, 7, kE2M5Grid, exponents});
                const auto c = make_reference_backend()->head_topk({x.view(), w, 7, kE2M5Grid, exponents});
                for (std::size_t i = 0; i < a.size(); ++i) {
                    EXPECT_EQ(a[i].sorted(), b[i].sorted());
                    EXPECT_EQ(c[i].sorted(), b[i].sorted());
                }
                for (const std::int64_t texts : {1, 2, 4}) {  // few have kernels of their own
                    if (texts > shape.batch) continue;
                    const auto few = coded->head_topk({x.view().slice(0, texts), w, 7, kE2M5Grid, exponents});
                    for (std::size_t i = 0; i < few.size(); ++i) EXPECT_EQ(c[i].sorted(), few[i].sorted());
                }
                if (testing::Test::HasFailure()) return;
            }
    EXPECT_GT(raised, 0);
    EXPECT_GT(lowered, 0);
}

// Weights that drift by less than their spacing: weight and compensation together are the exact sum at every
// step, whatever exponents their row has had.
TEST(HeadGrid, CompensationCarriesARowThroughItsExponents) {
    constexpr double kUpdate = 0x1p-7, kInput = 0x1p-17;
    for (const HeadShape& s : {HeadShape{1, 8, 3}, HeadShape{1, 128, 130}}) {
        Tensor x("x", DType::kBf16, 1, s.width), dx("dx", DType::kF32, 1, s.width);
        x.fill([&](auto, auto) { return kInput; });  // logits stay below 2^-8: g is one half
        x.freeze();
        Codes w(s.labels, s.width);
        for (std::int64_t l = 0; l < s.labels; ++l) {
            w.set_exponent(l, -6);
            for (std::int64_t d = 0; d < s.width; ++d) w.set(l, d, 0);
        }
        Compensation compensation(s.labels, s.width, every_third);
        Workload workload = head_workload(s, DType::kU8, 1);
        workload.head_row_exponents = true;
        Reserved tested(make_tested_backend("auto"), workload);
        for (int i = 1; i <= 300; ++i) {
            HeadStep op = w.step(head_op(x, w.codes, {}, dx));
            op.lr = static_cast<float>(2 * kUpdate / kInput);
            op.weight_decay = 0;
            op.rounding.step = op.rescaling.step = static_cast<std::uint64_t>(i);
            op.noise = NoiseKind::kSharedSteps;
            compensation.give_to(op);
            tested->head_step(op);
            for (std::int64_t l = 1; l < s.labels; l += 3)
                for (std::int64_t d = 0; d < s.width; ++d) {
                    const double c = compensation.values(compensation.row(l), d);
                    ASSERT_EQ(w(l, d) + c, -i * kUpdate) << "after step " << i;
                    ASSERT_LE(std::abs(c), 0x1p-4) << "after step " << i;
                }
        }
        EXPECT_GE(w.exponent(1), -1);  // 2.34 is beyond 1.97
    }
}

// Logits of rows with exponents of their own, and what follows from them. Every seventh row has an exponent
// so small that its update saturates it.
void check_codes(const HeadShape& s, const std::string& kind, float weight_decay, NoiseKind noise, Rng& rng) {
    const auto x = make_coarse_input("x", DType::kBf16, s.batch, s.width, rng);
    Tensor before("before", DType::kBf16, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
    Codes w(s.labels, s.width);
    std::uniform_int_distribution<int> pick(-7, 7);
    const auto exponent_of = [](std::int64_t l) { return l % 7 == 3 ? -6 : static_cast<int>(l % 5) - 4; };
    for (std::int64_t l = 0; l < s.labels; ++l) {
        w.set_exponent(l, exponent_of(l));
        for (std::int64_t d = 0; d < s.width; ++d) {
            before.set(l, d, pick(rng) / 16.0 * power_of_two(exponent_of(l)));
            w.set(l, d, before(l, d));
        }
    }
    before.freeze();
    const auto positives = random_positives(s, 0.05, rng);
    HeadStep op = w.step(head_op(*x, w.codes, positives, dx));
    op.lr = 1;
    op.weight_decay = weight_decay;
    op.noise = noise;
    op.rescaling = {77, 5, 9};
    op.first_label = 4000;
    Workload workload = head_workload(s, DType::kU8, 1);
    workload.head_row_exponents = true;
    Reserved tested(make_tested_backend(kind), workload);
    const HeadStepResult result = tested->head_step(op);
    const HeadBounds bounds(*x, before, op);
    EXPECT_LE(std::abs(result.loss_sum - bounds.loss()), bounds.loss_error());
    std::int64_t certain = 0, fewest = 0, most = 0, raised = 0;
    for (std::int64_t l = 0; l < s.labels; ++l) {
        const int e = exponent_of(l);
        const GridRow row = grid_row(kE2M5Grid, e), wider = grid_row(kE2M5Grid, e + 1);
        std::int64_t surely = 0, perhaps = 0;
        for (std::int64_t d = 0; d < s.width; ++d) {
            const auto [low, high] = bounds.weight(l, d);
            surely += low > row.max || high < -row.max;
            perhaps += high > row.max || low < -row.max;
        }
        fewest += surely, most += perhaps;
        if (surely == 0 && perhaps > 0) continue;  // either may be right
        const bool rises = surely > 0;
        ASSERT_EQ(w.exponent(l), e + rises) << "row " << l;
        raised += rises;
        for (std::int64_t d = 0; d < s.width; ++d) {
            const auto [low, high] = bounds.weight(l, d);
            const auto expected = [&](double value) {
                std::uint32_t ignored = 0;
                const float y =
                    round_to_grid(row, static_cast<float>(value), false,
                                  rounding_noise(noise, op.rounding, op.first_label + l, d), ignored);
                return double{rises ? round_to_grid(wider, y, false,
                                                    noise16(op.rescaling, op.first_label + l, d), ignored)
                                    : y};
            };
            const double a = expected(low), b = expected(high);
            ASSERT_TRUE(a <= w(l, d) && w(l, d) <= b)
                << "w(" << l << ", " << d << ") = " << w(l, d) << ", expected " << a << " to " << b;
            certain += a == b;
        }
    }
    EXPECT_LE(fewest, result.saturations);
    EXPECT_LE(result.saturations, most);
    if (s.labels * s.width > 200) {
        EXPECT_GT(raised, s.labels / 10);
        if (s.batch < 256) {
            EXPECT_GT(certain, s.labels * s.width * 3 / 4);
        }
    }
    Tensor exact("exact dx", DType::kF64, s.batch, s.width);
    exact.fill([&](auto b, auto d) { return bounds.dx(b, d); });
    expect_close(dx, exact, [&](auto b, auto d) { return bounds.dx_error(b, d); });
}

TEST(HeadGrid, CodesWithinBounds) {
    Rng rng(66);
    std::size_t turn = 0;
    for (const std::string& kind : head_products())
        for (const HeadShape& s : tiled_shapes())
            for (const auto& [decay, noise] :
                 in_turn({std::pair{0.3f, NoiseKind::kSteps}, std::pair{0.0f, NoiseKind::kIndependent},
                          std::pair{0.1f, NoiseKind::kSharedSteps}},
                         turn)) {
                SCOPED_TRACE(kind + " products, " + std::to_string(s.batch) + " x " +
                             std::to_string(s.width) + " x " + std::to_string(s.labels));
                check_codes(s, kind, decay, noise, rng);
                if (testing::Test::HasFatalFailure()) return;
            }
}

// One weight that saturates raises its row's exponent, wherever in the row it stands, and no other row's. The
// weights grow only by a negative decay.
TEST(HeadGrid, OneWeightRaisesItsRow) {
    for (const HeadShape& s : {HeadShape{1, 33, 140}, HeadShape{1, 64, 300}, HeadShape{7, 128, 300},
                               HeadShape{7, 384, 700}, HeadShape{300, 384, 130}, HeadShape{1, 768, 700}})
        for (const NoiseKind noise : {NoiseKind::kIndependent, NoiseKind::kSteps, NoiseKind::kSharedSteps}) {
            SCOPED_TRACE(std::to_string(s.batch) + " x " + std::to_string(s.width) + " x " +
                         std::to_string(s.labels));
            Tensor x("x", DType::kBf16, s.batch, s.width), dx("dx", DType::kF32, s.batch, s.width);
            x.fill([](auto, auto) { return 0; });
            Codes w(s.labels, s.width);
            const auto exponent_of = [](std::int64_t l) { return static_cast<int>(l % 5) - 4; };
            const auto column_of = [&](std::int64_t l) { return 37 * l % s.width; };
            const auto start = [&](std::int64_t l) {
                const double max = grid_row(kE2M5Grid, exponent_of(l)).max;
                return (l % 2 == 0 ? max : -max) * (l % 3 == 0 ? 1 : 0.5);
            };
            for (std::int64_t l = 0; l < s.labels; ++l) {
                w.set_exponent(l, exponent_of(l));
                for (std::int64_t d = 0; d < s.width; ++d) w.set(l, d, d == column_of(l) ? start(l) : 0);
            }
            Workload workload = head_workload(s, DType::kU8, 1);
            workload.head_row_exponents = true;
            Reserved tested(make_tested_backend("auto"), workload);
            HeadStep op = w.step(head_op(x, w.codes, {}, dx));
            op.lr = 0.125f;
            op.weight_decay = -0.5f;
            op.noise = noise;
            op.rescaling = {77, 5, 9};
            EXPECT_EQ(tested->head_step(op).saturations, (s.labels + 2) / 3);
            for (std::int64_t l = 0; l < s.labels; ++l) {
                const std::int64_t d = column_of(l);
                const int e = exponent_of(l), rises = l % 3 == 0;
                ASSERT_EQ(w.exponent(l), e + rises) << "row " << l << ", column " << d;
                std::uint32_t ignored = 0;
                float y = round_to_grid(grid_row(kE2M5Grid, e), static_cast<float>(start(l) * 1.0625), false,
                                        rounding_noise(noise, op.rounding, l, d), ignored);
                if (rises)
                    y = round_to_grid(grid_row(kE2M5Grid, e + 1), y, false, noise16(op.rescaling, l, d),
                                      ignored);
                ASSERT_EQ(w(l, d), y) << "row " << l << ", column " << d;
            }
        }
}

// Noise, also of rows that rise, and masks of weight dropout are addressed by the label's number among all.
TEST(HeadGrid, PartsOfTheLabelsEqualTheWhole) {
    for (const GridCase& mode : cases_of_every_kernel())
        for (const float dropout : {0.0f, 0.3f}) {
            Rng rng(65), same = rng;
            const HeadShape shape{3, 64, 600};
            ExactStep whole(shape, mode, 0x1p-2f, 5, rng), parts(shape, mode, 0x1p-2f, 5, same);
            SCOPED_TRACE(describe(whole) + ", dropout " + std::to_string(dropout));
            whole.op.weight_dropout = {dropout, {77, 5, 6}};
            Reserved tested(make_tested_backend("auto"), whole.workload(1));
            tested->head_step(whole.op);
            for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 600}}) {
                const PositiveList mine = part_of(parts.positives, first, last);
                HeadStep op = whole.op;
                op.w_LD = parts.w->view().slice(first, last);
                if (mode.grid.row_scaled) op.row_exponents_L1 = parts.exponents->view().slice(first, last);
                op.positives = mine;
                op.first_label = first;
                op.dx_BD = {};
                Compensation own(last - first, shape.width,
                                 [&, first = first](auto l) { return every_third(first + l); });
                const std::int64_t rows_before = (first + 1) / 3;
                own.values.fill(
                    [&](auto r, auto d) { return parts.compensation.values(rows_before + r, d); });
                if (mode.compensated) own.give_to(op);
                tested->head_step(op);
                for (std::int64_t r = 0; mode.compensated && r < own.values.rows(); ++r)
                    for (std::int64_t d = 0; d < shape.width; ++d)
                        ASSERT_EQ(own.values(r, d), whole.compensation.values(rows_before + r, d));
            }
            expect_same_bits(*whole.w, *parts.w);
            EXPECT_EQ(whole.exponents->bytes(), parts.exponents->bytes());
        }
}

TEST(HeadGrid, StartsOnTheGrid) {
    for (const GridCase& mode : kCases)
        for (const std::int64_t width : {1, 33, 256}) {
            const std::int64_t rows = 70;
            Tensor w("w", storage_of(mode.grid), rows, width), again("again", w.dtype(), rows, width);
            Tensor e("exponents", DType::kU8, rows, 1), e_again("exponents", DType::kU8, rows, 1);
            FillNormal op{w.view(), 0.02f, {3, 0, 2}, {3, 0, 3}, 7, mode.grid, View{}};
            if (mode.grid.row_scaled) op.row_exponents = e.view();
            Reserved tested(make_tested_backend("auto"), head_workload({1, width, rows}, w.dtype(), 1));
            tested->fill_normal(op);
            op.w = again.view();
            if (mode.grid.row_scaled) op.row_exponents = e_again.view();
            make_reference_backend()->fill_normal(op);
            expect_same_bits(w, again);
            EXPECT_EQ(e.bytes(), e_again.bytes());
            for (std::int64_t r = 0; r < rows; ++r) {
                const int exponent = mode.grid.row_scaled ? decode_row_exponent(e.view().codes()[r]) : 0;
                const GridRow row = grid_row(mode.grid, exponent);
                for (std::int64_t c = 0; c < width; ++c) {
                    std::uint32_t saturated = 0;
                    const auto x = static_cast<float>(w(r, c));
                    ASSERT_EQ(round_to_grid(row, x, true, 0, saturated), x);
                }
                // The exponent is the smallest with room for the first updates.
                if (mode.grid.row_scaled) {
                    EXPECT_GE(row.max, kFirstReach);
                    EXPECT_LT(grid_row(mode.grid, exponent - 1).max, kFirstReach);
                }
            }
        }
}

}  // namespace
}  // namespace elmo::testing_ops::head_grid_test
