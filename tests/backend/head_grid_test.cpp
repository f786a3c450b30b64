// The head's step with weights on a grid: every bit where the arithmetic is exact, kinds of noise, exponents
// of rows, chunks.
#include <cstring>
#include <tuple>

#include "base/parallel.h"
#include "head_harness.h"

namespace elmo::testing_ops {
namespace {

struct GridCase {
    WeightGrid grid;
    NoiseKind noise = NoiseKind::kIndependent;
};
constexpr bool kNearest = true;
const GridCase kCases[] = {{{3, 4, 7}},
                           {{4, 3, 7, false, kNearest}},
                           {{2, 5, 2}, NoiseKind::kSteps},
                           {{0, 7, 0, true}},
                           {{2, 3, 1, true}, NoiseKind::kSteps},
                           {{0, 3, 0, true, kNearest}},
                           {{8, 7, 127}, NoiseKind::kPaired},
                           {{3, 12, 5}, NoiseKind::kShared},
                           {{2, 9, 1, false, kNearest}}};

DType storage_of(const WeightGrid& grid) {
    return grid.fits_bf16() ? DType::kBf16 : DType::kF32;
}

// A step whose arithmetic is exact: pairs of columns cancel in the logits, so g is one half, and the rate and
// the decay are powers of two.
struct ExactStep {
    HeadShape shape;
    GridCase mode;
    std::unique_ptr<Tensor> x, w, before, dx, exponents;
    std::vector<Positive> positives;
    HeadStep op;

    ExactStep(const HeadShape& s, const GridCase& given, float lr, std::uint64_t step, Rng& rng)
        : shape(s), mode(given) {
        const WeightGrid& grid = mode.grid;
        std::uniform_int_distribution<int> pick(-7, 7);
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
        op.weight_decay = 0x1p-4f / lr;
        op.rounding.step = op.rescaling.step = step;
        op.rescaling.seed = op.rounding.seed;
        op.rescaling.stream = 9;
        op.noise = mode.noise;
        op.grid = grid;
        if (grid.row_scaled) op.row_exponents_L1 = exponents->view();
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
           std::to_string(s.op.lr);
}

void check_exact(const HeadShape& shape, const GridCase& mode, float lr, std::uint64_t step,
                 const std::string& kind, Rng& rng) {
    ExactStep s(shape, mode, lr, step, rng);
    SCOPED_TRACE(describe(s));
    std::vector<double> sums(static_cast<std::size_t>(shape.labels * shape.width));
    auto next = s.positives.begin();
    for (std::int64_t l = 0; l < shape.labels; ++l)
        for (std::int64_t b = 0; b < shape.batch; ++b) {
            const bool positive = next != s.positives.end() && next->label == l && next->sample == b;
            if (positive) ++next;
            for (std::int64_t d = 0; d < shape.width; ++d)
                sums[static_cast<std::size_t>(l * shape.width + d)] += (positive ? -0.5 : 0.5) * (*s.x)(b, d);
        }
    Tensor expected("expected", s.w->dtype(), shape.labels, shape.width);
    std::vector<std::uint8_t> exponents;
    std::int64_t saturations = 0;
    int raised = 0, lowered = 0;
    for (std::int64_t l = 0; l < shape.labels; ++l) {
        const int exponent = mode.grid.row_scaled ? static_cast<int>(l % 5) - 4 : 0;
        std::uint32_t saturated = 0, ignored = 0;
        float largest = 0;
        for (std::int64_t d = 0; d < shape.width; ++d) {
            const double value = (*s.before)(l, d) * (1 - 0x1p-4) -
                                 double{lr} * sums[static_cast<std::size_t>(l * shape.width + d)];
            const float y =
                round_to_grid(grid_row(mode.grid, exponent), static_cast<float>(value), mode.grid.nearest,
                              rounding_noise(mode.noise, s.op.rounding, l, d), saturated);
            expected.set(l, d, y);
            largest = std::max(largest, std::abs(y));
        }
        saturations += saturated;
        if (!mode.grid.row_scaled) continue;
        const int after = moved_row_exponent(mode.grid, exponent, saturated > 0, largest, step);
        exponents.push_back(encode_row_exponent(after));
        raised += after > exponent, lowered += after < exponent;
        if (after > exponent)
            for (std::int64_t d = 0; d < shape.width; ++d)
                expected.set(l, d,
                             round_to_grid(grid_row(mode.grid, after), static_cast<float>(expected(l, d)),
                                           mode.grid.nearest, noise16(s.op.rescaling, l, d), ignored));
    }
    Reserved tested(make_tested_backend(kind), s.workload(1));
    const HeadStepResult result = tested->head_step(s.op);
    expect_same_bits(*s.w, expected);
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
    for (const std::string& kind : head_products())
        for (const GridCase& mode : kCases) {
            if (repeats(kind, storage_of(mode.grid))) continue;
            for (const HeadShape& s : {HeadShape{3, 19, 131}, HeadShape{2, 64, 300}})
                for (const float lr : {0x1p-10f, 0x1p-4f, 0x1p-1f}) {
                    check_exact(s, mode, lr, 5, kind, rng);
                    if (testing::Test::HasFatalFailure()) return;
                }
            check_exact({1, 128, 129}, mode, 0x1p-12f, 2 * kLoweringSteps, kind, rng);
            if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(HeadGrid, ReferenceIsTheSame) {
    Rng rng(62);
    for (const GridCase& mode : kCases)
        for (const float lr : {0x1p-10f, 0x1p-2f}) {
            Rng same = rng;
            ExactStep a({3, 64, 150}, mode, lr, kLoweringSteps, rng),
                b({3, 64, 150}, mode, lr, kLoweringSteps, same);
            SCOPED_TRACE(describe(a));
            Reserved tested(make_tested_backend("auto"), a.workload(1));
            tested->head_step(a.op);
            make_reference_backend()->head_step(b.op);
            expect_same_bits(*a.w, *b.w);
            EXPECT_EQ(a.exponents->bytes(), b.exponents->bytes());
        }
}

TEST(HeadGrid, ChunksAndThreadsDoNotMatter) {
    for (const GridCase& mode : kCases) {
        std::vector<std::vector<unsigned char>> outcomes;
        for (const auto& [chunks, threads] : {std::pair{1, 1}, std::pair{3, 2}, std::pair{8, 3}}) {
            set_num_threads(threads);
            Rng rng(63);
            ExactStep s({5, 64, 2600}, mode, 0x1p-3f, kLoweringSteps, rng);
            s.op.num_chunks = chunks;
            Reserved tested(make_tested_backend("auto"), s.workload(chunks));
            tested->head_step(s.op);
            auto bytes = s.w->bytes();
            for (const auto& more : {s.exponents->bytes(), s.dx->bytes()})
                bytes.insert(bytes.end(), more.begin(), more.end());
            outcomes.push_back(bytes);
        }
        set_num_threads(0);
        EXPECT_TRUE(outcomes[0] == outcomes[1] && outcomes[0] == outcomes[2]) << grid_name(mode.grid);
    }
}

// The kinds of noise serve every storage that is rounded.
TEST(HeadGrid, NoiseOfPlainStorages) {
    for (const DType storage : {DType::kBf16, DType::kE4M3, DType::kE3M4})
        for (const NoiseKind noise : {NoiseKind::kPaired, NoiseKind::kShared, NoiseKind::kSteps})
            for (const std::int64_t width : {33, 64}) {
                Tensor x("x", DType::kBf16, 1, width), w("w", storage, 140, width);
                Tensor before("before", storage, 140, width), dx("dx", DType::kF32, 1, width);
                x.fill([](auto, auto) { return 0; });
                before.fill([](auto r, auto c) {
                    return 0.003 * static_cast<double>(r) - 0.0021 * static_cast<double>(c);
                });
                w.copy(before);
                Reserved tested(make_tested_backend("auto"), head_workload({1, width, 140}, storage, 1));
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

// Codes of 8 bits with an exponent a row are the same weights as those kept in BF16: same step, same ranking.
TEST(HeadGrid, CodesAreTheSameWeights) {
    Rng rng(64);
    int raised = 0, lowered = 0;
    for (const std::string& kind : head_products())
        for (const HeadShape& shape :
             {HeadShape{3, 19, 131}, HeadShape{2, 64, 300}, HeadShape{130, 128, 129}})
            for (const auto& [lr, step, dropout] :
                 {std::tuple{0x1p-10f, 5, 0.0f}, std::tuple{0x1p-2f, 6, 0.0f}, std::tuple{0x1p-2f, 7, 0.3f},
                  std::tuple{0x1p-12f, 128, 0.0f}}) {
                const std::int64_t labels = shape.labels, width = shape.width;
                ExactStep s(shape, {kE2M5Grid, NoiseKind::kSteps}, lr, static_cast<std::uint64_t>(step), rng);
                SCOPED_TRACE(describe(s) + ", dropout " + std::to_string(dropout));
                s.op.weight_dropout = {dropout, {77, 5, 6}};
                Tensor codes("codes", DType::kU8, labels, width),
                    exponents("exponents", DType::kU8, labels, 1);
                Tensor dx("dx", DType::kF32, shape.batch, width);
                const auto row = [&](std::int64_t l) {
                    return grid_row(kE2M5Grid, decode_row_exponent(exponents.view().codes()[l]));
                };
                std::memcpy(exponents.view().data, s.exponents->view().data,
                            static_cast<std::size_t>(labels));
                for (std::int64_t l = 0; l < labels; ++l)
                    for (std::int64_t d = 0; d < width; ++d)
                        codes.view().codes()[l * width + d] =
                            encode_grid_code(row(l), static_cast<float>((*s.before)(l, d)));
                HeadStep packed = s.op;
                packed.w_LD = codes.view();
                packed.row_exponents_L1 = exponents.view();
                packed.dx_BD = dx.view();
                const auto before = s.exponents->bytes();
                Workload workload = s.workload(1);
                workload.top_k = 7;
                Reserved tested(make_tested_backend(kind), workload);
                const HeadStepResult expected = tested->head_step(s.op), result = tested->head_step(packed);
                EXPECT_EQ(result.saturations, expected.saturations);
                EXPECT_EQ(result.loss_sum, expected.loss_sum);
                expect_same_bits(dx, *s.dx);
                ASSERT_EQ(exponents.bytes(), s.exponents->bytes());
                for (std::size_t l = 0; l < before.size(); ++l) {
                    raised += exponents.bytes()[l] > before[l];
                    lowered += exponents.bytes()[l] < before[l];
                }
                for (std::int64_t l = 0; l < labels; ++l)
                    for (std::int64_t d = 0; d < width; ++d)
                        ASSERT_EQ(decode_grid_code(row(l), codes.view().codes()[l * width + d]),
                                  (*s.w)(l, d));
                // One factor a text: the logits are exact.
                Tensor x("x", DType::kBf16, shape.batch, width);
                x.fill([&](auto b, auto d) { return d == b % width ? 1 : 0; });
                const auto a = tested->head_topk({x.view(), s.w->view(), 7});
                const auto b = tested->head_topk({x.view(), codes.view(), 7, kE2M5Grid, exponents.view()});
                const auto c = make_reference_backend()->head_topk(
                    {x.view(), codes.view(), 7, kE2M5Grid, exponents.view()});
                for (std::size_t i = 0; i < a.size(); ++i) {
                    EXPECT_EQ(a[i].sorted(), b[i].sorted());
                    EXPECT_EQ(c[i].sorted(), b[i].sorted());
                }
            }
    EXPECT_GT(raised, 0);
    EXPECT_GT(lowered, 0);
}

// Noise, also of rows that rise, and masks of weight dropout are addressed by the label's number among all.
TEST(HeadGrid, PartsOfTheLabelsEqualTheWhole) {
    for (const GridCase& mode : kCases)
        for (const float dropout : {0.0f, 0.3f}) {
            Rng rng(65), same = rng;
            const HeadShape shape{3, 64, 600};
            ExactStep whole(shape, mode, 0x1p-2f, 5, rng), parts(shape, mode, 0x1p-2f, 5, same);
            SCOPED_TRACE(describe(whole) + ", dropout " + std::to_string(dropout));
            whole.op.weight_dropout = {dropout, {77, 5, 6}};
            Reserved tested(make_tested_backend("auto"), whole.workload(1));
            tested->head_step(whole.op);
            for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 600}}) {
                std::vector<Positive> mine;
                for (const Positive& p : parts.positives)
                    if (p.label >= first && p.label < last) mine.push_back({p.label - first, p.sample});
                HeadStep op = whole.op;
                op.w_LD = parts.w->view().slice(first, last);
                if (mode.grid.row_scaled) op.row_exponents_L1 = parts.exponents->view().slice(first, last);
                op.positives = mine;
                op.first_label = first;
                op.dx_BD = {};
                tested->head_step(op);
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
                float largest = 0;
                for (std::int64_t c = 0; c < width; ++c) {
                    std::uint32_t saturated = 0;
                    const auto x = static_cast<float>(w(r, c));
                    ASSERT_EQ(round_to_grid(row, x, true, 0, saturated), x);
                    largest = std::max(largest, std::abs(x));
                }
                // The exponent is the smallest that holds the row, one unit of rounding aside.
                if (mode.grid.row_scaled && mode.grid.mantissa_bits >= 7) {
                    EXPECT_GT(largest * 1.02f, grid_row(mode.grid, exponent - 1).max);
                }
            }
        }
}

}  // namespace
}  // namespace elmo::testing_ops
