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

void update_tensor(const AdamWUpdate& op) {
    const double lr = op.lr, beta1 = op.beta1, beta2 = op.beta2;
    const double correction1 = 1.0 - std::pow(beta1, static_cast<double>(op.t));
    const double correction2 = 1.0 - std::pow(beta2, static_cast<double>(op.t));
    NoiseKey second = op.key;
    ++second.stream;
    for (std::int64_t r = 0; r < op.w.rows; ++r)
        for (std::int64_t c = 0; c < op.w.cols; ++c) {
            const double g = load(op.grad, r, c) * static_cast<double>(op.grad_scale);
            const double w = load(op.w, r, c);
            const double m = beta1 * load(op.m, r, c) + (1.0 - beta1) * g;
            const double v = beta2 * load(op.v, r, c) + (1.0 - beta2) * g * g;
            const double direction =
                m / correction1 / (std::sqrt(v / correction2) + static_cast<double>(op.epsilon));
            const double u = -lr * (direction + static_cast<double>(op.weight_decay) * w);
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

}  // namespace

void ReferenceBackend::adamw(std::span<const AdamWUpdate> ops) {
    for (const AdamWUpdate& op : ops) update_tensor(op);
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
