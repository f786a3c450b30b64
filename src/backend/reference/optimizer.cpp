// AdamW and the filling of weights.
#include <algorithm>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"
#include "numerics/normal.h"
#include "numerics/packed_codes.h"
#include "numerics/row_exponents.h"

namespace elmo {

using namespace reference;

namespace {

struct Factors {
    explicit Factors(const AdamWUpdate& op)
        : lr(op.lr),
          beta1(op.beta1),
          beta2(op.beta2),
          correction1(1.0 - std::pow(beta1, static_cast<double>(op.t))),
          correction2(1.0 - std::pow(beta2, static_cast<double>(op.t))) {}
    double lr, beta1, beta2, correction1, correction2;
};

// The update of a weight, and its moments, which become the new ones.
double update_of(const AdamWUpdate& op, const Factors& f, std::int64_t r, std::int64_t c, double w, double& m,
                 double& v) {
    const double g = load(op.grad, r, c) * static_cast<double>(op.grad_scale);
    m = f.beta1 * m + (1.0 - f.beta1) * g;
    v = f.beta2 * v + (1.0 - f.beta2) * g * g;
    const double direction =
        m / f.correction1 / (std::sqrt(v / f.correction2) + static_cast<double>(op.epsilon));
    return -f.lr * (direction + static_cast<double>(op.weight_decay) * w);
}

void update_tensor(const AdamWUpdate& op) {
    const Factors factors(op);
    NoiseKey second = op.key;
    ++second.stream;
    for (std::int64_t r = 0; r < op.w.rows; ++r)
        for (std::int64_t c = 0; c < op.w.cols; ++c) {
            const double w = load(op.w, r, c);
            double m = load(op.m, r, c), v = load(op.v, r, c);
            const double u = update_of(op, factors, r, c, w, m, v);
            store_stochastic(op.m, r, c, m, noise16(op.key, op.first_row + r, c));
            store_stochastic(op.v, r, c, v, noise16(second, op.first_row + r, c));
            if (op.c.empty()) {
                store(op.w, r, c, w + u);
                continue;
            }
            const double y = u + load(op.c, r, c);
            store(op.w, r, c, w + y);
            store(op.c, r, c, y - (load(op.w, r, c) - w));
        }
}

std::uint16_t bytes_noise(const AdamWUpdate& op, std::int64_t r, std::int64_t c) {
    return static_cast<std::uint16_t>(noise16(op.bytes_key(), op.first_row + r, c) + noise_shift(op.t));
}

// The columns [first, last) of a row, which share exponents.
void update_block(const AdamWUpdate& op, std::int64_t r, std::int64_t first, std::int64_t last) {
    const Factors factors(op);
    std::uint8_t* const exponents = op.exponents.codes() + r * op.exponents.cols + 2 * (first / kMomentBlock);
    std::uint8_t *const m_codes = op.m.codes() + r * op.m.cols, *const v_codes = op.v.codes() + r * op.v.cols,
                        *const c_codes = op.c.codes() + r * op.c.cols;
    Bf16* const weights = op.w.as<Bf16>() + r * op.w.cols;
    std::vector<float> m_new, v_new;
    std::uint32_t largest_m = 0, largest_v = 0;
    for (std::int64_t c = first; c < last; ++c) {
        double m = decode_first_moment(m_codes[c], exponents[0]),
               v = decode_second_moment(v_codes[c], exponents[1]);
        const double w = decode_weight(weights[c].bits, c_codes[c]),
                     u = update_of(op, factors, r, c, w, m, v);
        const std::uint32_t now = round_weight(static_cast<float>(w + u), bytes_noise(op, r, c));
        weights[c].bits = static_cast<std::uint16_t>(weight_bf16(now) >> 16);
        c_codes[c] = static_cast<std::uint8_t>(weight_rest(now));
        m_new.push_back(static_cast<float>(m));
        v_new.push_back(static_cast<float>(v));
        largest_m = std::max(largest_m, std::bit_cast<std::uint32_t>(std::abs(m_new.back())));
        largest_v = std::max(largest_v, std::bit_cast<std::uint32_t>(std::abs(v_new.back())));
    }
    exponents[0] = static_cast<std::uint8_t>(moment_exponent(largest_m, kFirstMomentRange));
    exponents[1] = static_cast<std::uint8_t>(moment_exponent(largest_v, kSecondMomentRange));
    for (std::int64_t c = first; c < last; ++c) {
        const auto i = static_cast<std::size_t>(c - first);
        const std::uint16_t noise = bytes_noise(op, r, c);
        m_codes[c] = static_cast<std::uint8_t>(encode_first_moment(m_new[i], exponents[0], noise) >> 24);
        v_codes[c] = static_cast<std::uint8_t>(encode_second_moment(v_new[i], exponents[1], noise) >> 24);
    }
}

void update_bytes(const AdamWUpdate& op) {
    for (std::int64_t r = 0; r < op.w.rows; ++r)
        for (std::int64_t c = 0; c < op.w.cols; c += kMomentBlock)
            update_block(op, r, c, std::min(c + kMomentBlock, op.w.cols));
}

}  // namespace

void ReferenceBackend::adamw(std::span<const AdamWUpdate> ops) {
    for (const AdamWUpdate& op : ops) op.in_bytes() ? update_bytes(op) : update_tensor(op);
}

void ReferenceBackend::fill_normal(const FillNormal& op) {
    for (std::int64_t r = 0; r < op.w.rows; ++r) {
        const std::int64_t row = op.first_row + r;
        std::vector<float> values;
        float largest = 0;
        for (std::int64_t c = 0; c < op.width(); ++c) {
            values.push_back(noise_normal(op.key, row, c) * op.sigma);
            largest = std::max(largest, std::abs(values.back()));
        }
        const int exponent = op.grid.row_scaled ? first_row_exponent(op.grid, largest) : 0;
        if (op.grid.row_scaled) op.row_exponents.codes()[r] = encode_row_exponent(exponent);
        for (std::int64_t c = 0; c < op.width(); ++c) {
            const float x = values[static_cast<std::size_t>(c)];
            const std::uint16_t noise = noise16(op.rounding, row, c);
            if (!op.grid.used()) {
                store_stochastic(op.w, r, c, x, noise);
                continue;
            }
            std::uint32_t ignored = 0;
            const GridRow grid = grid_row(op.grid, exponent);
            const float w = round_to_grid(grid, x, false, noise, ignored);
            if (op.w.dtype == DType::kU8)
                put_code(op.w.codes() + r * op.w.cols, op.grid.bits(), c, encode_grid_code(grid, w));
            else
                store(op.w, r, c, w);
        }
    }
}

}  // namespace elmo
