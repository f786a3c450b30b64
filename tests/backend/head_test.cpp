// The fused head step and top-k of the CPU backend against the reference and against itself: chunks, threads,
// storage modes, padding of tiles.
#include "base/parallel.h"
#include "op_harness.h"

namespace elmo::testing_ops {
namespace {

constexpr double u = kF32Roundoff;

struct Shape {
    std::int64_t batch, width, labels;
};
// Labels around the tile of 256, more tiles than the slices that dx is summed in, primes, ones.
const Shape kShapes[] = {{1, 1, 1},    {1, 7, 3},     {3, 2, 255},   {5, 17, 256},  {2, 33, 257},
                         {17, 64, 31}, {31, 65, 100}, {16, 64, 513}, {3, 129, 521}, {2, 3, 4357}};
constexpr DType kStorages[] = {DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4};

Workload workload_of(const Shape& s, DType storage, std::int64_t chunks) {
    Workload workload;
    workload.batch = s.batch;
    workload.width = s.width;
    workload.labels = s.labels;
    workload.head_dtype = storage;
    workload.chunks = chunks;
    return workload;
}

std::vector<std::string> products() {
    std::vector<std::string> names;
    for (const Mode& mode : cpu_modes())
        if (mode.storage == DType::kBf16) names.push_back(mode.products);
    return names;
}

// FP32 weights have one kind of products, whatever is chosen.
bool repeats(const std::string& kind, DType storage) {
    return kind == "bf16" && storage == DType::kF32;
}

std::vector<Positive> random_positives(const Shape& s, double share, Rng& rng) {
    std::vector<Positive> positives;
    std::bernoulli_distribution coin(share);
    for (std::int64_t l = 0; l < s.labels; ++l)
        for (std::int32_t b = 0; b < s.batch; ++b)
            if (coin(rng)) positives.push_back({l, b});
    return positives;
}

HeadStep op_of(const Tensor& x, Tensor& w, std::span<const Positive> positives, Tensor& dx) {
    HeadStep op;
    op.x_BD = x.view();
    op.w_LD = w.view();
    op.positives = positives;
    op.lr = 0.05f;
    op.weight_decay = 0.3f;
    op.rounding = {77, 5, 1};
    op.dx_BD = dx.view();
    op.want_loss = true;
    return op;
}

// The step once more, in FP64 with the bounds of every FP32 error: what a right result may be.
class Bounds {
  public:
    Bounds(const Tensor& x, const Tensor& w, const HeadStep& op)
        : x_(x.view()), x_logit_(x.view()), w_(w.view()), op_(op) {
        if (w.dtype() == DType::kE4M3)
            for (double& v : x_logit_.values) v = kE4M3.decode(round_nearest(kE4M3, static_cast<float>(v)));
        auto next = op.positives.begin();
        dx_.assign(size(x.rows() * x.cols()), 0.0);
        dx_size_ = dx_error_ = dx_;
        for (std::int64_t l = 0; l < w.rows(); ++l)
            for (std::int64_t b = 0; b < x.rows(); ++b) {
                const bool positive = next != op.positives.end() && next->label == l && next->sample == b;
                if (positive) ++next;
                add_logit(l, b, positive);
            }
    }
    // g of one sample and label as BF16: lowest and highest it may be.
    struct Gradient {
        double low, high;
    };
    const Gradient& g(std::int64_t l, std::int64_t b) const { return g_[size(l * x_.rows + b)]; }
    double loss() const { return loss_; }
    double loss_error() const { return loss_error_; }
    double dx(std::int64_t b, std::int64_t d) const { return dx_[size(b * x_.cols + d)]; }
    double dx_error(std::int64_t b, std::int64_t d) const {
        const auto i = size(b * x_.cols + d);
        return dx_error_[i] + sum_error(w_.rows + 20) * dx_size_[i];
    }
    // The weight before it is rounded to its storage.
    std::pair<double, double> weight(std::int64_t l, std::int64_t d) const {
        const double lr = op_.lr, w = w_(l, d), keep = 1 - lr * double{op_.weight_decay};
        double sum = 0, spread = 0, magnitude = 0;
        for (std::int64_t b = 0; b < x_.rows; ++b) {
            const Gradient& range = g(l, b);
            sum += (range.low + range.high) / 2 * x_(b, d);
            spread += (range.high - range.low) / 2 * std::abs(x_(b, d));
            magnitude += std::max(std::abs(range.low), std::abs(range.high)) * std::abs(x_(b, d));
        }
        const double value = w * keep - lr * sum;
        // keep is rounded twice (lr * decay, 1 - it), both products once, the difference once.
        const double error = lr * (spread + sum_error(x_.rows + 2) * magnitude) + 4 * u * std::abs(w) +
                             u * std::abs(value) + 0x1p-140;
        return {value - error, value + error};
    }

  private:
    static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
    void add_logit(std::int64_t l, std::int64_t b, bool positive) {
        double z = 0, magnitude = 0;
        for (std::int64_t d = 0; d < x_.cols; ++d) {
            z += x_logit_(b, d) * w_(l, d);
            magnitude += std::abs(x_logit_(b, d) * w_(l, d));
        }
        const double z_error = sum_error(x_.cols) * magnitude;
        const double p = 1 / (1 + std::exp(-z)), exact = positive ? -1 / (1 + std::exp(z)) : p;
        // The slope of the sigmoid is p (1 - p); then e^-z, the sum and the division, and y subtracted.
        const double slope = std::min(0.25, p * (1 - p) * std::exp(z_error));
        const double error = slope * (z_error + kExpError) + 2 * u * p + u * std::abs(exact) + 0x1p-126;
        const auto bf16 = [](double v) { return double{to_float(to_bf16(static_cast<float>(v)))}; };
        const Gradient range{bf16(exact - error), bf16(exact + error)};
        g_.push_back(range);
        const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
        loss_ += softplus - (positive ? z : 0);
        // Lanes of at most 64 FP32 additions, then FP64.
        loss_error_ += z_error * (positive ? 2 : 1) +
                       std::log1p(std::exp(-std::abs(z))) * (kLog1pError + kExpError) +
                       sum_error(64 + 2) * softplus + 0x1p-126;
        for (std::int64_t d = 0; d < x_.cols; ++d) {
            const auto i = size(b * x_.cols + d);
            dx_[i] += (range.low + range.high) / 2 * w_(l, d);
            dx_error_[i] += (range.high - range.low) / 2 * std::abs(w_(l, d));
            dx_size_[i] += std::max(std::abs(range.low), std::abs(range.high)) * std::abs(w_(l, d));
        }
    }

    reference::Matrix x_, x_logit_, w_;
    const HeadStep& op_;
    std::vector<Gradient> g_;
    std::vector<double> dx_, dx_size_, dx_error_;
    double loss_ = 0, loss_error_ = 0;
};

double rounded(DType storage, double value, std::uint16_t noise) {
    const auto x = static_cast<float>(value);
    switch (storage) {
        case DType::kBf16:
            return to_float(round_stochastic_bf16(x, noise));
        case DType::kE4M3:
            return kE4M3.decode(round_stochastic(kE4M3, x, noise));
        case DType::kE3M4:
            return kE3M4.decode(round_stochastic(kE3M4, x, noise));
        default:
            return x;
    }
}

void check_step(DType input, Rng& rng) {
    for (const std::string& kind : products())
        for (const DType storage : kStorages)
            for (const Shape& s : kShapes)
                for (const double share : {0.0, 0.2}) {
                    if (repeats(kind, storage)) continue;
                    SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind + " products, " +
                                 std::to_string(s.batch) + " x " + std::to_string(s.width) + " x " +
                                 std::to_string(s.labels));
                    const auto x = make_input("x", input, s.batch, s.width, rng);
                    const auto before = make_input("w before", storage, s.labels, s.width, rng, 0.3);
                    const auto positives = random_positives(s, share, rng);
                    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
                    w.copy(*before);
                    Reserved cpu(make_cpu_backend(kind), workload_of(s, storage, 1));
                    const HeadStep op = op_of(*x, w, positives, dx);
                    const HeadStepResult result = cpu->head_step(op);
                    const Bounds bounds(*x, *before, op);
                    EXPECT_LE(std::abs(result.loss_sum - bounds.loss()), bounds.loss_error());
                    std::int64_t certain = 0;
                    for (std::int64_t l = 0; l < s.labels; ++l)
                        for (std::int64_t d = 0; d < s.width; ++d) {
                            const auto [low, high] = bounds.weight(l, d);
                            const std::uint16_t noise = noise16(op.rounding, l, d);
                            const double a = rounded(storage, low, noise), b = rounded(storage, high, noise);
                            ASSERT_TRUE(a <= w(l, d) && w(l, d) <= b)
                                << "w(" << l << ", " << d << ") = " << w(l, d) << ", expected " << a << " to "
                                << b;
                            certain += a == b;
                        }
                    // The bounds are tight enough to tell: most rounded weights have one right value.
                    if (storage != DType::kF32 && s.labels * s.width > 200) {
                        EXPECT_GT(certain, s.labels * s.width * 3 / 4);
                    }
                    Tensor exact("exact dx", DType::kF64, s.batch, s.width);
                    exact.fill([&](auto b, auto d) { return bounds.dx(b, d); });
                    expect_close(dx, exact, [&](auto b, auto d) { return bounds.dx_error(b, d); });
                    if (testing::Test::HasFatalFailure()) return;
                }
}

TEST(CpuHead, StepWithinBounds) {
    Rng rng(41);
    check_step(DType::kBf16, rng);
}

// An FP32 encoder hands over FP32 vectors, whatever the storage of the head.
TEST(CpuHead, StepWithinBoundsFromFp32Input) {
    Rng rng(42);
    check_step(DType::kF32, rng);
}

// The reference is within the same bounds: both backends stand for one definition.
TEST(CpuHead, ReferenceWithinTheSameBounds) {
    Rng rng(43);
    const auto truth = make_reference_backend();
    for (const DType storage : kStorages) {
        const Shape s{7, 33, 70};
        const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
        const auto before = make_input("w before", storage, s.labels, s.width, rng, 0.3);
        const auto positives = random_positives(s, 0.1, rng);
        Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
        w.copy(*before);
        const HeadStep op = op_of(*x, w, positives, dx);
        const HeadStepResult result = truth->head_step(op);
        const Bounds bounds(*x, *before, op);
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

struct Outcome {
    std::vector<unsigned char> w, dx;
    double loss = 0;
    std::int64_t saturations = 0;
    bool operator==(const Outcome&) const = default;
};

Outcome run_step(const Shape& s, DType storage, const std::string& kind, std::int64_t chunks, int threads) {
    set_num_threads(threads);
    Rng rng(47);
    const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
    const auto start = make_input("w", storage, s.labels, s.width, rng, 0.3);
    const auto positives = random_positives(s, 0.02, rng);
    Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
    w.copy(*start);
    Reserved cpu(make_cpu_backend(kind), workload_of(s, storage, chunks));
    HeadStep op = op_of(*x, w, positives, dx);
    op.num_chunks = chunks;
    const HeadStepResult result = cpu->head_step(op);
    set_num_threads(0);
    return {w.bytes(), dx.bytes(), result.loss_sum, result.saturations};
}

// Weights, dx and loss, bit for bit. 5003 labels make 20 tiles: more than the slices dx is summed in.
TEST(CpuHead, ChunksAndThreadsDoNotMatter) {
    const Shape s{9, 11, 5003};
    for (const std::string& kind : products())
        for (const DType storage : kStorages) {
            if (repeats(kind, storage)) continue;
            SCOPED_TRACE(std::string(name_of(storage)) + ", " + kind + " products");
            const Outcome expected = run_step(s, storage, kind, 1, 1);
            const std::pair<std::int64_t, int> cuts[] = {{1, 2}, {1, 3}, {3, 1},  {3, 2},   {8, 1},
                                                         {8, 3}, {7, 2}, {20, 2}, {1000, 1}};
            for (const auto& [chunks, threads] : cuts)
                EXPECT_TRUE(run_step(s, storage, kind, chunks, threads) == expected)
                    << chunks << " chunks, " << threads << " threads";
        }
}

// Rows that only pad a tile take no part: the first labels of a longer head behave as if they were alone.
TEST(CpuHead, OtherLabelsDoNotChangeALabel) {
    for (const DType storage : kStorages) {
        Rng rng(53);
        const Shape small{4, 19, 3}, large{4, 19, 700};
        const auto x = make_input("x", DType::kBf16, 4, 19, rng);
        const auto start = make_input("start", storage, large.labels, 19, rng, 0.3);
        std::vector<std::vector<unsigned char>> first_rows;
        for (const Shape& s : {small, large}) {
            Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
            w.fill([&](auto r, auto c) { return (*start)(r, c); });
            Reserved cpu(make_cpu_backend("auto"), workload_of(s, storage, 1));
            const std::vector<Positive> positives = {{1, 2}};
            cpu->head_step(op_of(*x, w, positives, dx));
            auto bytes = w.bytes();
            bytes.resize(static_cast<std::size_t>(3 * 19 * size_of(storage)));
            first_rows.push_back(bytes);
        }
        EXPECT_EQ(first_rows[0], first_rows[1]) << name_of(storage);
    }
}

// A weight of the same FP32 value gives the same bits: one input column, so that nothing is summed.
TEST(CpuHead, RoundingEqualsTheScalarDefinition) {
    for (const DType storage : {DType::kBf16, DType::kE4M3, DType::kE3M4}) {
        const Shape s{1, 130, 300};
        Tensor x("x", DType::kBf16, 1, s.width), w("w", storage, s.labels, s.width);
        Tensor dx("dx", DType::kF32, 1, s.width);
        // x = 0: sigmoid(0) = 1/2 exactly, the update is the decay alone: w (1 - 1/8 * 1/2).
        x.fill([](auto, auto) { return 0; });
        w.fill(
            [](auto r, auto c) { return 0.003 * static_cast<double>(r) - 0.0021 * static_cast<double>(c); });
        Tensor before("before", storage, s.labels, s.width);
        before.copy(w);
        for (const std::string& kind : products()) {
            w.copy(before);
            Reserved cpu(make_cpu_backend(kind), workload_of(s, storage, 1));
            HeadStep op = op_of(x, w, {}, dx);
            op.lr = 0.125f;
            op.weight_decay = 0.5f;
            cpu->head_step(op);
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < s.width; ++d)
                    ASSERT_EQ(w(l, d), rounded(storage, before(l, d) * 0.9375, noise16(op.rounding, l, d)));
        }
        // x = 1 in one column and w = 0 there: g = 1/2, the update is -lr / 2 exactly.
        x.set(0, 5, 1);
        w.fill([](auto, auto) { return 0; });
        Reserved cpu(make_cpu_backend("auto"), workload_of(s, storage, 1));
        HeadStep op = op_of(x, w, {}, dx);
        op.lr = 0.0011f;
        cpu->head_step(op);
        for (std::int64_t l = 0; l < s.labels; ++l)
            for (std::int64_t d = 0; d < s.width; ++d)
                ASSERT_EQ(w(l, d),
                          d == 5 ? rounded(storage, -0.5 * double{0.0011f}, noise16(op.rounding, l, d)) : 0);
    }
}

// p > 0.998 rounds to 1 in BF16; the gradient must be taken before that rounding.
TEST(CpuHead, ConfidentPositiveStillLearns) {
    for (const std::string& kind : products()) {
        Tensor x("x", DType::kBf16, 1, 1), w("w", DType::kF32, 2, 1), dx("dx", DType::kF32, 1, 1);
        x.set(0, 0, 1);
        w.set(0, 0, 8);   // p = 0.99966, positive
        w.set(1, 0, -8);  // p = 0.00034, negative
        Reserved cpu(make_cpu_backend(kind), workload_of({1, 1, 2}, DType::kF32, 1));
        const std::vector<Positive> positives = {{0, 0}};
        HeadStep op = op_of(x, w, positives, dx);
        op.weight_decay = 0;
        op.lr = 1;
        cpu->head_step(op);
        const double g = 1 / (1 + std::exp(8.0));
        // BF16 of g within a unit: 2^-8; FP32 near p = 1 within 2^-24.
        EXPECT_NEAR(w(0, 0) - 8, g, g * 0x1p-8 + 0x1p-22);
        EXPECT_NEAR(w(1, 0) + 8, -g, g * 0x1p-8 + 0x1p-20);
        EXPECT_NEAR(dx(0, 0), -16 * g, 16 * g * 0x1p-7);
    }
}

TEST(CpuHead, WeightDecayActs) {
    for (const DType storage : kStorages) {
        Rng rng(59);
        const Shape s{2, 64, 64};
        const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
        double totals[2] = {0, 0};
        for (const int decays : {0, 1}) {
            Tensor w("w", storage, s.labels, s.width), dx("dx", DType::kF32, s.batch, s.width);
            w.fill([](auto, auto) { return 1.0; });
            Reserved cpu(make_cpu_backend("auto"), workload_of(s, storage, 1));
            HeadStep op = op_of(*x, w, {}, dx);
            op.lr = 0.1f;
            op.weight_decay = decays ? 0.4f : 0.0f;
            cpu->head_step(op);
            for (std::int64_t l = 0; l < s.labels; ++l)
                for (std::int64_t d = 0; d < s.width; ++d) totals[decays] += w(l, d) / (64 * 64);
        }
        // Two means of 4096 roundings with a spacing of at most 1/8.
        const double standard_error = std::sqrt(2.0) * 0.5 * 0.125 / 64;
        EXPECT_NEAR(totals[0] - totals[1], 0.04, 5 * standard_error) << name_of(storage);
    }
}

TEST(CpuHead, SaturationsAreCountedAndFinite) {
    const Shape s{1, 4, 300};
    for (const DType storage : {DType::kE4M3, DType::kE3M4}) {
        const double top = storage == DType::kE4M3 ? 448 : 1.9375;
        Tensor x("x", DType::kBf16, 1, 4), w("w", storage, s.labels, 4), dx("dx", DType::kF32, 1, 4);
        x.fill([](auto, auto c) { return c == 0 ? 1.0 : c == 1 ? -1.0 : 0.0; });
        w.fill([](auto, auto) { return 0; });
        Reserved cpu(make_cpu_backend("auto"), workload_of(s, storage, 1));
        HeadStep op = op_of(x, w, {}, dx);
        op.lr = 2000;
        EXPECT_EQ(cpu->head_step(op).saturations, 2 * s.labels);
        for (std::int64_t l = 0; l < s.labels; ++l) {
            ASSERT_EQ(w(l, 0), -top);
            ASSERT_EQ(w(l, 1), top);
            ASSERT_EQ(w(l, 2), 0);
        }
    }
}

TEST(CpuHead, LossIsOptionalAndDxIsSet) {
    Rng rng(61);
    const Shape s{3, 5, 40};
    const auto x = make_input("x", DType::kBf16, s.batch, s.width, rng);
    const auto start = make_input("w", DType::kBf16, s.labels, s.width, rng);
    Reserved cpu(make_cpu_backend("auto"), workload_of(s, DType::kBf16, 1));
    Tensor w1("w1", DType::kBf16, s.labels, s.width), w2("w2", DType::kBf16, s.labels, s.width);
    Tensor dx("dx", DType::kF32, s.batch, s.width), again("again", DType::kF32, s.batch, s.width);
    w1.copy(*start);
    w2.copy(*start);
    again.fill([](auto, auto) { return 1e6; });
    HeadStep op = op_of(*x, w1, {}, dx);
    EXPECT_GT(cpu->head_step(op).loss_sum, 0);
    op.want_loss = false;
    op.w_LD = w2.view();
    op.dx_BD = again.view();
    EXPECT_EQ(cpu->head_step(op).loss_sum, 0);
    expect_same_bits(w1, w2);
    expect_same_bits(dx, again);
}

// Top-k: every label in the ranking has its score within the bound, and none left out is better than the
// worst.
TEST(CpuHead, TopK) {
    Rng rng(67);
    const auto truth = make_reference_backend();
    for (const std::string& kind : products())
        for (const DType storage : kStorages)
            for (const Shape& s : kShapes)
                for (const std::int64_t k : {std::int64_t{1}, std::int64_t{5}, s.labels + 2}) {
                    if (repeats(kind, storage)) continue;
                    const DType input = k == 5 ? DType::kF32 : DType::kBf16;
                    const auto x = make_input("x", input, s.batch, s.width, rng);
                    const auto w = make_input("w", storage, s.labels, s.width, rng, 0.3);
                    Workload workload = workload_of(s, storage, 1);
                    workload.training = false;
                    workload.top_k = k;
                    Reserved cpu(make_cpu_backend(kind), workload);
                    const auto best = cpu->head_topk({x->view(), w->view(), k});
                    const auto all = truth->head_topk({x->view(), w->view(), s.labels});
                    const reference::Matrix xm(x->view()), wm(w->view());
                    ASSERT_EQ(static_cast<std::int64_t>(best.size()), s.batch);
                    for (std::size_t b = 0; b < best.size(); ++b) {
                        const auto ranking = best[b].sorted();
                        ASSERT_EQ(static_cast<std::int64_t>(ranking.size()), std::min(k, s.labels));
                        std::vector<double> exact(static_cast<std::size_t>(s.labels)), bound(exact.size());
                        for (const ScoredLabel& l : all[b].sorted()) {
                            exact[static_cast<std::size_t>(l.label)] = l.score;
                            double size = 0;
                            for (std::int64_t d = 0; d < s.width; ++d)
                                size += std::abs(xm(static_cast<std::int64_t>(b), d) * wm(l.label, d));
                            // E4M3 of x may be 1/16 larger; the exact score above is rounded to FP32 once.
                            bound[static_cast<std::size_t>(l.label)] =
                                sum_error(s.width + 1) * size * 1.0625 + 0x1p-126;
                        }
                        std::vector<bool> taken(exact.size());
                        for (std::size_t i = 0; i < ranking.size(); ++i) {
                            const auto label = static_cast<std::size_t>(ranking[i].label);
                            ASSERT_LT(label, exact.size());
                            ASSERT_FALSE(taken[label]);
                            taken[label] = true;
                            ASSERT_LE(std::abs(ranking[i].score - exact[label]), bound[label]);
                            if (i > 0) {
                                ASSERT_TRUE(ranks_before(ranking[i - 1], ranking[i]));
                            }
                        }
                        for (std::size_t label = 0; label < exact.size(); ++label) {
                            if (!taken[label]) {
                                ASSERT_LE(exact[label], ranking.back().score + bound[label]);
                            }
                        }
                    }
                }
}

TEST(CpuHead, TopKTiesByLowerLabelAcrossTiles) {
    const Shape s{2, 3, 1030};
    for (const DType storage : kStorages) {
        Tensor x("x", DType::kBf16, 2, 3), w("w", storage, s.labels, 3);
        x.fill([](auto b, auto) { return b == 0 ? 1.0 : -1.0; });
        w.fill([](auto l, auto) { return l % 256 == 7 ? 0.5 : 0.25; });
        for (const int threads : {1, 2, 3}) {
            set_num_threads(threads);
            Workload workload = workload_of(s, storage, 1);
            workload.top_k = 6;
            Reserved cpu(make_cpu_backend("auto"), workload);
            const auto best = cpu->head_topk({x.view(), w.view(), 6});
            std::vector<std::int64_t> labels[2];
            for (int b = 0; b < 2; ++b)
                for (const ScoredLabel& l : best[static_cast<std::size_t>(b)].sorted())
                    labels[b].push_back(l.label);
            EXPECT_EQ(labels[0], (std::vector<std::int64_t>{7, 263, 519, 775, 0, 1}));
            EXPECT_EQ(labels[1], (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
        }
        set_num_threads(0);
    }
}

}  // namespace
}  // namespace elmo::testing_ops
