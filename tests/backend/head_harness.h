// What the tests of the head share: shapes, ops, and the step computed again in FP64 with the bounds of
// every FP32 error beside it.
#pragma once

#include "op_harness.h"

namespace elmo::testing_ops {

struct HeadShape {
    std::int64_t batch, width, labels;
};
// Labels around the tile of 256, more tiles than the slices that dx is summed in, primes, ones.
inline const HeadShape kHeadShapes[] = {{1, 1, 1},     {1, 7, 3},    {3, 2, 255},   {5, 17, 256},
                                        {2, 33, 257},  {17, 64, 31}, {31, 65, 100}, {16, 64, 513},
                                        {3, 129, 521}, {2, 3, 4357}};
// Several tiles of labels, columns past a tile, one of each; the last two are for a GPU's matrix
// instructions.
inline const HeadShape kFewHeadShapes[] = {
    {1, 1, 1}, {2, 33, 257}, {31, 65, 100}, {17, 64, 31}, {3, 64, 129}};
inline std::span<const HeadShape> head_shapes() {
    return under_sanitizer() ? std::span<const HeadShape>(kFewHeadShapes) : kHeadShapes;
}
// A CPU takes few of the larger shapes, and so does a GPU under a sanitizer.
inline bool few_shapes() {
    return !kTestsGpu || under_sanitizer();
}
// Widths, batches and labels around the tiles of a GPU's matrix instructions; at last more tiles than slices.
inline const HeadShape kTiledShapes[] = {
    {7, 64, 127},    {1, 192, 129},   {130, 128, 300},  {1, 64, 1},       {128, 64, 129},  {130, 64, 300},
    {7, 128, 1000},  {130, 128, 127}, {128, 192, 1000}, {7, 384, 129},    {128, 384, 300}, {130, 384, 1000},
    {300, 128, 700}, {512, 384, 65},  {7, 768, 300},    {129, 256, 1000}, {3, 512, 17001}, {600, 136, 300},
    {1100, 64, 129}, {9, 1024, 300},  {140, 840, 129},  {7, 1536, 65},    {700, 392, 70},  {65, 100, 300},
    {100, 256, 300}, {128, 512, 200}};
inline std::span<const HeadShape> tiled_shapes() {
    return std::span(kTiledShapes).first(few_shapes() ? 3 : std::size(kTiledShapes));
}

// Compensation for every label that `has` names.
struct Compensation {
    Tensor values, marks;

    template <class Has>
    Compensation(std::int64_t labels, std::int64_t width, const Has& has)
        : Compensation(labels, width, those(labels, has)) {}
    Compensation(std::int64_t labels, std::int64_t width, const std::vector<std::int64_t>& which)
        : values("compensation", DType::kBf16, static_cast<std::int64_t>(which.size()), width),
          marks("marks", DType::kI32, mark_words(labels), 2),
          labels_(which) {
        std::memcpy(marks.view().data, mark_rows(labels, which).data(),
                    static_cast<std::size_t>(marks.view().bytes()));
        values.fill([](auto, auto) { return 0.0; });
        marks.freeze();
    }
    // The label's row of `values`, or -1.
    std::int64_t row(std::int64_t label) const {
        return marked_number(static_cast<const std::uint32_t*>(marks.view().data), label);
    }
    // To a step whose first_label is set.
    void give_to(HeadStep& op) const {
        op.compensation_KD = values.view();
        op.compensated_R2 = marks.view();
        labels_of_run_ = labels_;
        for (std::int64_t& label : labels_of_run_) label += op.first_label;
        op.compensated_labels = labels_of_run_;
    }

  private:
    template <class Has>
    static std::vector<std::int64_t> those(std::int64_t labels, const Has& has) {
        std::vector<std::int64_t> which;
        for (std::int64_t l = 0; l < labels; ++l)
            if (has(l)) which.push_back(l);
        return which;
    }

    std::vector<std::int64_t> labels_;
    mutable std::vector<std::int64_t> labels_of_run_;
};
inline bool every_third(std::int64_t label) {
    return label % 3 == 1;
}

inline constexpr DType kHeadStorages[] = {DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4};

inline Workload head_workload(const HeadShape& s, DType storage, std::int64_t chunks) {
    Workload workload;
    workload.batch = s.batch;
    workload.width = s.width;
    workload.labels = s.labels;
    workload.positives = s.batch * s.labels;
    workload.head_dtype = storage;
    workload.chunks = chunks;
    workload.compensated = s.labels;
    return workload;
}

inline std::vector<std::string> head_products() {
    std::vector<std::string> names;
    for (const Mode& mode : tested_modes())
        if (mode.storage == DType::kBf16) names.push_back(mode.products);
    return names;
}

// FP32 weights have only one kind of products.
inline bool repeats(const std::string& kind, DType storage) {
    return kind == "bf16" && storage == DType::kF32;
}

// A GPU multiplies FP32 weights in plain loops for every shape: under a sanitizer other tests cover those.
inline bool skips_tiles(DType storage) {
    return under_sanitizer() && storage == DType::kF32;
}

inline PositiveList random_positives(const HeadShape& s, double share, Rng& rng) {
    PositiveList positives;
    std::bernoulli_distribution coin(share);
    for (std::int64_t l = 0; l < s.labels; ++l)
        for (std::int32_t b = 0; b < s.batch; ++b)
            if (coin(rng)) positives.push_back(l, b);
    return positives;
}

// Of each label: from a fraction to much more than one, and one among them.
inline std::vector<float> random_weights(std::int64_t labels, Rng& rng) {
    std::uniform_real_distribution<float> exponent(-2, 4);
    std::vector<float> weights;
    for (std::int64_t l = 0; l < labels; ++l) weights.push_back(l % 5 == 3 ? 1 : std::exp2(exponent(rng)));
    return weights;
}

// Those of rows [first, last), numbered from there.
inline PositiveList part_of(const Positives& positives, std::int64_t first, std::int64_t last) {
    PositiveList part;
    const Positives mine = positives.of_rows(first, last);
    for (std::size_t i = 0; i < mine.rows.size(); ++i) part.push_back(mine.rows[i] - first, mine.samples[i]);
    return part;
}

// Small multiples of a power of two: few enough bits for every product and sum of logits to be exact in FP32,
// whatever the order. E4M3 holds them too.
inline std::unique_ptr<Tensor> make_coarse_input(std::string name, DType dtype, std::int64_t rows,
                                                 std::int64_t cols, Rng& rng) {
    auto tensor = std::make_unique<Tensor>(std::move(name), dtype, rows, cols);
    std::uniform_int_distribution<int> pick(-7, 7);
    tensor->fill([&](auto, auto) { return pick(rng) / 16.0; });
    tensor->freeze();
    return tensor;
}

inline HeadStep head_op(const Tensor& x, Tensor& w, const Positives& positives, Tensor& dx) {
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

// A GPU may multiply E4M3 codes as they are. Their sums have few bits, so bounds are wide unless they are
// exact.
inline bool multiplies_codes(DType storage) {
    return kTestsGpu && storage == DType::kE4M3;
}

// Bound of the error of a logit, of the products' magnitudes column by column. FP32 sums, but a GPU may
// multiply E4M3 codes: an instruction adds 32 products and the sum so far, each cut at 13 bits below the
// largest of them, and the result once more; sums of 128 columns are added in FP32. Sums of few multiples of
// `quantum` (0: not known) are exact in any order.
inline double logit_error(DType storage, double quantum, std::span<const double> magnitudes) {
    const bool codes = multiplies_codes(storage);
    const std::size_t columns = codes ? 128 : magnitudes.size();
    double total = 0, error = 0;
    for (std::size_t first = 0; first < magnitudes.size(); first += columns) {
        double part = 0;
        for (const double m : magnitudes.subspan(first, std::min(columns, magnitudes.size() - first)))
            part += m;
        if (codes && part > quantum * 0x1p13) error += 4 * 34 * 0x1p-13 * part;
        total += part;
    }
    if (total > quantum * 0x1p22)
        error += sum_error(static_cast<std::int64_t>(magnitudes.size()) + 1) * total;
    return error;
}

// The step again, in FP64 with the bounds of every FP32 error: the range of correct results.
class HeadBounds {
  public:
    HeadBounds(const Tensor& x, const Tensor& w, const HeadStep& op)
        : x_(x.view()), x_logit_(x.view()), w_(w.view()), used_(w.view()), op_(op) {
        for (std::int64_t l = 0; op.drops_weights() && l < w.rows(); ++l)
            for (std::int64_t d = 0; d < w.cols(); ++d) {
                const auto product = static_cast<float>(w_(l, d) * factor_of(l, d));
                used_(l, d) = w.dtype() == DType::kF32 ? product : to_float(to_bf16(product));
            }
        if (w.dtype() == DType::kE4M3)
            for (double& v : x_logit_.values) v = kE4M3.decode(round_nearest(kE4M3, static_cast<float>(v)));
        quantum_ = quantum(x_logit_) * quantum(used_);
        PositiveWalk walk(op.positives);
        dx_.assign(size(x.rows() * x.cols()), 0.0);
        dx_size_ = dx_error_ = dx_;
        for (std::int64_t l = 0; l < w.rows(); ++l)
            for (std::int64_t b = 0; b < x.rows(); ++b)
                if (walk.is_positive(l, static_cast<std::int32_t>(b)))
                    add_logit(l, b, true, walk.weight());
                else
                    add_logit(l, b, false, 1);
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
    // lr * sum_b g_b x_b of one weight.
    struct Range {
        double low, high;
    };
    Range descent(std::int64_t l, std::int64_t d) const {
        const double factor = factor_of(l, d), lr = op_.lr;
        double sum = 0, spread = 0, magnitude = 0;
        for (std::int64_t b = 0; b < x_.rows; ++b) {
            const Gradient& range = g(l, b);
            sum += (range.low + range.high) / 2 * x_(b, d);
            spread += (range.high - range.low) / 2 * std::abs(x_(b, d));
            magnitude += std::max(std::abs(range.low), std::abs(range.high)) * std::abs(x_(b, d));
        }
        const double error = lr * factor * (spread + sum_error(x_.rows + (factor == 1 ? 2 : 3)) * magnitude);
        return {lr * factor * sum - error, lr * factor * sum + error};
    }
    // The weight before it is rounded to its storage.
    std::pair<double, double> weight(std::int64_t l, std::int64_t d) const {
        const double w = w_(l, d), keep = 1 - op_.lr * double{op_.weight_decay};
        const auto [low, high] = descent(l, d);
        const double value = w * keep - (low + high) / 2;
        // keep is rounded twice (lr * decay, 1 - it), both products once, the difference once.
        const double error =
            (high - low) / 2 + 4 * kF32Roundoff * std::abs(w) + kF32Roundoff * std::abs(value) + 0x1p-140;
        return {value - error, value + error};
    }
    // y of a compensated weight: what is to be added to it, `c` from before included.
    Range compensated_step(std::int64_t l, std::int64_t d, double c) const {
        const double decay = double{op_.lr} * op_.weight_decay * w_(l, d);
        const auto [low, high] = descent(l, d);
        const double value = -decay - (low + high) / 2 + c;
        // The rate and its product with w, u and y: each rounded once.
        const double error = (high - low) / 2 +
                             kF32Roundoff * (3 * std::abs(decay) + std::abs(value - c) + std::abs(value)) +
                             0x1p-140;
        return {value - error, value + error};
    }

  private:
    static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
    // What weight dropout multiplies a weight and its gradient by.
    double factor_of(std::int64_t l, std::int64_t d) const {
        if (!op_.drops_weights()) return 1;
        const bool dropped = noise16(op_.weight_dropout.key, l, d) < op_.weight_dropout.threshold();
        return dropped ? 0 : double{op_.weight_dropout.scale()};
    }
    // The largest power of two that all elements are multiples of.
    static double quantum(const reference::Matrix& m) {
        double smallest = 1;
        for (const double v : m.values) {
            int exponent = 0;
            const auto digits = static_cast<std::int64_t>(std::ldexp(std::frexp(v, &exponent), 53));
            if (digits != 0)
                smallest =
                    std::min(smallest, std::ldexp(static_cast<double>(digits & -digits), exponent - 53));
        }
        return smallest;
    }
    void add_logit(std::int64_t l, std::int64_t b, bool positive, double weight) {
        double z = 0;
        magnitudes_.resize(size(x_.cols));
        for (std::int64_t d = 0; d < x_.cols; ++d) {
            const double product = x_logit_(b, d) * used_(l, d);
            z += product;
            magnitudes_[size(d)] = std::abs(product);
        }
        const double z_error = logit_error(op_.w_LD.dtype, quantum_, magnitudes_);
        const double p = 1 / (1 + std::exp(-z));
        const double exact = positive ? -weight / (1 + std::exp(z)) : p;
        // The slope of the sigmoid is p (1 - p); then e^-z, the sum and the division, and y subtracted. A GPU
        // takes 2^(-z log2 e) (2 ulp, and the product is rounded) and an approximate reciprocal (1 ulp).
#ifdef ELMO_TEST_GPU
        const double exp_error = 0x1p-21 + std::abs(z) * 0x1p-23, division = 4 * kF32Roundoff;
#else
        const double exp_error = kExpError, division = 2 * kF32Roundoff;
#endif
        const double slope = std::min(0.25, p * (1 - p) * std::exp(z_error));
        // The product with a weight is rounded once more.
        const double error = weight * (slope * (z_error + exp_error) + division * p) +
                             (weight == 1 ? 1 : 2) * kF32Roundoff * std::abs(exact) + 0x1p-126;
        const auto bf16 = [](double v) { return double{to_float(to_bf16(static_cast<float>(v)))}; };
        const Gradient range{bf16(exact - error), bf16(exact + error)};
        g_.push_back(range);
        const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
        const double loss = weight * (softplus - (positive ? z : 0));
        loss_ += loss;
        // Lanes of at most 64 FP32 additions, then FP64.
        loss_error_ += z_error * (positive ? 2 : 1) +
                       std::log1p(std::exp(-std::abs(z))) * (kLog1pError + exp_error) +
                       sum_error(64 + 2) * softplus + 0x1p-126;
        // With weights a positive's loss is a term of its own, and may be added after that of a negative is
        // taken back.
        if (op_.positives.weighted() && positive)
            loss_error_ +=
                (1 + weight) * (z_error + std::log1p(std::exp(-std::abs(z))) * (kLog1pError + exp_error)) +
                sum_error(64 + 4) * (softplus + loss);
        for (std::int64_t d = 0; d < x_.cols; ++d) {
            const auto i = size(b * x_.cols + d);
            dx_[i] += (range.low + range.high) / 2 * used_(l, d);
            dx_error_[i] += (range.high - range.low) / 2 * std::abs(used_(l, d));
            dx_size_[i] += std::max(std::abs(range.low), std::abs(range.high)) * std::abs(used_(l, d));
        }
    }

    reference::Matrix x_, x_logit_, w_, used_;  // used_: what logits and dx see of w
    const HeadStep& op_;
    std::vector<Gradient> g_;
    std::vector<double> dx_, dx_size_, dx_error_;
    double loss_ = 0, loss_error_ = 0, quantum_ = 0;
    std::vector<double> magnitudes_;  // of one logit's products
};

inline double nearest(DType storage, double value) {
    const auto x = static_cast<float>(value);
    switch (storage) {
        case DType::kBf16:
            return to_float(to_bf16(x));
        case DType::kE4M3:
            return kE4M3.decode(round_nearest(kE4M3, x));
        case DType::kE3M4:
            return kE3M4.decode(round_nearest(kE3M4, x));
        default:
            return x;
    }
}

inline double rounded(DType storage, double value, std::uint16_t noise) {
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

}  // namespace elmo::testing_ops
