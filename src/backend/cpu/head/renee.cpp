// The baseline's step on a CPU: see backend/ops/renee.h. Plain loops, for comparing results and memory, not
// speed.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/head/head_scratch.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/math.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

// Logits, g, dw16 and the part of dx of one label.
class Label {
  public:
    Label(const ReneeStep& op, const float* x, const float* xt, std::int64_t label, void* scratch)
        : op_(op), x_(x), xt_(xt), label_(label), samples_(op.x_BD.rows), width_(op.x_BD.cols) {
        ScratchCutter cut(scratch);
        w_ = cut.take<float>(width_);
        z_ = cut.take<float>(samples_);
        dw_ = cut.take<float>(width_);
    }

    // Returns the loss when wanted.
    double logits_and_gradient() {
        const float* master = op_.w_LD.as<float>() + label_ * width_;
        Fp16* w16 = op_.w16_LD.as<Fp16>() + label_ * width_;
        for (std::int64_t d = 0; d < width_; ++d) w_[d] = to_float(w16[d] = to_fp16(master[d]));
        std::fill_n(z_, samples_, 0.0f);
        for (std::int64_t d = 0; d < width_; ++d)
            for (std::int64_t b = 0; b < samples_; ++b) z_[b] += w_[d] * xt_[d * samples_ + b];
        for (std::int64_t b = 0; b < samples_; ++b) z_[b] = to_float(to_fp16(z_[b]));
        const Positives mine = op_.positives.of_rows(label_, label_ + 1);
        const auto positives = mine.samples;
        const float weight = mine.weighted() ? mine.weights[0] : 1;
        double loss = 0;
        if (op_.want_loss) {
            for (std::int64_t b = 0; b < samples_; ++b) loss += softplus(z_[b]);
            for (const std::int32_t b : positives)
                loss -= mine.weighted() ? softplus(z_[b]) - weight * softplus(-z_[b]) : z_[b];
        }
        for (std::int64_t b = 0; b < samples_; ++b) z_[b] = to_float(to_fp16(sigmoid(z_[b])));
        for (const std::int32_t b : positives) z_[b] = weight * (z_[b] - 1.0f);
        const std::int64_t columns = op_.g16_LP.cols;
        Fp16* g16 = op_.g16_LP.as<Fp16>() + label_ * columns;
        for (std::int64_t b = 0; b < samples_; ++b) z_[b] = to_float(g16[b] = to_fp16(z_[b]));
        std::fill(g16 + samples_, g16 + columns, Fp16{});
        return loss;
    }

    // dx += g w; dw16 = h(g x).
    void gradients(float* dx) {
        std::fill_n(dw_, width_, 0.0f);
        for (std::int64_t b = 0; b < samples_; ++b) {
            const float g = z_[b];
            const float* x = x_ + b * width_;
            float* to = dx + b * width_;
            for (std::int64_t d = 0; d < width_; ++d) to[d] += g * w_[d];
            for (std::int64_t d = 0; d < width_; ++d) dw_[d] += g * x[d];
        }
        Fp16* dw16 = op_.dw16_LD.as<Fp16>() + label_ * width_;
        for (std::int64_t d = 0; d < width_; ++d) dw16[d] = to_fp16(dw_[d]);
    }

  private:
    const ReneeStep& op_;
    const float *x_, *xt_;
    std::int64_t label_, samples_, width_;
    float *w_, *z_, *dw_;
};

// The sum of slices [0, slices) as FP16 holds it times the scale, over `divisor`; stored to the first.
// Returns whether all are finite.
bool sum_slices(float* slices, std::int64_t count, std::int64_t num_slices, float scale, float divisor) {
    bool finite = true;
    for (std::int64_t i = 0; i < count; ++i) {
        float sum = slices[i];
        for (std::int64_t s = 1; s < num_slices; ++s) sum += slices[s * count + i];
        slices[i] = to_float(to_fp16(scale * sum)) / divisor;
        finite &= std::isfinite(slices[i]);
    }
    return finite;
}

void update(ThreadPool& threads, const ReneeStep& op) {
    const Fp16* dw16 = op.dw16_LD.as<Fp16>();
    float *w = op.w_LD.as<float>(), *momentum = op.momentum_LD.as<float>(), *dw32 = op.dw32_LD.as<float>();
    threads.parallel_ranges(op.w_LD.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            dw32[i] = to_float(dw16[i]);
            momentum[i] = op.beta * momentum[i] + (dw32[i] + op.weight_decay * w[i]);
            w[i] -= op.lr * momentum[i];
        }
    });
}

}  // namespace

ReneeStepResult CpuBackend::renee_step(const ReneeStep& op) {
    const std::int64_t labels = op.w_LD.rows, samples = op.x_BD.rows, width = op.x_BD.cols;
    const std::int64_t count = samples * width;
    ScratchCutter cut(shared_scratch_.data);
    float* x = cut.take<float>(count);
    float* xt = cut.take<float>(count);
    load_floats(op.x_BD, 0, x, count);
    for (std::int64_t b = 0; b < samples; ++b)
        for (std::int64_t d = 0; d < width; ++d)
            xt[d * samples + b] = x[b * width + d] = to_float(to_fp16(x[b * width + d]));

    float* slices = slices_.as<float>();
    std::fill_n(slices, kSlices * count, 0.0f);
    double losses[kSlices] = {};
    parallel_for(kSlices, [&](std::int64_t slice) {
        void* scratch = thread_scratch(head_tile_bytes(samples, width));
        for (std::int64_t l = slice; l < labels; l += kSlices) {
            Label label(op, x, xt, l, scratch);
            losses[slice] += label.logits_and_gradient();
            label.gradients(slices + slice * count);
        }
    });
    update(context_.threads(), op);
    ReneeStepResult result;
    for (const double loss : losses) result.loss_sum += loss;
    result.skipped = !sum_slices(slices, count, kSlices, op.scale, op.keeps_scale ? 1.0f : op.scale);
    if (!result.skipped) store_floats(slices, op.dx_BD, 0, count);
    return result;
}

}  // namespace elmo::cpu
