// Weights of 6 and 4 bits, packed: the step, the ranking and the start are those of the same numbers kept in
// BF16 on the same backend, every bit, in any chunks; and the reference's packed weights are theirs too.
#include <cstring>

#include "head_harness.h"
#include "numerics/packed_codes.h"

namespace elmo::testing_ops::head_packed_test {
namespace {

constexpr WeightGrid kGrids[] = {kE2M3Grid, kE2M1Grid};

// The same weights twice: numbers of the grid in BF16, and packed codes.
struct Twice {
    WeightGrid grid;
    Tensor wide, packed, wide_exponents, packed_exponents;

    Twice(const WeightGrid& of, std::int64_t labels, std::int64_t width)
        : grid(of),
          wide("wide", DType::kBf16, labels, width),
          packed("packed", DType::kU8, labels, of.packed_bytes(width)),
          wide_exponents("exponents", DType::kU8, labels, 1),
          packed_exponents("packed exponents", DType::kU8, labels, 1) {}

    FillNormal fill(bool codes) {
        const View w = codes ? packed.view() : wide.view();
        return {
            w, 0.05f, {3, 0, 2}, {3, 0, 3}, 7, grid, codes ? packed_exponents.view() : wide_exponents.view()};
    }
    HeadStep step(const Tensor& x, const Positives& positives, Tensor& dx, std::uint64_t number, bool codes) {
        HeadStep op = head_op(x, wide, positives, dx);
        op.w_LD = codes ? packed.view() : wide.view();
        op.lr = number > 128 ? 1.0f : 0.02f;  // beyond the rows whose exponents fell at 128
        op.rounding.step = number;
        op.rescaling = {op.rounding.seed, number, 9};
        op.noise = NoiseKind::kSteps;
        op.grid = grid;
        op.row_exponents_L1 = codes ? packed_exponents.view() : wide_exponents.view();
        return op;
    }
    void expect_same_weights() const {
        ASSERT_EQ(packed_exponents.bytes(), wide_exponents.bytes());
        for (std::int64_t l = 0; l < wide.rows(); ++l) {
            const GridRow row = grid_row(grid, decode_row_exponent(packed_exponents.view().codes()[l]));
            for (std::int64_t d = 0; d < wide.cols(); ++d) {
                const float value =
                    decode_grid_code(row, code_at(packed.view().codes() + l * packed.cols(), grid.bits(), d));
                ASSERT_EQ(to_bf16(value).bits, wide.view().as<Bf16>()[l * wide.cols() + d].bits)
                    << "label " << l << ", column " << d;
            }
        }
    }
};

Workload workload_of(const HeadShape& shape, DType storage, std::int64_t chunks) {
    Workload work = head_workload(shape, storage, chunks);
    work.head_row_exponents = true;
    work.head_packed = storage == DType::kU8;
    work.top_k = 7;
    return work;
}

std::string describe(const WeightGrid& grid, const HeadShape& s, const std::string& kind) {
    return grid_name(grid) + ", " + std::to_string(s.batch) + " x " + std::to_string(s.width) + " x " +
           std::to_string(s.labels) + ", products " + kind;
}

// Widths of one group, of tiles of a GPU and of neither; steps that lower exponents (128) and raise them
// (129).
TEST(HeadPacked, StepsAndRankingAreThoseOfTheNumbersInBf16) {
    Rng rng(71);
    int raised = 0, lowered = 0;
    std::vector<HeadShape> shapes = {{3, 8, 5}, {7, 40, 300}, {5, 64, 700}, {130, 192, 129}};
    if (under_sanitizer()) shapes = {{3, 8, 300}, {7, 40, 129}, {130, 64, 129}};
    std::size_t turn = 0;
    for (const std::string& kind : head_products())
        for (const WeightGrid& grid : kGrids)
            for (const HeadShape& shape : shapes)
                for (const DType inputs : in_turn({DType::kBf16, DType::kF32}, turn)) {
                    SCOPED_TRACE(describe(grid, shape, kind));
                    const auto x = make_input("x", inputs, shape.batch, shape.width, rng);
                    const auto positives = random_positives(shape, 0.05, rng);
                    Twice w(grid, shape.labels, shape.width);
                    Tensor dx("dx", DType::kF32, shape.batch, shape.width);
                    Tensor dx_packed("packed dx", DType::kF32, shape.batch, shape.width);
                    const Compensation c(shape.labels, shape.width, every_third),
                        c_packed(shape.labels, shape.width, every_third);
                    Reserved wide(make_tested_backend(kind), workload_of(shape, DType::kBf16, 1));
                    Reserved packed(make_tested_backend(kind), workload_of(shape, DType::kU8, 3));
                    wide->fill_normal(w.fill(false));
                    packed->fill_normal(w.fill(true));
                    w.expect_same_weights();
                    for (const auto& [number, dropout] :
                         {std::pair{127, 0.3f}, std::pair{128, 0.0f}, std::pair{129, 0.0f}}) {
                        const auto before = w.wide_exponents.bytes();
                        HeadStep plain = w.step(*x, positives, dx, static_cast<std::uint64_t>(number), false);
                        HeadStep coded =
                            w.step(*x, positives, dx_packed, static_cast<std::uint64_t>(number), true);
                        plain.weight_dropout = coded.weight_dropout = {dropout, {77, 5, 6}};
                        coded.num_chunks = 3;
                        c.give_to(plain), c_packed.give_to(coded);
                        const HeadStepResult a = wide->head_step(plain), b = packed->head_step(coded);
                        EXPECT_EQ(a.loss_sum, b.loss_sum);
                        EXPECT_EQ(a.saturations, b.saturations);
                        expect_same_bits(dx_packed, dx);
                        expect_same_bits(c_packed.values, c.values);
                        w.expect_same_weights();
                        if (testing::Test::HasFatalFailure()) return;
                        for (std::size_t l = 0; l < before.size(); ++l) {
                            raised += w.wide_exponents.bytes()[l] > before[l];
                            lowered += w.wide_exponents.bytes()[l] < before[l];
                        }
                    }
                    // Logits that are exact: a GPU has other kernels for codes than for BF16.
                    const auto coarse = make_coarse_input("x", inputs, shape.batch, shape.width, rng);
                    const auto a = wide->head_topk({coarse->view(), w.wide.view(), 7});
                    const auto b = packed->head_topk(
                        {coarse->view(), w.packed.view(), 7, grid, w.packed_exponents.view()});
                    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].sorted(), b[i].sorted());
                }
    EXPECT_GT(raised, 0);
    EXPECT_GT(lowered, 0);
}

// Where arithmetic is exact (pairs of columns cancel in the logits, so g is one half; the rate and the decay
// are powers of two) every bit is defined, also where a GPU has other kernels for codes than for BF16.
TEST(HeadPacked, ExactStepsAreThoseOfTheNumbersInBf16) {
    Rng rng(73);
    std::uniform_int_distribution<int> pick(-7, 7);
    std::vector<HeadShape> shapes = {{3, 8, 300}, {7, 40, 300}, {130, 136, 129}};
    if (!few_shapes()) shapes.insert(shapes.end(), {{130, 768, 300}, {7, 1032, 300}, {600, 192, 700}});
    struct Case {
        float lr, decay;
        std::uint64_t step;
        NoiseKind noise;
        bool compensated;
    };
    const std::initializer_list<Case> cases = {{0x1p-4f, 0, 9, NoiseKind::kSharedSteps, false},
                                               {0x1p-2f, 0x1p-4f, 11, NoiseKind::kSharedSteps, true},
                                               {0x1p-2f, 0x1p-4f, 6, NoiseKind::kIndependent, false},
                                               {0x1p-12f, 0, 128, NoiseKind::kSteps, false}};
    int raised = 0, lowered = 0;
    for (const WeightGrid& grid : kGrids)
        for (const HeadShape& shape : shapes)
            for (const auto& [lr, decay, number, noise, compensated] : cases) {
                SCOPED_TRACE(describe(grid, shape, "auto") + ", step " + std::to_string(number));
                Tensor x("x", DType::kBf16, shape.batch, shape.width);
                x.fill([&](auto, auto) { return pick(rng) / 4.0; });
                for (std::int64_t b = 0; b < shape.batch; ++b)
                    for (std::int64_t d = 1; d < shape.width; d += 2) x.set(b, d, x(b, d - 1));
                x.freeze();
                Twice w(grid, shape.labels, shape.width);
                for (std::int64_t l = 0; l < shape.labels; ++l) {
                    const int exponent = static_cast<int>(l % 5) - 4;
                    w.wide_exponents.view().codes()[l] = w.packed_exponents.view().codes()[l] =
                        encode_row_exponent(exponent);
                    const GridRow row = grid_row(grid, exponent);
                    std::uint32_t ignored = 0;
                    for (std::int64_t d = 0; d < shape.width; ++d) {
                        const float size = static_cast<float>(pick(rng)) * std::min(row.max, 1.0f) / 16;
                        const float value = d % 2 == 0 ? round_to_grid(row, size, true, 0, ignored)
                                                       : -static_cast<float>(w.wide(l, d - 1));
                        w.wide.set(l, d, value);
                        put_code(w.packed.view().codes() + l * w.packed.cols(), grid.bits(), d,
                                 encode_grid_code(row, value));
                    }
                }
                w.expect_same_weights();
                const auto positives = random_positives(shape, 0.3, rng);
                Tensor dx("dx", DType::kF32, shape.batch, shape.width),
                    dx_packed("packed dx", DType::kF32, shape.batch, shape.width);
                const Compensation c(shape.labels, shape.width, every_third),
                    c_packed(shape.labels, shape.width, every_third);
                HeadStep plain = w.step(x, positives, dx, number, false),
                         coded = w.step(x, positives, dx_packed, number, true);
                for (HeadStep* op : {&plain, &coded}) {
                    op->lr = lr;
                    op->weight_decay = decay / lr;
                    op->noise = noise;
                }
                if (compensated) c.give_to(plain), c_packed.give_to(coded);
                const auto before = w.wide_exponents.bytes();
                Reserved wide(make_tested_backend("auto"), workload_of(shape, DType::kBf16, 1));
                Reserved packed(make_tested_backend("auto"), workload_of(shape, DType::kU8, 2));
                const HeadStepResult a = wide->head_step(plain), b = packed->head_step(coded);
                EXPECT_EQ(a.saturations, b.saturations);
                expect_same_bits(dx_packed, dx);
                expect_same_bits(c_packed.values, c.values);
                w.expect_same_weights();
                if (testing::Test::HasFatalFailure()) return;
                for (std::size_t l = 0; l < before.size(); ++l) {
                    raised += w.wide_exponents.bytes()[l] > before[l];
                    lowered += w.wide_exponents.bytes()[l] < before[l];
                }
            }
    EXPECT_GT(raised, 0);
    EXPECT_GT(lowered, 0);
}

TEST(HeadPacked, TheReferenceHasTheSameBytes) {
    for (const WeightGrid& grid : kGrids) {
        const HeadShape shape{3, 24, 140};
        SCOPED_TRACE(describe(grid, shape, "auto"));
        Twice mine(grid, shape.labels, shape.width), truth(grid, shape.labels, shape.width);
        Reserved tested(make_tested_backend("auto"), workload_of(shape, DType::kU8, 2));
        const auto reference = make_reference_backend();
        tested->fill_normal(mine.fill(true));
        reference->fill_normal(truth.fill(true));
        EXPECT_EQ(mine.packed.bytes(), truth.packed.bytes());
        EXPECT_EQ(mine.packed_exponents.bytes(), truth.packed_exponents.bytes());
        // One factor per text: the logits are exact. No gradients: only decay moves the weights.
        Tensor x("x", DType::kBf16, shape.batch, shape.width), none("none", DType::kBf16, 1, shape.width);
        Tensor dx("dx", DType::kF32, 1, shape.width), dx_truth("dx", DType::kF32, 1, shape.width);
        x.fill([&](auto b, auto d) { return d == 9 * b ? 1 : 0; });
        none.fill([](auto, auto) { return 0; });
        for (std::uint64_t number = 126; number <= 128; ++number) {
            HeadStep a = mine.step(none, {}, dx, number, true);
            HeadStep b = truth.step(none, {}, dx_truth, number, true);
            a.lr = b.lr = 0.125f;
            a.weight_decay = b.weight_decay = 0.5f;
            tested->head_step(a);
            reference->head_step(b);
            ASSERT_EQ(mine.packed.bytes(), truth.packed.bytes());
            ASSERT_EQ(mine.packed_exponents.bytes(), truth.packed_exponents.bytes());
        }
        const auto a =
            tested->head_topk({x.view(), mine.packed.view(), 7, grid, mine.packed_exponents.view()});
        const auto b =
            reference->head_topk({x.view(), truth.packed.view(), 7, grid, truth.packed_exponents.view()});
        for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].sorted(), b[i].sorted());
    }
}

// A part of the labels, whose rows begin anywhere, is a part of the whole.
TEST(HeadPacked, PartsOfTheLabelsEqualTheWhole) {
    for (const WeightGrid& grid : kGrids) {
        Rng rng(72);
        const HeadShape shape{3, 40, 600};
        SCOPED_TRACE(describe(grid, shape, "auto"));
        Twice whole(grid, shape.labels, shape.width), parts(grid, shape.labels, shape.width);
        Reserved tested(make_tested_backend("auto"), workload_of(shape, DType::kU8, 1));
        const auto x = make_input("x", DType::kBf16, shape.batch, shape.width, rng);
        const auto positives = random_positives(shape, 0.1, rng);
        Tensor dx("dx", DType::kF32, shape.batch, shape.width);
        tested->fill_normal(whole.fill(true));
        tested->fill_normal(parts.fill(true));
        HeadStep op = whole.step(*x, positives, dx, 5, true);
        tested->head_step(op);
        for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 600}}) {
            const PositiveList mine = part_of(positives, first, last);
            op.w_LD = parts.packed.view().slice(first, last);
            op.row_exponents_L1 = parts.packed_exponents.view().slice(first, last);
            op.positives = mine;
            op.first_label = first;
            op.dx_BD = {};
            tested->head_step(op);
        }
        EXPECT_EQ(whole.packed.bytes(), parts.packed.bytes());
        EXPECT_EQ(whole.packed_exponents.bytes(), parts.packed_exponents.bytes());
    }
}

}  // namespace
}  // namespace elmo::testing_ops::head_packed_test
