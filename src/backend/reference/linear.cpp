// Linear layers and GELU.
#include <algorithm>
#include <bit>
#include <limits>
#include <numbers>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"

namespace elmo {

using namespace reference;

namespace {

// The normal distribution function; GELU(x) = x * Phi(x).
double phi(double x) {
    return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
}
double density(double x) {
    return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

// The largest magnitude; not finite where an element is not.
float amax(const Matrix& m) {
    float largest = 0;
    for (const double value : m.values) {
        if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
        largest = std::max(largest, static_cast<float>(std::abs(value)));
    }
    return largest;
}

// Every element rounded to the format's grid, scaled so that `largest` fits; its codes, where wanted.
void round_to_grid(const MiniFloat& format, float largest, Matrix& m, const View& codes = {}) {
    constexpr std::uint32_t kNan = 0x7f;  // of E4M3 and E5M2
    const int power = scale_exponent(format, std::bit_cast<std::uint32_t>(largest));
    for (std::size_t i = 0; i < m.values.size(); ++i) {
        double& value = m.values[i];
        const auto scaled = static_cast<float>(std::ldexp(value, power));
        const std::uint32_t code = std::isfinite(value) ? round_nearest(format, scaled) : kNan;
        if (!codes.empty()) codes.codes()[i] = static_cast<std::uint8_t>(code);
        value = std::ldexp(static_cast<double>(format.decode(code)), -power);
    }
}
// What GELU makes of each element, as stored; the slopes, or codes of the elements, where wanted.
void apply_gelu(DType dtype, Matrix& m, const View& slope, const View& seen) {
    for (std::size_t i = 0; i < m.values.size(); ++i) {
        const double x = m.values[i];
        if (!slope.empty()) slope.codes()[i] = slope_code(static_cast<float>(phi(x) + x * density(x)));
        if (!seen.empty()) seen.codes()[i] = pre_code(static_cast<float>(x));
        m.values[i] = rounded(dtype, x * phi(x));
    }
}
// What codes stand for.
Matrix pre_of_codes(const View& codes) {
    Matrix m(codes.rows, codes.cols);
    for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = pre_of(codes.codes()[i]);
    return m;
}
// The matrix that has these codes.
Matrix from_codes(float largest, const View& codes, std::int64_t rows, std::int64_t cols) {
    const int power = scale_exponent(kE4M3, std::bit_cast<std::uint32_t>(largest));
    Matrix m(rows, cols);
    for (std::size_t i = 0; i < m.values.size(); ++i)
        m.values[i] = std::ldexp(static_cast<double>(kE4M3.decode(codes.codes()[i])), -power);
    return m;
}

}  // namespace

void ReferenceBackend::linear_forward(const LinearForward& op) {
    Matrix x(op.x_TK), w(op.w_NK);
    if (!op.slope_TK.empty() || !op.seen_TK.empty()) apply_gelu(op.x_TK.dtype, x, op.slope_TK, op.seen_TK);
    if (!op.amax_13.empty()) {
        auto* largest = op.amax_13.as<float>();
        largest[0] = amax(x);
        largest[1] = amax(w);
        round_to_grid(kE4M3, largest[0], x, op.x_codes);
        round_to_grid(kE4M3, largest[1], w);
    }
    if (op.fp16) {
        round_to_fp16(x);
        round_to_fp16(w);
    }
    for (std::int64_t t = 0; t < x.rows; ++t)
        for (std::int64_t n = 0; n < w.rows; ++n) {
            double sum = op.bias_1N.empty() ? 0.0 : fp16_or(op.fp16, load(op.bias_1N, 0, n));
            for (std::int64_t k = 0; k < x.cols; ++k) sum += x(t, k) * w(n, k);
            sum = fp16_or(op.fp16, sum);
            const bool codes = op.pre_TN.dtype == DType::kU8;
            const View& rounded = op.pre_TN.empty() || codes ? op.y_TN : op.pre_TN;
            store(rounded, t, n, sum);
            if (op.activation != Activation::kGelu || op.y_TN.empty()) continue;
            const double pre = load(rounded, t, n);
            if (codes) op.pre_TN.codes()[t * op.pre_TN.cols + n] = pre_code(static_cast<float>(pre));
            store(op.y_TN, t, n, fp16_or(op.fp16, pre * phi(pre)));
        }
}

void ReferenceBackend::linear_backward(const LinearBackward& op) {
    if (!op.dy_slope_TN.empty() || !op.dy_seen_TN.empty())
        gelu_backward({op.dy_seen_TN, op.dy_TN, {}, {}, false, op.dy_slope_TN});
    Matrix dy(op.dy_TN), w(op.w_NK);
    const bool fp8 = !op.amax_13.empty();
    const bool seen = op.x_TK.dtype == DType::kU8;
    Matrix x = seen ? pre_of_codes(op.x_TK) : Matrix(op.x_TK);
    if (fp8) {
        auto* largest = op.amax_13.as<float>();
        largest[2] = amax(dy);
        round_to_grid(kE5M2, largest[2], dy);
        round_to_grid(kE4M3, largest[1], w);
        if ((seen || !op.slope_TK.empty()) && !op.x_TK.empty())
            apply_gelu(seen ? DType::kBf16 : op.x_TK.dtype, x, op.slope_TK, {});
        if (!op.x_TK.empty())
            round_to_grid(kE4M3, largest[0], x, op.x_codes);
        else if (!op.x_codes.empty())
            x = from_codes(largest[0], op.x_codes, dy.rows, w.cols);
    }
    if (op.fp16) {
        round_to_fp16(dy);
        round_to_fp16(w);
        round_to_fp16(x);
    }
    if (!op.dx_TK.empty())
        for (std::int64_t t = 0; t < dy.rows; ++t)
            for (std::int64_t k = 0; k < w.cols; ++k) {
                double sum = 0;
                for (std::int64_t n = 0; n < w.rows; ++n) sum += dy(t, n) * w(n, k);
                store(op.dx_TK, t, k, fp16_or(op.fp16, sum));
            }
    if (op.dw_NK.empty()) return;
    Matrix dw = gradient_start(op.dw_NK, op.accumulate);
    for (std::int64_t n = 0; n < dw.rows; ++n)
        for (std::int64_t k = 0; k < dw.cols; ++k)
            for (std::int64_t t = 0; t < dy.rows; ++t) dw(n, k) += dy(t, n) * x(t, k);
    dw.store_to(op.dw_NK);
    if (op.dbias_1N.empty()) return;
    column_sums(op.dy_TN, op.dbias_1N, op.accumulate);
}

void ReferenceBackend::gelu_backward(const GeluBackward& op) {
    if (!op.dz_TM.empty()) linear_backward(product_before(op));
    for (std::int64_t t = 0; t < op.dy_TN.rows; ++t)
        for (std::int64_t n = 0; n < op.dy_TN.cols; ++n) {
            if (!op.slope_TN.empty()) {
                const float slope = slope_of(op.slope_TN.codes()[t * op.slope_TN.cols + n]);
                store(op.dy_TN, t, n, load(op.dy_TN, t, n) * slope);
                continue;
            }
            const bool codes = op.pre_TN.dtype == DType::kU8;
            const double x =
                codes ? pre_of(op.pre_TN.codes()[t * op.pre_TN.cols + n]) : load(op.pre_TN, t, n);
            const double dy = load(op.dy_TN, t, n) * (phi(x) + x * density(x));
            store(op.dy_TN, t, n, fp16_or(op.fp16, dy));
            if (!op.gelu_TN.empty()) store(op.gelu_TN, t, n, fp16_or(op.fp16, x * phi(x)));
        }
    if (!op.dbias_1N.empty()) column_sums(op.dy_TN, op.dbias_1N, op.accumulate);
}

}  // namespace elmo
