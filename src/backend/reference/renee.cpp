// The baseline's step: see backend/ops/renee.h.
#include <algorithm>
#include <cmath>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"

namespace elmo {

using namespace reference;

namespace {

Fp16 half(double x) {
    return to_fp16(static_cast<float>(x));
}

}  // namespace

ReneeStepResult ReferenceBackend::renee_step(const ReneeStep& op) {
    const std::int64_t labels = op.w_LD.rows, samples = op.x_BD.rows, width = op.x_BD.cols;
    const std::int64_t columns = op.g16_LP.cols;
    Fp16 *w16 = op.w16_LD.as<Fp16>(), *g16 = op.g16_LP.as<Fp16>(), *dw16 = op.dw16_LD.as<Fp16>();
    float *w = op.w_LD.as<float>(), *momentum = op.momentum_LD.as<float>(), *dw32 = op.dw32_LD.as<float>();
    Matrix x(op.x_BD), dx(samples, width);
    for (double& value : x.values) value = to_float(half(value));
    ReneeStepResult result;
    PositiveWalk walk(op.positives);
    for (std::int64_t l = 0; l < labels; ++l) {
        for (std::int64_t d = 0; d < width; ++d) w16[l * width + d] = half(w[l * width + d]);
        std::vector<double> dw(static_cast<std::size_t>(width));
        for (std::int64_t b = 0; b < samples; ++b) {
            double sum = 0;
            for (std::int64_t d = 0; d < width; ++d) sum += x(b, d) * to_float(w16[l * width + d]);
            const double z = to_float(half(sum));
            const bool positive = walk.is_positive(l, static_cast<std::int32_t>(b));
            const double weight = positive ? walk.weight() : 1.0;
            if (op.want_loss)
                result.loss_sum +=
                    weight * (std::max(z, 0.0) - (positive ? z : 0.0) + std::log1p(std::exp(-std::abs(z))));
            const double p = to_float(half(1 / (1 + std::exp(-z))));
            const double g = to_float(g16[l * columns + b] = half(weight * (p - (positive ? 1 : 0))));
            for (std::int64_t d = 0; d < width; ++d) {
                dx(b, d) += g * to_float(w16[l * width + d]);
                dw[static_cast<std::size_t>(d)] += g * x(b, d);
            }
        }
        std::fill(g16 + l * columns + samples, g16 + (l + 1) * columns, Fp16{});
        for (std::int64_t d = 0; d < width; ++d) dw16[l * width + d] = half(dw[static_cast<std::size_t>(d)]);
    }
    for (std::int64_t i = 0; i < labels * width; ++i) {
        dw32[i] = to_float(dw16[i]);
        momentum[i] = op.beta * momentum[i] + (dw32[i] + op.weight_decay * w[i]);
        w[i] -= op.lr * momentum[i];
    }
    for (double& value : dx.values) {
        value = to_float(half(op.scale * value)) / (op.keeps_scale ? 1 : op.scale);
        result.skipped |= !std::isfinite(value);
    }
    if (!result.skipped) dx.store_to(op.dx_BD);
    return result;
}

}  // namespace elmo
