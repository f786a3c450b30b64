// The step of the head on the CPU: a tile of labels is read once, used for logits, dx and update while it is
// in cache, and written once.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/head/head_scratch.h"
#include "backend/cpu/head/kahan.h"
#include "backend/cpu/head/operands.h"
#include "backend/cpu/linear/gemm.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/dropout.h"
#include "backend/cpu/loops/math.h"
#include "backend/cpu/loops/noise.h"
#include "backend/cpu/loops/rounding.h"
#include "base/clones.h"
#include "base/parallel.h"
#include "numerics/row_exponents.h"

namespace elmo::cpu {
namespace {

// z becomes sigmoid(z).
ELMO_CLONES void sigmoid_all(float* z, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) z[i] = sigmoid(z[i]);
}

// The sum of softplus(z): 16 FP32 lanes over short runs, the runs added in FP64.
ELMO_CLONES double softplus_sum(const float* z, std::int64_t count) {
    constexpr std::int64_t kRun = 1024, kLanes = 16;
    double sum = 0;
    for (std::int64_t begin = 0; begin < count; begin += kRun) {
        const std::int64_t end = begin + kRun < count ? begin + kRun : count;
        float lanes[kLanes] = {};
        std::int64_t i = begin;
        for (; i + kLanes <= end; i += kLanes)
            for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += softplus(z[i + l]);
        for (std::int64_t l = 0; i < end; ++i, ++l) lanes[l] += softplus(z[i]);
        for (const float lane : lanes) sum += lane;
    }
    return sum;
}

// v = w (1 - lr * decay) - lr * u
ELMO_CLONES void update_row(const float* w, const float* u, float keep, float lr, float* v,
                            std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) v[i] = w[i] * keep - lr * u[i];
}

ELMO_CLONES float largest_size(const float* x, std::int64_t count) {
    float largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        largest = size > largest ? size : largest;
    }
    return largest;
}

ELMO_CLONES void add_to(float* y, const float* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

// One tile of labels at work.
class Tile {
  public:
    Tile(const HeadStep& op, const StagedBatch& batch, bool bf16, std::int64_t begin, std::int64_t end,
         void* scratch)
        : op_(op),
          batch_(batch),
          bf16_(bf16),
          begin_(begin),
          labels_(end - begin),
          samples_(op.x_BD.rows),
          width_(op.x_BD.cols) {
        ScratchCutter cut(scratch);
        w_ = cut.take<float>(labels_ * width_);
        z_ = cut.take<float>(labels_ * samples_);
        u_ = cut.take<float>(labels_ * width_);
        g16_ = cut.take<Bf16>(labels_ * samples_);
        noise_ = cut.take<std::uint16_t>(noise_row_capacity(width_));
        row_ = cut.take<float>(width_);
    }

    // Logits, then g, in place of one another. Returns the loss of the tile when wanted.
    double logits_and_gradient() {
        const Gemm shape{labels_, samples_, width_, width_, samples_, samples_, false, false, false};
        if (op_.drops_weights())
            load_dropped();
        else
            w16_ = load_rows(op_, begin_, labels_, bf16_, w_, row_).w16;
        if (bf16_)
            gemm(shape, w16_, batch_.xt16, z_);
        else
            gemm(shape, w_, batch_.xt, z_);
        const Positives mine = op_.positives.of_rows(begin_, begin_ + labels_);
        const auto place = [&](std::size_t i) {
            return (mine.rows[i] - begin_) * samples_ + mine.samples[i];
        };
        double loss = 0;
        if (op_.want_loss) {
            loss = softplus_sum(z_, labels_ * samples_);
            for (std::size_t i = 0; i < mine.rows.size(); ++i) {
                const float z = z_[place(i)];
                loss -= mine.weighted() ? softplus(z) - mine.weights[i] * softplus(-z) : z;
            }
        }
        sigmoid_all(z_, labels_ * samples_);
        for (std::size_t i = 0; i < mine.rows.size(); ++i) z_[place(i)] -= 1.0f;
        for (std::size_t i = 0; i < mine.weights.size(); ++i) z_[place(i)] *= mine.weights[i];
        if (batch_.x16 != nullptr) float_to_bf16(z_, g16_, labels_ * samples_);
        if (!bf16_) round_to_bf16(z_, labels_ * samples_);
        return loss;
    }

    // dx += g^T W with the weights from before the update.
    void add_input_gradient(float* dx, bool accumulate) const {
        const Gemm shape{samples_, width_, labels_, samples_, width_, width_, true, false, accumulate};
        if (bf16_)
            gemm(shape, g16_, w16_, dx);
        else
            gemm(shape, z_, w_, dx);
    }

    // W = SR(W (1 - lr decay) - lr g X). Returns the saturations.
    std::int64_t update() {
        const Gemm shape{labels_, width_, samples_, samples_, width_, width_, false, false, false};
        if (batch_.x16 != nullptr)  // g and X are BF16 whatever the weights are
            gemm(shape, g16_, batch_.x16, u_);
        else
            gemm(shape, z_, batch_.x, u_);
        const float keep = 1.0f - op_.lr * op_.weight_decay;
        const View& w = op_.w_LD;
        std::int64_t saturations = 0;
        for (std::int64_t l = 0; l < labels_; ++l) {
            const std::int64_t label = begin_ + l;
            float* u = u_ + l * width_;
            const float* before = w_ + l * width_;
            if (op_.drops_weights()) {  // the tile holds the dropped weights
                load_row(label, row_);
                before = row_;
                apply_dropout(op_.weight_dropout, op_.first_label + label, u, noise_, width_);
                drawn_ = false;
            } else if (bf16_) {
                bf16_to_float(w16_ + l * width_, row_, width_);
                before = row_;
            }
            if (op_.grid.used()) {
                saturations += update_on_grid(before, u, keep, label);
                continue;
            }
            if (const std::int64_t slot = op_.compensated_row(label); slot >= 0) {
                saturations += update_compensated(before, u, label, slot);
                continue;
            }
            update_row(before, u, keep, op_.lr, u, width_);
            if (w.dtype == DType::kF32) {
                store_floats(u, w, label * width_, width_);
                continue;
            }
            draw_noise(label);
            if (w.dtype == DType::kBf16)
                round_row(u, noise_, w.as<Bf16>() + label * width_, width_);
            else
                saturations += round_row(format_of(w.dtype), u, noise_, w.codes() + label * width_, width_);
        }
        return saturations;
    }

  private:
    // The stored weights of a label.
    void load_row(std::int64_t label, float* to) const { load_rows(op_, label, 1, false, to, nullptr); }

    // The tile as logits and dx see it: dropped or scaled, in BF16, held in FP32 where products are.
    void load_dropped() {
        auto* dropped = reinterpret_cast<Bf16*>(w_);
        for (std::int64_t l = 0; l < labels_; ++l) {
            float* row = bf16_ ? row_ : w_ + l * width_;
            load_row(begin_ + l, row);
            apply_dropout(op_.weight_dropout, op_.first_label + begin_ + l, row, noise_, width_);
            if (bf16_)
                float_to_bf16(row, dropped + l * width_, width_);
            else if (op_.w_LD.dtype != DType::kF32)
                round_to_bf16(row, width_);
        }
        w16_ = dropped;
    }

    // The noise of a label's row. What all rows share stays there until something else is drawn.
    void draw_noise(std::int64_t label) {
        if (drawn_) return;
        rounding_row(op_.noise, op_.rounding, op_.first_label + label, width_, noise_);
        drawn_ = is_shared(op_.noise);
    }

    KahanRates kahan_rates() const { return {op_.lr, op_.lr * op_.weight_decay}; }
    Bf16* compensation(std::int64_t slot) const {
        return slot < 0 ? nullptr : op_.compensation_KD.as<Bf16>() + slot * width_;
    }

    // A row by Kahan; u, the sums, is overwritten. Returns the saturations.
    std::int64_t update_compensated(const float* before, float* u, std::int64_t label, std::int64_t slot) {
        const View& w = op_.w_LD;
        const KahanRates rates = kahan_rates();
        Bf16* c = compensation(slot);
        if (w.dtype == DType::kBf16) {
            kahan_row(rates, before, u, c, width_);
            float_to_bf16(u, w.as<Bf16>() + label * width_, width_);
            return 0;
        }
        const MiniFloat& format = format_of(w.dtype);
        const std::int64_t saturations = kahan_row(format, rates, before, u, c, width_);
        std::fill_n(noise_, width_, std::uint16_t{0});  // what is representable stays itself
        drawn_ = false;
        round_row(format, u, noise_, w.codes() + label * width_, width_);
        return saturations;
    }

    // A row on the label's grid, whose exponent then moves; v, the sums, is overwritten. Returns the
    // saturations.
    std::int64_t update_on_grid(const float* weights, float* v, float keep, std::int64_t label) {
        Bf16* const c = compensation(op_.compensated_row(label));
        std::uint8_t* stored = op_.grid.row_scaled ? op_.row_exponents_L1.codes() + label : nullptr;
        const int before = stored ? decode_row_exponent(*stored) : 0;
        GridRow grid = grid_row(op_.grid, before);
        std::int64_t saturations = 0;
        if (c != nullptr) {
            saturations = kahan_row(grid, op_.grid.row_scaled, kahan_rates(), weights, v, c, width_);
        } else {
            update_row(weights, v, keep, op_.lr, v, width_);
            if (!op_.grid.nearest) draw_noise(label);
            saturations = round_row(grid, op_.grid.nearest, noise_, v, width_);
        }
        if (stored != nullptr) {
            const float largest = largest_size(v, width_);
            const int after =
                moved_row_exponent(op_.grid, before, saturations > 0, largest, op_.rounding.step);
            *stored = encode_row_exponent(after);
            grid = grid_row(op_.grid, after);
            if (after > before && c != nullptr) {
                move_compensated(grid, v, c, width_);
            } else if (after > before) {
                noise_row(op_.rescaling, op_.first_label + label, width_, noise_);
                drawn_ = false;
                (void)round_row(grid, op_.grid.nearest, noise_, v, width_);
            }
        }
        if (op_.w_LD.dtype == DType::kU8)
            encode_row(grid, op_.grid.bits(), v, op_.w_LD.codes() + label * op_.w_LD.cols, width_);
        else
            store_floats(v, op_.w_LD, label * width_, width_);
        return saturations;
    }

    const HeadStep& op_;
    const StagedBatch& batch_;
    bool bf16_;
    std::int64_t begin_, labels_, samples_, width_;
    float *w_, *z_, *u_, *row_;
    Bf16* g16_;
    const Bf16* w16_ = nullptr;
    std::uint16_t* noise_;
    bool drawn_ = false;  // noise_ holds what all rows share
};

}  // namespace

HeadStepResult CpuBackend::head_step(const HeadStep& op) {
    const std::int64_t labels = op.w_LD.rows, samples = op.x_BD.rows, width = op.x_BD.cols;
    const std::int64_t tiles = (labels + kLabelTile - 1) / kLabelTile;
    const std::int64_t slices = std::min(kSlices, tiles);
    const bool bf16 = bf16_products(op.w_LD.dtype) && op.x_BD.dtype == DType::kBf16;
    const Bf16* x16 = bf16_products(op.x_BD.dtype) ? op.x_BD.as<Bf16>() : nullptr;
    const StagedBatch batch =
        stage_batch(context_.threads(), op.x_BD, casts_to_e4m3(op), bf16, x16, shared_scratch_.data);

    HeadStepResult result;
    double losses[kSlices] = {};
    std::int64_t saturations[kSlices] = {};
    const std::int64_t chunks = std::clamp<std::int64_t>(op.num_chunks, 1, std::max<std::int64_t>(tiles, 1));
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::int64_t first = tiles * chunk / chunks, last = tiles * (chunk + 1) / chunks;
        parallel_for(slices, [&](std::int64_t slice) {
            float* dx = slices_.as<float>() + slice * samples * width;
            // Tiles of this slice in this chunk, in order: tile = slice (mod kSlices).
            std::int64_t t = first + (slice - first % kSlices + kSlices) % kSlices;
            for (; t < last; t += kSlices) {
                const std::int64_t begin = t * kLabelTile, end = std::min(labels, begin + kLabelTile);
                Tile tile(op, batch, bf16, begin, end, thread_scratch(head_tile_bytes(samples, width)));
                losses[slice] += tile.logits_and_gradient();
                if (!op.dx_BD.empty()) tile.add_input_gradient(dx, t >= kSlices);
                saturations[slice] += tile.update();
            }
        });
    }
    if (tiles == 0) fill_zero(op.dx_BD);
    parallel_ranges(tiles == 0 || op.dx_BD.empty() ? 0 : samples * width, 1 << 14,
                    [&](std::int64_t begin, std::int64_t end) {
                        float* sum = slices_.as<float>() + begin;
                        for (std::int64_t slice = 1; slice < slices; ++slice)
                            add_to(sum, slices_.as<float>() + slice * samples * width + begin, end - begin);
                        store_floats(sum, op.dx_BD, begin, end - begin);
                    });
    for (std::int64_t slice = 0; slice < slices; ++slice) {
        result.loss_sum += losses[slice];
        result.saturations += saturations[slice];
    }
    if (!op.dx_BD.empty() && has_non_finite(op.dx_BD))
        result.non_finite = static_cast<std::int64_t>(op.rounding.step);
    return result;
}

}  // namespace elmo::cpu
