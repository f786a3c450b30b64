// The memory of the BERT family: what is kept from the forward to the backward, which depends on what each
// layer's backward computes again, and the buffers that all layers share in the forward and in the backward.
#include <fmt/format.h>

#include <algorithm>

#include "model/bert_encoder.h"

namespace elmo {
namespace {

// Plans know shapes before there is memory.
bool is_planned(const View& view) {
    return view.cols > 0;
}

View columns(const View& buffer, std::int64_t cols) {
    return {buffer.data, buffer.dtype, buffer.rows, cols};
}

}  // namespace

void BertEncoder::allocate_activations(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width;
    kept_.assign(static_cast<std::size_t>(spec_.layers), {});
    embedding_sum_TD_ = embedding_stats_T2_ = embedded_TD_ = {};
    if (keeps(workload)) {
        embedding_sum_TD_ = arena.allocate("encoder/embeddings/sum", spec_.dtype, T, D);
        embedding_stats_T2_ = arena.allocate("encoder/embeddings/stats", stats_dtype(), T, 2);
        if (recompute_.front() == Recompute::kNone)
            embedded_TD_ = arena.allocate("encoder/embeddings/output", spec_.dtype, T, D);
        for (std::size_t i = 0; i < kept_.size(); ++i) {
            const std::string name = fmt::format("encoder/layer.{}", i);
            if (recompute_[i] != Recompute::kLayer)
                kept_[i] = allocate_layer(arena, workload, name, recompute_[i]);
            // The next layer's input; `cheap` makes it from the sum.
            if (recompute_[i] != Recompute::kCheap && i + 1 < kept_.size())
                kept_[i].output_TD = arena.allocate(name + "/output", spec_.dtype, T, D);
        }
    }
    pooled_BD_ = arena.allocate("encoder/pooled", output_dtype(), workload.batch, D);
}

BertEncoder::LayerActivations BertEncoder::allocate_layer(Arena& arena, const Workload& workload,
                                                          const std::string& name, Recompute mode) const {
    const auto take = [&](const char* what, DType dtype, std::int64_t cols) {
        return arena.allocate(name + "/" + what, dtype, workload.tokens, cols);
    };
    const bool everything = mode == Recompute::kNone;
    const std::int64_t D = spec_.width, I = spec_.intermediate;
    LayerActivations a;
    a.qkv_T3D = take("qkv", spec_.dtype, 3 * D);
    if (everything) a.context_TD = take("context", spec_.dtype, D);
    a.lse_TH = take("lse", stats_dtype(), spec_.heads);
    a.attention_sum_TD = take("attention_sum", spec_.dtype, D);
    a.attention_stats_T2 = take("attention_stats", stats_dtype(), 2);
    if (everything) a.attended_TD = take("attended", spec_.dtype, D);
    a.pre_TI = take("pre_gelu", spec_.dtype, I);
    if (everything) a.gelu_TI = take("gelu", spec_.dtype, I);
    a.output_sum_TD = take("output_sum", spec_.dtype, D);
    a.output_stats_T2 = take("output_stats", stats_dtype(), 2);
    return a;
}

// One buffer serves what is never alive together: qkv, then the gelu; `context`, then `attended`; the sum
// before one norm, then before the other; a layer's input, then its output.
void BertEncoder::allocate_forward(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width, I = spec_.intermediate;
    const auto any = [&](View LayerActivations::*view) {
        return std::any_of(kept_.begin(), kept_.end(),
                           [&](const LayerActivations& a) { return !is_planned(a.*view); });
    };
    const std::int64_t wide_cols = any(&LayerActivations::qkv_T3D) ? std::max(3 * D, I) : I;
    View wide, narrow, sum, stats;
    if (any(&LayerActivations::gelu_TI)) {
        wide = arena.allocate("encoder/forward/wide", spec_.dtype, T, wide_cols);
        narrow = arena.allocate("encoder/forward/attended", spec_.dtype, T, D);
    }
    if (any(&LayerActivations::output_sum_TD)) {
        sum = arena.allocate("encoder/forward/sum", spec_.dtype, T, D);
        stats = arena.allocate("encoder/forward/stats", stats_dtype(), T, 2);
    }
    const View x = arena.allocate("encoder/forward/output", spec_.dtype, T, D);

    const auto kept_or = [](const View& kept, const View& shared) {
        return is_planned(kept) ? kept : shared;
    };
    forward_embedding_sum_TD_ = kept_or(embedding_sum_TD_, sum);
    forward_embedding_stats_T2_ = kept_or(embedding_stats_T2_, stats);
    forward_embedded_TD_ = kept_or(embedded_TD_, x);
    forward_ = kept_;
    for (LayerActivations& a : forward_) {
        a.qkv_T3D = kept_or(a.qkv_T3D, columns(wide, 3 * D));
        a.context_TD = kept_or(a.context_TD, narrow);
        a.attention_sum_TD = kept_or(a.attention_sum_TD, sum);
        a.attention_stats_T2 = kept_or(a.attention_stats_T2, stats);
        a.attended_TD = kept_or(a.attended_TD, narrow);
        a.gelu_TI = kept_or(a.gelu_TI, columns(wide, I));
        a.output_sum_TD = kept_or(a.output_sum_TD, sum);
        a.output_stats_T2 = kept_or(a.output_stats_T2, stats);
        a.output_TD = kept_or(a.output_TD, x);
    }
}

void BertEncoder::allocate_backward_buffers(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width, I = spec_.intermediate;
    const auto any = [&](Recompute mode) {
        return std::find(recompute_.begin(), recompute_.end(), mode) != recompute_.end();
    };
    backward_ = {};
    backward_.dpooled_BD = arena.allocate("encoder/backward/dpooled", spec_.dtype, workload.batch, D);
    backward_.dx_TD = arena.allocate("encoder/backward/dx", spec_.dtype, T, D);
    backward_.dbranch_TD = arena.allocate("encoder/backward/dbranch", spec_.dtype, T, D);
    backward_.dinput_TD = arena.allocate("encoder/backward/dinput", spec_.dtype, T, D);
    backward_.wide = arena.allocate("encoder/backward/wide", spec_.dtype, T, std::max(3 * D, I));
    if (!any(Recompute::kCheap) && !any(Recompute::kLayer)) return;
    backward_.narrow_TD = arena.allocate("encoder/backward/attended", spec_.dtype, T, D);
    backward_.gelu = arena.allocate("encoder/backward/gelu", spec_.dtype, T, std::max(D, I));
    if (!any(Recompute::kLayer)) return;
    LayerActivations& layer = backward_.layer;
    layer = allocate_layer(arena, workload, "encoder/backward/layer", Recompute::kCheap);
    layer.context_TD = arena.allocate("encoder/backward/layer/context", spec_.dtype, T, D);
    layer.attended_TD = backward_.narrow_TD;
    layer.gelu_TI = columns(backward_.gelu, I);
    layer.output_TD = backward_.dbranch_TD;  // not wanted again, and its place is free
}

}  // namespace elmo
