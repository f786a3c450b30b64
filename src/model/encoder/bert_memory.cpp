// The memory of the BERT family: what is kept from the forward to the backward, which depends on what each
// layer's backward computes again, and the buffers that all layers share in the forward and in the backward.
//
// The peak is around the last layer, between its forward and its backward. So both get little memory besides
// what is kept, and reuse the memory of what is not alive. When the layers below run, the last layer's
// activations are dead, and they compute theirs again in that memory.
#include <fmt/format.h>

#include <algorithm>

#include "model/encoder/bert_encoder.h"

namespace elmo {
namespace {

// Plans know shapes before there is memory.
bool is_planned(const View& view) {
    return view.cols > 0;
}

View columns(const View& buffer, std::int64_t cols) {
    return {buffer.data, buffer.dtype, buffer.rows, cols};
}

// A matrix of bytes behind the first `used` bytes of a buffer; without columns where it has no room there.
View bytes_behind(const View& buffer, std::int64_t used, std::int64_t rows, std::int64_t cols) {
    const std::int64_t begin = (used + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    if (begin + rows * cols > buffer.bytes()) return {};
    auto* data = static_cast<std::byte*>(buffer.data);
    return {data == nullptr ? nullptr : data + begin, DType::kU8, rows, cols};
}

}  // namespace

void BertEncoder::allocate_activations(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width;
    kept_.assign(static_cast<std::size_t>(spec_.layers), {});
    embedding_sum_TD_ = embedding_stats_T2_ = embedded_TD_ = stream_TD_ = relative_bias_grad_RH_ = {};
    pooled_BD_ = allocate_pooled(arena, workload.batch);
    if (!keeps(workload)) return;
    embedding_stats_T2_ = arena.allocate("encoder/embeddings/stats", stats_dtype(), T, 2);
    if (spec_.has_relative_bias())
        relative_bias_grad_RH_ =
            arena.allocate("encoder/relative_bias_gradient", stats_dtype(), kRelativeBuckets, spec_.heads);
    if (recompute_.front() == Recompute::kNone) {
        embedding_sum_TD_ = arena.allocate("encoder/embeddings/sum", spec_.dtype, T, D);
        if (!keeps_codes(workload))
            embedded_TD_ = arena.allocate("encoder/embeddings/output", spec_.dtype, T, D);
    }
    stream_TD_ = arena.allocate("encoder/stream", spec_.dtype, T, D);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
        const std::string name = fmt::format("encoder/layer.{}", i);
        const bool followed = keeps_codes(workload) && i + 1 < kept_.size();
        kept_[i] = allocate_layer(arena, workload, name, recompute_[i],
                                  followed && keeps_input_codes(recompute_[i + 1]));
        // The next layer's input; others make it from the sum, or have its codes.
        if (recompute_[i] == Recompute::kNone && !keeps_codes(workload) && i + 1 < kept_.size())
            kept_[i].output_TD = arena.allocate(name + "/output", spec_.dtype, T, D);
        // In the place of layer 0 the embeddings' sum is computed again.
        if (i == 0) dead_for_group_0_ = arena.mark();
    }
}

BertEncoder::LayerActivations BertEncoder::allocate_layer(Arena& arena, const Workload& workload,
                                                          const std::string& name, Recompute mode,
                                                          bool next_has_input) const {
    const auto take = [&](const char* what, DType dtype, std::int64_t cols) {
        return arena.allocate(name + "/" + what, dtype, workload.tokens, cols);
    };
    const auto take_codes = [&](const char* what, std::int64_t cols) {
        return arena.allocate(name + "/" + what, DType::kU8, in_sixteens(workload.tokens), cols);
    };
    const bool everything = mode == Recompute::kNone, codes = keeps_codes(workload);
    // Only codes, and all that the backward reads.
    const bool in_bytes = codes && mode == Recompute::kCompact;
    const std::int64_t D = spec_.width, I = spec_.intermediate;
    LayerActivations a;
    if (codes && keeps_input_codes(mode)) a.input_codes = take_codes("input_codes", D);
    if (mode == Recompute::kCompact || mode == Recompute::kCompactWide) {
        a.qkv_codes = take("qkv_codes", DType::kU8, 3 * D);
        a.qkv_exponents = take("qkv_exponents", DType::kU8, 3 * spec_.heads);
    } else if (mode < Recompute::kWider) {
        a.qkv_T3D = take("qkv", spec_.dtype, 3 * D);
    }
    if (keeps_context(mode, workload.longest)) {
        a.context_TD = take("context", spec_.dtype, D);
        a.lse_TH = take("lse", stats_dtype(), spec_.heads);
        const std::int64_t bytes = backend_.attention_mask_bytes(workload);
        if (bytes > 0 && attention_dropout(0, true).threshold() > 0)
            a.attention_mask = arena.allocate(name + "/attention_mask", DType::kU8, 1, bytes);
    }
    if (in_bytes)
        a.attention_normal_TD = take("attention_normal", DType::kE4M3, D);
    else if (mode < Recompute::kLayer)
        a.attention_sum_TD = take("attention_sum", spec_.dtype, D);
    if (mode < Recompute::kLayer) a.attention_stats_T2 = take("attention_stats", stats_dtype(), 2);
    if (codes) {
        if (everything || in_bytes) a.attended_codes = take_codes("attended_codes", D);
        if (in_bytes)
            a.pre_TI = take("pre_gelu_codes", DType::kU8, I);
        else if (mode < Recompute::kWide)
            a.gelu_codes = take_codes("gelu_codes", 2 * I);
    } else {
        if (everything) a.attended_TD = take("attended", spec_.dtype, D);
        if (keeps_pre_codes(mode))
            a.pre_TI = take("pre_gelu_codes", DType::kU8, I);
        else if (mode < Recompute::kWide)
            a.pre_TI = take("pre_gelu", spec_.dtype, I);
        if (everything) a.gelu_TI = take("gelu", spec_.dtype, I);
    }
    if (codes && is_compact(mode) && next_has_input)
        a.output_normal_TD = take("output_normal", DType::kE4M3, D);
    else
        a.output_sum_TD = take("output_sum", spec_.dtype, D);
    a.output_stats_T2 = take("output_stats", stats_dtype(), 2);
    return a;
}

// One buffer serves what is never alive together: qkv, then the gelu, then the last output; `context`, then
// `attended`; the sum before one norm, then before the other; a layer's input, then its output. A layer that
// keeps the sum before its last norm has its input there until then; layer 0 has the embeddings' sum where
// the sum before its first norm will be. Layers that keep no sums have them, and their inputs, where the last
// layer's will be.
void BertEncoder::allocate_forward(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width, I = spec_.intermediate;
    const auto any = [&](View LayerActivations::*view) {
        return std::any_of(kept_.begin(), kept_.end(),
                           [&](const LayerActivations& a) { return !is_planned(a.*view); });
    };
    const auto kept_or = [](const View& kept, const View& shared) {
        return is_planned(kept) ? kept : shared;
    };
    const LayerActivations& last = kept_.back();
    View wide, narrow = stream_TD_, sum = last.attention_sum_TD, stats, x;
    if (any(&LayerActivations::gelu_TI)) {
        const std::int64_t qkv_cols = any(&LayerActivations::qkv_T3D) ? 3 * D : D;
        wide = arena.allocate("encoder/forward/wide", spec_.dtype, T, std::max(qkv_cols, I));
        if (!is_planned(narrow)) narrow = arena.allocate("encoder/forward/attended", spec_.dtype, T, D);
    }
    if (!is_planned(sum)) sum = arena.allocate("encoder/forward/sum", spec_.dtype, T, D);
    if (any(&LayerActivations::attention_stats_T2))
        stats = arena.allocate("encoder/forward/stats", stats_dtype(), T, 2);
    if (!is_planned(wide) || !is_planned(last.output_sum_TD))
        x = arena.allocate("encoder/forward/output", spec_.dtype, T, D);
    else
        x = columns(wide, D);  // only of the last layer

    forward_room_ = {};
    if (keeps_codes(workload))
        forward_room_ = arena.allocate("encoder/forward/codes", DType::kU8, in_sixteens(T), std::max(D, I));

    forward_embedding_sum_TD_ = kept_or(embedding_sum_TD_, kept_or(kept_.front().attention_sum_TD, sum));
    forward_embedding_stats_T2_ = kept_or(embedding_stats_T2_, stats);
    const View between = kept_or(last.output_sum_TD, x);
    forward_embedded_TD_ = kept_or(embedded_TD_, kept_or(kept_.front().output_sum_TD, between));
    forward_ = kept_;
    for (std::size_t i = 0; i < forward_.size(); ++i) {
        LayerActivations& a = forward_[i];
        a.qkv_T3D = kept_or(a.qkv_T3D, columns(wide, 3 * D));
        a.context_TD = kept_or(a.context_TD, narrow);
        a.attention_sum_TD = kept_or(a.attention_sum_TD, sum);
        a.attention_stats_T2 = kept_or(a.attention_stats_T2, stats);
        a.attended_TD = kept_or(a.attended_TD, narrow);
        a.gelu_TI = kept_or(a.gelu_TI, columns(wide, I));
        // Slopes that are not kept: where those of the last layer will be.
        a.gelu_codes = kept_or(a.gelu_codes, last.gelu_codes);
        a.output_sum_TD = kept_or(a.output_sum_TD, sum);
        a.output_stats_T2 = kept_or(a.output_stats_T2, stats);
        const bool has_next = i + 1 < kept_.size();
        a.output_TD = kept_or(a.output_TD, has_next ? kept_or(kept_[i + 1].output_sum_TD, between) : x);
    }
}

// A layer's places in the order in which its backward uses them: the gradient of the branch goes where
// output_sum was, the gelu where pre was; then dinput where the gelu was; `attended` where output_sum was and
// the other branch's gradient where attention_sum was; `context` where output_sum was (the last layer's,
// where a layer kept no sums); at last the layer's input where attention_sum was, and its gradient, to be
// added to the stream, where qkv was. A layer below the last finds the last one's places free for what it
// computes again, and for the gelu of codes; codes of pre-activations that it computes again go behind that
// gradient, where qkv will be later. With FP8 products the pre-activations are where the gelu's gradient will
// be until they are codes; codes of them become the gelu's where the last layer had its own; the codes of the
// first branch's gradient go where dinput will be, those of later gradients where the last layer's gelu had
// its codes and slopes.
void BertEncoder::allocate_backward_buffers(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width, I = spec_.intermediate;
    const LayerActivations& last = kept_.back();
    View lse = last.lse_TH;
    View pre_codes = bytes_behind(last.qkv_T3D, T * D * size_of(spec_.dtype), T, I);
    backward_ = {};
    backward_.dpooled_BD = arena.allocate("encoder/backward/dpooled", spec_.dtype, workload.batch, D);
    backward_.wide = arena.allocate("encoder/backward/wide", spec_.dtype, T, std::max(3 * D, I));
    if (keeps_codes(workload)) {
        backward_.dinput_TD = arena.allocate("encoder/backward/dinput", spec_.dtype, in_sixteens(T), D);
        backward_.codes_TD = arena.allocate("encoder/backward/codes", DType::kU8, in_sixteens(T), D);
        if (I < 3 * D)
            backward_.room = arena.allocate("encoder/backward/room", DType::kU8, in_sixteens(T), 6 * D);
    } else if (I < D) {
        backward_.dinput_TD = arena.allocate("encoder/backward/dinput", spec_.dtype, T, D);
    }
    if (!is_planned(lse)) lse = arena.allocate("encoder/backward/lse", stats_dtype(), T, spec_.heads);

    for (std::size_t i = 0; i < kept_.size(); ++i) {
        LayerActivations a = kept_[i];
        if (recompute_[i] >= Recompute::kWide)
            a.attended_TD = is_planned(a.output_sum_TD) ? last.output_sum_TD : last.attention_sum_TD;
        if (!is_planned(a.qkv_T3D)) a.qkv_T3D = last.qkv_T3D;
        if (!is_planned(a.attention_sum_TD)) a.attention_sum_TD = last.attention_sum_TD;
        if (!is_planned(a.attention_stats_T2)) a.attention_stats_T2 = last.attention_stats_T2;
        if (!is_planned(a.output_sum_TD)) a.output_sum_TD = last.output_sum_TD;
        if (!is_planned(a.gelu_codes)) a.gelu_codes = last.gelu_codes;
        if (is_compact(recompute_[i]) && !is_planned(a.pre_TI)) {
            if (!is_planned(pre_codes))
                pre_codes = arena.allocate("encoder/backward/pre_gelu_codes", DType::kU8, T, I);
            a.pre_TI = pre_codes;
        }
        if (!is_planned(a.pre_TI)) a.pre_TI = last.pre_TI;
        if (recompute_[i] != Recompute::kNone)
            a.gelu_TI = a.pre_TI.dtype == DType::kU8 ? last.pre_TI : a.pre_TI;
        if (!is_planned(a.attended_TD)) a.attended_TD = a.output_sum_TD;
        if (!is_planned(a.context_TD)) a.context_TD = a.output_sum_TD;
        if (!is_planned(a.lse_TH)) a.lse_TH = lse;
        if (!is_planned(a.attention_mask)) a.attention_mask = last.attention_mask;
        backward_.layers.push_back(a);
    }
}

}  // namespace elmo
