// The classifier head: one label after another, so that no [B, L] matrix and no gradient of W exists.
#include <algorithm>
#include <cassert>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"
#include "numerics/packed_codes.h"
#include "numerics/row_exponents.h"

namespace elmo {

using namespace reference;

namespace {

// X as the logits see it.
template <class Op>
Matrix logit_input(const Op& op) {
    Matrix x(op.x_BD);
    if (casts_to_e4m3(op))
        for (double& value : x.values) value = kE4M3.decode(round_nearest(kE4M3, static_cast<float>(value)));
    return x;
}

double logit(const Matrix& x, std::int64_t b, const std::vector<double>& w) {
    double sum = 0;
    for (std::int64_t d = 0; d < x.cols; ++d) sum += x(b, d) * w[static_cast<std::size_t>(d)];
    return sum;
}

// Of HeadStep or HeadTopK: the grid of a label's row.
template <class Op>
GridRow row_grid(const Op& op, std::int64_t l) {
    return grid_row(op.grid, op.grid.row_scaled ? decode_row_exponent(op.row_exponents_L1.codes()[l]) : 0);
}

template <class Op>
std::vector<double> load_row(const Op& op, std::int64_t l) {
    std::vector<double> values;
    for (std::int64_t d = 0; d < op.x_BD.cols; ++d)
        values.push_back(op.w_LD.dtype == DType::kU8
                             ? decode_grid_code(row_grid(op, l), code_at(op.w_LD.codes() + l * op.w_LD.cols,
                                                                         op.grid.bits(), d))
                             : load(op.w_LD, l, d));
    return values;
}

// What weight dropout multiplies a weight and its gradient by: the scale is an FP32 number unless all is F64.
double weight_factor(const HeadStep& op, std::int64_t label, std::int64_t column) {
    const double factor = dropout_factor(op.weight_dropout, op.first_label + label, column);
    return op.w_LD.dtype == DType::kF64 ? factor : static_cast<double>(static_cast<float>(factor));
}

// A row of weights as logits and dx see it.
std::vector<double> dropped_row(const HeadStep& op, std::int64_t label, std::vector<double> w) {
    if (!op.drops_weights()) return w;
    for (std::size_t d = 0; d < w.size(); ++d) {
        w[d] *= weight_factor(op, label, static_cast<std::int64_t>(d));
        if (op.w_LD.dtype == DType::kF64) continue;
        const auto product = static_cast<float>(w[d]);  // of two FP32 numbers: exact in FP64, rounded once
        w[d] = op.w_LD.dtype == DType::kF32 ? product : to_float(to_bf16(product));
    }
    return w;
}

// The compensated update of one weight, `sum` being g^T x: FP32 throughout. `nearest` rounds, and reports
// whether the number was beyond the largest. Returns the new weight.
template <class Nearest>
float compensate(const HeadStep& op, std::int64_t slot, std::int64_t column, double before, double sum,
                 const Nearest& nearest, std::uint32_t& saturations) {
    const auto w = static_cast<float>(before), c = static_cast<float>(load(op.compensation_KD, slot, column));
    const float decay = op.lr * op.weight_decay;
    const float y = (-(decay * w) - op.lr * static_cast<float>(sum)) + c;
    std::uint32_t beyond = 0;
    const float t = nearest(w + y, beyond);
    store(op.compensation_KD, slot, column, beyond > 0 && !op.grid.row_scaled ? 0.0f : y - (t - w));
    saturations += beyond;
    return t;
}
void store_compensated(const HeadStep& op, std::int64_t slot, std::int64_t label, std::int64_t column,
                       double sum, std::int64_t& saturations) {
    std::uint32_t saturated = 0;
    compensate(
        op, slot, column, load(op.w_LD, label, column), sum,
        [&](float target, std::uint32_t& beyond) {
            store(op.w_LD, label, column, target);
            beyond =
                size_of(op.w_LD.dtype) == 1 && !(std::abs(target) <= format_of(op.w_LD.dtype).max_value());
            return static_cast<float>(load(op.w_LD, label, column));
        },
        saturated);
    saturations += saturated;
}

// sigmoid(z) - y without cancellation: sigmoid(z) - 1 = -sigmoid(-z).
double logit_gradient(double z, bool positive) {
    return positive ? -1.0 / (1.0 + std::exp(z)) : 1.0 / (1.0 + std::exp(-z));
}

// -log(sigmoid(z)) or -log(1 - sigmoid(z)), for z of any size.
double cross_entropy(double z, bool positive) {
    return std::max(z, 0.0) - (positive ? z : 0.0) + std::log1p(std::exp(-std::abs(z)));
}

// The updated weights of a label, from those before and the sums g^T x, rounded to its grid and stored; then
// its exponent moves. Returns the saturations.
std::int64_t store_on_grid(const HeadStep& op, std::int64_t l, const std::vector<double>& before,
                           const std::vector<double>& sums) {
    const double lr = op.lr, keep = 1.0 - lr * static_cast<double>(op.weight_decay);
    const std::int64_t slot = op.compensated_row(l);
    std::uint32_t saturated = 0, ignored = 0;
    std::vector<float> row;
    float largest = 0;
    GridRow grid = row_grid(op, l);
    for (std::int64_t d = 0; d < op.x_BD.cols; ++d) {
        const auto i = static_cast<std::size_t>(d);
        const auto nearest = [&](float x, std::uint32_t& beyond) {
            return round_to_grid(grid, x, true, 0, beyond);
        };
        row.push_back(
            slot >= 0
                ? compensate(op, slot, d, before[i], sums[i], nearest, saturated)
                : round_to_grid(grid, static_cast<float>(before[i] * keep - lr * sums[i]), op.grid.nearest,
                                rounding_noise(op.noise, op.rounding, op.first_label + l, d), saturated));
        largest = std::max(largest, std::abs(row.back()));
    }
    if (op.grid.row_scaled) {
        std::uint8_t& stored = op.row_exponents_L1.codes()[l];
        const int was = decode_row_exponent(stored);
        const int now = moved_row_exponent(op.grid, was, saturated > 0, largest, op.rounding.step);
        stored = encode_row_exponent(now);
        grid = row_grid(op, l);
        if (now > was)
            for (std::int64_t d = 0; d < op.x_BD.cols; ++d) {
                float& w = row[static_cast<std::size_t>(d)];
                const float t = round_to_grid(grid, w, op.grid.nearest || slot >= 0,
                                              noise16(op.rescaling, op.first_label + l, d), ignored);
                if (slot >= 0)
                    store(op.compensation_KD, slot, d,
                          static_cast<float>(load(op.compensation_KD, slot, d)) + (w - t));
                w = t;
            }
    }
    for (std::int64_t d = 0; d < op.x_BD.cols; ++d) {
        const float w = row[static_cast<std::size_t>(d)];
        if (op.w_LD.dtype == DType::kU8)
            put_code(op.w_LD.codes() + l * op.w_LD.cols, op.grid.bits(), d, encode_grid_code(grid, w));
        else
            store(op.w_LD, l, d, w);
    }
    return saturated;
}

}  // namespace

HeadStepResult ReferenceBackend::head_step(const HeadStep& op) {
    const Matrix x(op.x_BD), x_logit = logit_input(op);
    const double lr = op.lr, keep = 1.0 - lr * static_cast<double>(op.weight_decay);
    const bool round_gradient = op.x_BD.dtype != DType::kF64;
    Matrix dx(x.rows, x.cols);
    HeadStepResult result;
    PositiveWalk walk(op.positives);
    for (std::int64_t l = 0; l < op.w_LD.rows; ++l) {
        const std::vector<double> before = load_row(op, l), w = dropped_row(op, l, before);
        std::vector<double> dw(w.size());
        for (std::int64_t b = 0; b < x.rows; ++b) {
            const bool positive = walk.is_positive(l, static_cast<std::int32_t>(b));
            const double z = logit(x_logit, b, w);
            const double weight = positive ? walk.weight() : 1.0;
            double g = weight * logit_gradient(z, positive);
            if (round_gradient) g = to_float(to_bf16(static_cast<float>(g)));
            if (op.want_loss) result.loss_sum += weight * cross_entropy(z, positive);
            for (std::int64_t d = 0; d < x.cols; ++d) {
                dx(b, d) += g * w[static_cast<std::size_t>(d)];
                dw[static_cast<std::size_t>(d)] += g * x(b, d);
            }
        }
        std::vector<double> sums = dw;
        for (std::size_t i = 0; i < w.size(); ++i)
            sums[i] *= weight_factor(op, l, static_cast<std::int64_t>(i));
        if (op.grid.used()) {
            result.saturations += store_on_grid(op, l, before, sums);
            continue;
        }
        for (std::int64_t d = 0; d < x.cols; ++d) {
            const auto i = static_cast<std::size_t>(d);
            if (const std::int64_t slot = op.compensated_row(l); slot >= 0)
                store_compensated(op, slot, l, d, sums[i], result.saturations);
            else
                store_stochastic(op.w_LD, l, d, before[i] * keep - lr * sums[i],
                                 rounding_noise(op.noise, op.rounding, op.first_label + l, d),
                                 &result.saturations);
        }
    }
    assert(walk.finished());  // sorted and in range
    if (op.dx_BD.empty()) return result;
    dx.store_to(op.dx_BD);
    if (has_non_finite(op.dx_BD)) result.non_finite = static_cast<std::int64_t>(op.rounding.step);
    return result;
}

std::vector<TopK> ReferenceBackend::head_topk(const HeadTopK& op) {
    const Matrix x = logit_input(op);
    std::vector<TopK> best(static_cast<std::size_t>(x.rows), TopK(op.k));
    for (std::int64_t l = 0; l < op.w_LD.rows; ++l) {
        const std::vector<double> w = load_row(op, l);
        for (std::int64_t b = 0; b < x.rows; ++b)
            best[static_cast<std::size_t>(b)].offer(static_cast<float>(logit(x, b, w)), l);
    }
    return best;
}

}  // namespace elmo
