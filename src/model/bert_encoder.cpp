#include "model/bert_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/hf_config.h"
#include "model/streams.h"

namespace elmo {
namespace {

// The same buffer as a matrix of other columns.
View reshaped(const View& buffer, std::int64_t rows, std::int64_t cols) {
    assert(rows * cols <= buffer.size());
    return {buffer.data, buffer.dtype, rows, cols};
}

}  // namespace

BertEncoder::BertEncoder(EncoderSpec spec, Backend& backend) : Encoder(std::move(spec), backend) {
    add_parameters();
}

std::string BertEncoder::config_json() const {
    return model_config_text(spec_);
}

void BertEncoder::describe_layers(Workload& workload) const {
    workload.widest = std::max({workload.widest, 3 * spec_.width, spec_.intermediate});
    workload.largest_weight = std::max(workload.largest_weight, workload.widest * spec_.width);
}

void BertEncoder::allocate_activations(Arena& arena, const Workload& workload) {
    kept_ = keeps(workload);
    const std::int64_t T = workload.tokens, D = spec_.width;
    embedding_sum_TD_ = arena.allocate("encoder/embeddings/sum", spec_.dtype, T, D);
    embedding_stats_T2_ = arena.allocate("encoder/embeddings/stats", stats_dtype(), T, 2);
    embedded_TD_ = arena.allocate("encoder/embeddings/output", spec_.dtype, T, D);
    activations_.clear();
    if (kept_)
        for (std::int64_t i = 0; i < spec_.layers; ++i)
            activations_.push_back(allocate_layer(arena, workload, fmt::format("encoder/layer.{}", i)));
    else
        activations_.push_back(allocate_layer(arena, workload, "encoder/layer"));
    pooled_BD_ = arena.allocate("encoder/pooled", output_dtype(), workload.batch, D);
}

BertEncoder::LayerActivations BertEncoder::allocate_layer(Arena& arena, const Workload& workload,
                                                          const std::string& name) const {
    const auto take = [&](const char* what, DType dtype, std::int64_t cols) {
        return arena.allocate(name + "/" + what, dtype, workload.tokens, cols);
    };
    const std::int64_t D = spec_.width, I = spec_.intermediate;
    LayerActivations a;
    a.qkv_T3D = take("qkv", spec_.dtype, 3 * D);
    a.context_TD = take("context", spec_.dtype, D);
    if (kept_) a.lse_TH = take("lse", stats_dtype(), spec_.heads);
    a.attention_sum_TD = take("attention_sum", spec_.dtype, D);
    a.attention_stats_T2 = take("attention_stats", stats_dtype(), 2);
    a.attended_TD = take("attended", spec_.dtype, D);
    if (kept_) a.pre_TI = take("pre_gelu", spec_.dtype, I);
    a.gelu_TI = take("gelu", spec_.dtype, I);
    if (kept_) {
        a.output_sum_TD = take("output_sum", spec_.dtype, D);
        a.output_stats_T2 = take("output_stats", stats_dtype(), 2);
        a.output_TD = take("output", spec_.dtype, D);
    } else {  // one layer's buffers serve all: the output goes where the input was
        a.output_sum_TD = a.attention_sum_TD;
        a.output_stats_T2 = a.attention_stats_T2;
        a.output_TD = embedded_TD_;
    }
    return a;
}

void BertEncoder::allocate_backward(Arena& arena, const Workload& workload) {
    const std::int64_t T = workload.tokens, D = spec_.width;
    if (!keeps(workload)) return;
    backward_.dpooled_BD = arena.allocate("encoder/backward/dpooled", spec_.dtype, workload.batch, D);
    backward_.dx_TD = arena.allocate("encoder/backward/dx", spec_.dtype, T, D);
    backward_.dbranch_TD = arena.allocate("encoder/backward/dbranch", spec_.dtype, T, D);
    backward_.dinput_TD = arena.allocate("encoder/backward/dinput", spec_.dtype, T, D);
    backward_.wide =
        arena.allocate("encoder/backward/wide", spec_.dtype, T, std::max(3 * D, spec_.intermediate));
}

Dropout BertEncoder::attention_dropout(std::int64_t layer, bool inside) const {
    return dropout(spec_.attention_dropout, streams::kLayerDropout + 4 * static_cast<std::uint32_t>(layer),
                   inside);
}
Dropout BertEncoder::attended_dropout(std::int64_t layer, bool inside) const {
    return dropout(spec_.family == "distilbert" ? 0.0f : spec_.hidden_dropout,
                   streams::kLayerDropout + 4 * static_cast<std::uint32_t>(layer) + 1, inside);
}
Dropout BertEncoder::output_dropout(std::int64_t layer, bool inside) const {
    return dropout(spec_.hidden_dropout, streams::kLayerDropout + 4 * static_cast<std::uint32_t>(layer) + 2,
                   inside);
}

void BertEncoder::linear(const Pair& layer, View x_TK, View y_TN, Activation activation, View pre_TN) {
    backend_.linear_forward(
        {x_TK, parameters_[layer.weight].w, parameters_[layer.bias].w, y_TN, activation, pre_TN});
}

void BertEncoder::norm(const Pair& layer, View a_TD, View residual_TD, const Dropout& dropout, View y_TD,
                       View stats_T2) {
    backend_.residual_norm_forward({a_TD, residual_TD, dropout, parameters_[layer.weight].w,
                                    parameters_[layer.bias].w, spec_.norm_epsilon, a_TD, y_TD, stats_T2});
}

void BertEncoder::linear_backward(const Pair& layer, View dy_TN, View x_TK, View dx_TK, bool accumulate) {
    const Parameter &weight = parameters_[layer.weight], &bias = parameters_[layer.bias];
    backend_.linear_backward({dy_TN, x_TK, weight.w, dx_TK, weight.grad, bias.grad, accumulate});
}

View BertEncoder::norm_backward(const Pair& layer, View dy_TD, View sum_TD, View stats_T2,
                                const Dropout& dropout, View branch_TD, bool accumulate) {
    const Parameter &weight = parameters_[layer.weight], &bias = parameters_[layer.bias];
    const bool dropped = dropout.threshold() > 0;
    backend_.residual_norm_backward({dy_TD, sum_TD, stats_T2, weight.w, dropout, dy_TD,
                                     dropped ? branch_TD : View{}, weight.grad, bias.grad, accumulate});
    return dropped ? branch_TD : dy_TD;
}

void BertEncoder::layer_forward(const LayerWeights& w, const LayerActivations& a, View x_TD,
                                const TextBatch& batch, std::int64_t layer, bool inside) {
    const std::int64_t T = batch.num_tokens();
    const View qkv = a.qkv_T3D.first(T), context = a.context_TD.first(T), attended = a.attended_TD.first(T);
    const View attention_sum = a.attention_sum_TD.first(T), output_sum = a.output_sum_TD.first(T);
    const View gelu = a.gelu_TI.first(T);
    linear(w.qkv, x_TD, qkv);
    backend_.attention_forward({qkv, batch.offsets, spec_.heads, attention_dropout(layer, inside), context,
                                kept_ ? a.lse_TH.first(T) : View{}});
    linear(w.out, context, attention_sum);
    norm(w.attention_norm, attention_sum, x_TD, attended_dropout(layer, inside), attended,
         a.attention_stats_T2.first(T));
    linear(w.up, attended, gelu, Activation::kGelu, kept_ ? a.pre_TI.first(T) : View{});
    linear(w.down, gelu, output_sum);
    norm(w.output_norm, output_sum, attended, output_dropout(layer, inside), a.output_TD.first(T),
         a.output_stats_T2.first(T));
}

View BertEncoder::run_forward(const TextBatch& batch, bool training) {
    const std::int64_t T = batch.num_tokens();
    const View pooled = pooled_BD_.first(batch.size());
    if (T == 0) {  // texts without tokens have zero vectors
        backend_.fill_zero(pooled);
        return pooled;
    }
    const bool inside = training && !spec_.frozen;
    const View type = spec_.types > 0 ? parameters_[type_].w.first(1) : View{};
    View x = embedded_TD_.first(T);
    backend_.embed_forward({batch.tokens, batch.offsets, parameters_[word_].w, parameters_[position_].w, type,
                            spec_.position_base, embedding_sum_TD_.first(T)});
    norm(embedding_norm_, embedding_sum_TD_.first(T), {}, {}, x, embedding_stats_T2_.first(T));
    const Dropout embedding_dropout = dropout(spec_.hidden_dropout, streams::kEmbeddingDropout, inside);
    if (embedding_dropout.threshold() > 0) backend_.dropout({x, embedding_dropout});
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
        const LayerActivations& a = activations_[kept_ ? static_cast<std::size_t>(i) : 0];
        layer_forward(layers_[static_cast<std::size_t>(i)], a, x, batch, i, inside);
        x = a.output_TD.first(T);
    }
    backend_.pool_forward({x, batch.offsets, spec_.pooling,
                           dropout(spec_.pooled_dropout, streams::kPooledDropout, training), pooled});
    return pooled;
}

void BertEncoder::layer_backward(const LayerWeights& w, const LayerActivations& a, View x_TD,
                                 const TextBatch& batch, std::int64_t layer, View dx_TD, bool accumulate) {
    const std::int64_t T = batch.num_tokens();
    const View dgelu = reshaped(backward_.wide, T, spec_.intermediate);
    const View dqkv = reshaped(backward_.wide, T, 3 * spec_.width);
    const View branch = backward_.dbranch_TD.first(T), dinput = backward_.dinput_TD.first(T);

    View da = norm_backward(w.output_norm, dx_TD, a.output_sum_TD.first(T), a.output_stats_T2.first(T),
                            output_dropout(layer, true), branch, accumulate);
    linear_backward(w.down, da, a.gelu_TI.first(T), dgelu, accumulate);
    backend_.gelu_backward({a.pre_TI.first(T), dgelu, {}});
    linear_backward(w.up, dgelu, a.attended_TD.first(T), dinput, accumulate);
    backend_.add({dx_TD, dinput});

    da = norm_backward(w.attention_norm, dx_TD, a.attention_sum_TD.first(T), a.attention_stats_T2.first(T),
                       attended_dropout(layer, true), branch, accumulate);
    linear_backward(w.out, da, a.context_TD.first(T), dinput, accumulate);
    backend_.attention_backward({dinput, a.qkv_T3D.first(T), a.context_TD.first(T), a.lse_TH.first(T),
                                 batch.offsets, spec_.heads, attention_dropout(layer, true), dqkv});
    linear_backward(w.qkv, dqkv, x_TD, dinput, accumulate);
    backend_.add({dx_TD, dinput});
}

void BertEncoder::run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate) {
    const std::int64_t T = batch.num_tokens();
    if (T == 0) {
        if (!accumulate)
            for (const Parameter& p : parameters_) backend_.fill_zero(p.grad);
        return;
    }
    const View dpooled =
        dpooled_BD.dtype == spec_.dtype ? dpooled_BD : backward_.dpooled_BD.first(batch.size());
    if (dpooled.data != dpooled_BD.data) backend_.cast(dpooled, dpooled_BD);
    const View dx = backward_.dx_TD.first(T);
    backend_.pool_backward({dpooled, batch.offsets, spec_.pooling,
                            dropout(spec_.pooled_dropout, streams::kPooledDropout, true), dx});
    for (std::int64_t i = spec_.layers; i-- > 0;) {
        const View x = i > 0 ? activations_[static_cast<std::size_t>(i - 1)].output_TD : embedded_TD_;
        layer_backward(layers_[static_cast<std::size_t>(i)], activations_[static_cast<std::size_t>(i)],
                       x.first(T), batch, i, dx, accumulate);
    }
    const Dropout embedding_dropout = dropout(spec_.hidden_dropout, streams::kEmbeddingDropout, true);
    if (embedding_dropout.threshold() > 0) backend_.dropout({dx, embedding_dropout});
    norm_backward(embedding_norm_, dx, embedding_sum_TD_.first(T), embedding_stats_T2_.first(T), {}, {},
                  accumulate);
    // Only row 0 of the type table is ever used: the gradient of the others stays the arena's zero.
    backend_.embed_backward(
        {dx, batch.tokens, batch.offsets, parameters_[word_].grad, parameters_[position_].grad,
         spec_.types > 0 ? parameters_[type_].grad.first(1) : View{}, spec_.position_base, accumulate});
}

}  // namespace elmo
