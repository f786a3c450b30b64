// The baseline's step on the reference and the tested device: each stored number against FP64 with the bounds
// of its roundings, the update bit for bit, and what a gradient beyond FP16 leaves out.
#include "base/parallel.h"
#include "op_harness.h"

namespace elmo::testing_ops::renee_test {
namespace {

constexpr double kHalf = 0x1p-11, kTiny = 0x1p-25;  // of FP16: unit roundoff, half the least spacing
constexpr double kFloat = 0x1p-24;

// Everything one step reads and writes, on the heap.
struct Problem {
    static constexpr Fp16 kNan{0xffff};
    std::int64_t batch, width, labels;
    std::vector<float> x, w, momentum, dw32, dx;
    std::vector<Fp16> w16, g16, dw16;
    PositiveList positives;
    float lr = 0.05f, decay = 0.01f, beta = 0.9f, scale = 256;

    // How many times a positive of a label counts in a problem with weights.
    static float weight(std::int64_t label) { return 0.5f + 3 * static_cast<float>(label % 3); }

    Problem(std::int64_t b, std::int64_t d, std::int64_t l, bool weighted = false)
        : batch(b), width(d), labels(l) {
        std::mt19937 random(7);
        std::normal_distribution<float> normal;
        const auto fill = [&](std::vector<float>& values, std::int64_t count, float sigma) {
            values.resize(static_cast<std::size_t>(count));
            for (float& value : values) value = sigma * normal(random);
        };
        fill(x, b * d, 0.5f);
        fill(w, l * d, 0.2f);
        fill(momentum, l * d, 0.1f);
        dw32.assign(w.size(), 0);
        dx.assign(x.size(), -7);
        w16.assign(w.size(), kNan);
        dw16.assign(w.size(), kNan);
        g16.assign(static_cast<std::size_t>(l * renee_columns(b)), kNan);
        for (std::int64_t i = 0; i < l; ++i)
            for (std::int32_t j = 0; j < b; ++j)
                if ((i * 5 + j) % 7 == 0) positives.push_back(i, j);
        std::vector<float> weights;
        for (std::int64_t i = 0; weighted && i < l; ++i) weights.push_back(weight(i));
        positives.weigh(weights);
    }

    ReneeStep op() {
        return {{x.data(), DType::kF32, batch, width},
                {w.data(), DType::kF32, labels, width},
                {momentum.data(), DType::kF32, labels, width},
                {w16.data(), DType::kF16, labels, width},
                {g16.data(), DType::kF16, labels, renee_columns(batch)},
                {dw16.data(), DType::kF16, labels, width},
                {dw32.data(), DType::kF32, labels, width},
                positives,
                lr,
                decay,
                beta,
                scale,
                {dx.data(), DType::kF32, batch, width},
                true};
    }
};

class Renee : public ::testing::TestWithParam<const char*> {
  protected:
    ReneeStepResult run(Problem& problem, int threads = 0) {
        Workload workload;
        workload.batch = problem.batch;
        workload.width = problem.width;
        workload.labels = problem.labels;
        workload.positives = problem.positives.size();
        workload.weighted = Positives(problem.positives).weighted();
        workload.head_dtype = DType::kF32;
        workload.renee = true;
        Reserved backend(GetParam() == std::string("reference") ? make_reference_backend()
                                                                : make_tested_backend("auto", threads),
                         workload);
        return backend->renee_step(problem.op());
    }
};

double logistic(double z) {
    return 1 / (1 + std::exp(-z));
}

// Widths of whole eights and others: cuBLASLt multiplies these and has no kernel for some of those.
TEST_P(Renee, StepAgainstAPlainEmulation) {
    std::vector<std::tuple<int, int, int>> shapes = {{3, 5, 7}, {17, 33, 300}};
    for (const int batch : {1, 7, 130})
        for (const int width : {1, 64, 96})
            for (const int labels : {1, 3, 257}) shapes.emplace_back(batch, width, labels);
    // Every width, with all batches and numbers of labels among them.
    if (under_sanitizer()) shapes = {{3, 5, 7}, {17, 33, 300}, {1, 64, 257}, {130, 96, 3}, {7, 1, 1}};
    for (std::size_t turn = 0; turn < 2 * shapes.size(); ++turn) {
        const auto& [b, d, l] = shapes[turn / 2];
        const bool weighted = turn % 2 == 1;
        SCOPED_TRACE(testing::Message() << "batch " << b << ", width " << d << ", labels " << l
                                        << (weighted ? ", weights" : ""));
        const std::int64_t columns = renee_columns(b);
        Problem p(b, d, l, weighted);
        const Problem before = p;
        const ReneeStepResult result = run(p);
        ASSERT_FALSE(result.skipped);
        std::vector<double> dx(p.x.size()), dx_size(p.x.size());
        double loss = 0, loss_error = 0;
        for (std::int64_t i = 0; i < l; ++i) {
            for (std::int64_t c = 0; c < d; ++c) ASSERT_EQ(p.w16[i * d + c], to_fp16(before.w[i * d + c]));
            const auto w16 = [&, d = d](std::int64_t c) { return double{to_float(p.w16[i * d + c])}; };
            const auto x16 = [&, d = d](std::int64_t s, std::int64_t c) {
                return double{to_float(to_fp16(before.x[s * d + c]))};
            };
            for (std::int64_t s = 0; s < b; ++s) {
                double z = 0, size = 0;
                for (std::int64_t c = 0; c < d; ++c) {
                    z += x16(s, c) * w16(c);
                    size += std::abs(x16(s, c) * w16(c));
                }
                const double error = (d + 1) * kFloat * size + kHalf * std::abs(z) + kTiny;
                const bool positive = (i * 5 + s) % 7 == 0;
                const double weight = weighted && positive ? Problem::weight(i) : 1;
                // The sigmoid rises, so the true g lies between those of the ends.
                const auto g_of = [&](double at) { return weight * (logistic(at) - (positive ? 1 : 0)); };
                const double low = g_of(z - error), high = g_of(z + error);
                const double g = to_float(p.g16[i * columns + s]);
                // Rounded twice: the sigmoid, which is at most 1 and at most g of a negative, then g. A
                // weight multiplies the first error and is itself one rounding more in FP32.
                const double slack = (2 * kHalf + 9 * kFloat) * (positive ? weight : std::abs(g)) +
                                     8 * kFloat * weight + 2 * kTiny;
                EXPECT_GE(g, low - slack);
                EXPECT_LE(g, high + slack);
                loss += weight * (std::max(z, 0.0) - (positive ? z : 0) + std::log1p(std::exp(-std::abs(z))));
                loss_error += (1 + weight) * (error + 16 * kFloat * (std::abs(z) + 1));
                for (std::int64_t c = 0; c < d; ++c) {
                    dx[s * d + c] += g * w16(c);
                    dx_size[s * d + c] += std::abs(g * w16(c));
                }
            }
            for (std::int64_t s = b; s < columns; ++s) ASSERT_EQ(p.g16[i * columns + s], Fp16{});
            for (std::int64_t c = 0; c < d; ++c) {
                double sum = 0, size = 0;
                for (std::int64_t s = 0; s < b; ++s) {
                    sum += to_float(p.g16[i * columns + s]) * x16(s, c);
                    size += std::abs(to_float(p.g16[i * columns + s]) * x16(s, c));
                }
                const std::size_t at = i * d + c;
                const float dw = to_float(p.dw16[at]);
                EXPECT_NEAR(dw, sum, (b + 1) * kFloat * size + kHalf * std::abs(sum) + kTiny);
                // From here on bit for bit.
                const float momentum = p.beta * before.momentum[at] + (dw + p.decay * before.w[at]);
                EXPECT_EQ(p.dw32[at], dw);
                EXPECT_EQ(p.momentum[at], momentum);
                EXPECT_EQ(p.w[at], before.w[at] - p.lr * momentum);
            }
        }
        for (std::size_t i = 0; i < dx.size(); ++i)
            EXPECT_NEAR(
                p.dx[i], dx[i],
                (l + 1) * kFloat * dx_size[i] + (kHalf + 2 * kFloat) * std::abs(dx[i]) + kTiny / p.scale);
        EXPECT_NEAR(result.loss_sum, loss, loss_error);
    }
}

// The scale decides only whether the encoder gets a gradient: the head's step is the same at any scale.
TEST_P(Renee, TheHeadStepsAtAnyScale) {
    for (const int width : {5, 64}) {
        Problem p(9, width, 40), beyond(9, width, 40);
        beyond.scale = 0x1p30f;
        const std::vector<float> before = p.w;
        EXPECT_FALSE(run(p).skipped);
        EXPECT_TRUE(run(beyond).skipped);
        EXPECT_NE(beyond.w, before);
        EXPECT_EQ(beyond.w, p.w);
        EXPECT_EQ(beyond.momentum, p.momentum);
        EXPECT_EQ(beyond.dx, std::vector<float>(beyond.dx.size(), -7));  // as it was
    }
}

// One number of dx beyond FP16, the last of all. Two labels weigh 200 in the last column. All texts but the
// last have one of the two, so that their g cancel; the last has none: 200 times the scale.
TEST_P(Renee, OneNumberBeyondFp16SkipsTheEncodersStep) {
    std::size_t turn = 0;
    for (const int width : {3, 64})
        for (const bool beyond : in_turn({true, false}, turn)) {
            Problem p(16, width, 33);
            p.w.assign(p.w.size(), 0);
            p.x.assign(p.x.size(), 0);
            for (const std::int64_t i : {p.labels - 2, p.labels - 1}) p.w[(i + 1) * width - 1] = 200;
            p.positives.clear();
            for (std::int32_t s = 0; s + 1 < p.batch; ++s) p.positives.push_back(p.labels - 1, s);
            p.scale = beyond ? 512 : 256;
            EXPECT_EQ(run(p).skipped, beyond) << width;
            for (std::size_t i = 0; i < p.dx.size(); ++i)
                ASSERT_EQ(p.dx[i], beyond ? -7 : i + 1 == p.dx.size() ? 200 : 0) << width << " " << i;
        }
}

// More labels than one product of a GPU takes: all z are zero, so g = 1 / 2; the weights of the labels
// behind the first 2^20 are larger, so that dx shows them.
TEST_P(Renee, EveryPieceOfManyLabelsCounts) {
    const std::int64_t whole = std::int64_t{1} << 20, labels = whole + 133;
    Problem p(2, 8, labels);
    p.positives.clear();
    p.lr = 1;
    p.decay = 0;
    p.beta = 0;
    p.scale = 0x1p-6f;
    for (std::size_t i = 0; i < p.x.size(); ++i) p.x[i] = i % 8 == 0 ? 1.0f : 0.0f;
    for (std::int64_t i = 0; i < labels; ++i)
        for (std::int64_t c = 0; c < 8; ++c)
            p.w[static_cast<std::size_t>(i * 8 + c)] = c != 1 ? 0.0f : i < whole ? 0x1p-6f : 1.0f;
    const std::vector<float> before = p.w;
    ASSERT_FALSE(run(p).skipped);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < p.dw16.size(); ++i) {
        const float dw = i % 8 == 0 ? 1.0f : 0.0f;  // x = 1 in both texts
        wrong += to_float(p.dw16[i]) != dw || p.w[i] != before[i] - dw;
    }
    EXPECT_EQ(wrong, 0);
    const float sum = to_float(to_fp16(static_cast<float>(whole) * 0x1p-13f + 133 * 0x1p-7f));
    for (std::size_t i = 0; i < p.dx.size(); ++i) EXPECT_EQ(p.dx[i], i % 8 == 1 ? sum * 64 : 0);
}

// The paper's reason for the baseline's trouble: dx sums over all labels, so it overflows where there are
// many, while the gradient of a weight does not grow with their number.
TEST_P(Renee, ManyLabelsOverflowWhereFewDoNot) {
    const std::tuple<int, int, bool> cases[] = {
        {3, 1000, false}, {3, 6300, false}, {3, 6500, true}, {16, 6300, false}, {16, 6500, true}};
    for (const auto& [width, labels, skipped] : thinned(cases, 4)) {
        Problem p(2, width, labels);
        p.positives.clear();
        p.x.assign(p.x.size(), 0);
        p.w.assign(p.w.size(), 0x1.48p-6f);  // 0.02
        p.scale = 1024;                      // dx: 10.25 per label, FP16 ends at 65504
        EXPECT_EQ(run(p).skipped, skipped) << labels;
        for (const Fp16 dw : p.dw16) ASSERT_EQ(to_float(dw), 0);
    }
}

TEST_P(Renee, ThreadsDoNotChangeABit) {
    Problem one(17, 33, 300), two(17, 33, 300);
    run(one, 1);
    run(two, 3);
    EXPECT_EQ(one.w, two.w);
    EXPECT_EQ(one.dx, two.dx);
}

INSTANTIATE_TEST_SUITE_P(Backends, Renee, ::testing::Values("reference", kTestedDevice),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace elmo::testing_ops::renee_test
