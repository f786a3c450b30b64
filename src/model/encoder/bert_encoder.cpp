#include "model/encoder/bert_encoder.h"

#include <algorithm>

#include "model/encoder/hf_config.h"
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
    workload.relative_bias = spec_.has_relative_bias();
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

void BertEncoder::linear(const Pair& layer, View x_TK, View y_TN, const Codes& codes, Activation activation,
                         View pre_TN) {
    LinearForward op{x_TK, parameters_[layer.weight].w, parameters_[layer.bias].w, y_TN, activation, pre_TN};
    op.amax_13 = fp8_amax(layer.weight);
    op.fp16 = fp16_step();
    if (!op.amax_13.empty()) {
        op.x_codes = codes.x;
        op.slope_TK = codes.slope;
        op.seen_TK = codes.seen;
        op.room = codes.room;
    }
    backend_.linear_forward(op);
}

void BertEncoder::norm(const Pair& layer, View a_TD, View residual_TD, const Dropout& dropout, View y_TD,
                       View stats_T2, const Dropout& y_dropout, View normal_TD) {
    backend_.residual_norm_forward({a_TD, residual_TD, dropout, parameters_[layer.weight].w,
                                    parameters_[layer.bias].w, spec_.norm_epsilon,
                                    normal_TD.empty() ? a_TD : View{}, y_TD, stats_T2, y_dropout, normal_TD});
}

void BertEncoder::linear_backward(const Pair& layer, View dy_TN, View x_TK, const Codes& codes, View dx_TK,
                                  bool accumulate, View dy_slope_TN, View dy_seen_TN, bool dy_codes) {
    const Parameter& weight = parameters_[layer.weight];
    const bool has_x = !x_TK.empty() || !codes.x.empty();
    const bool gives_dbias = !dy_slope_TN.empty() || !dy_seen_TN.empty();
    backend_.linear_backward({dy_TN, x_TK, weight.w, dx_TK, has_x ? weight.grad : View{},
                              gives_dbias ? parameters_[layer.bias].grad : View{}, accumulate,
                              fp8_amax(layer.weight), codes.x, codes.slope, codes.room, fp16_step(),
                              dy_slope_TN, dy_codes, dy_seen_TN});
}

View BertEncoder::norm_backward(const Pair& layer, View dy_TD, View more_dy_TD, View sum_TD, View stats_T2,
                                const Dropout& dropout, View branch_TD, View dbias_1D, bool accumulate,
                                View y_TD, const Dropout& dy_dropout, View normal_TD, bool rounds) {
    const Parameter &weight = parameters_[layer.weight], &bias = parameters_[layer.bias];
    const bool dropped = dropout.threshold() > 0;
    backend_.residual_norm_backward({dy_TD, normal_TD.empty() ? sum_TD : View{}, stats_T2, weight.w, dropout,
                                     dy_TD, dropped ? branch_TD : View{}, weight.grad, bias.grad, accumulate,
                                     more_dy_TD, dbias_1D, dy_dropout, bias.w, y_TD, spec_.norm_epsilon,
                                     normal_TD, rounds});
    return dropped ? branch_TD : dy_TD;
}

void BertEncoder::embed(const TextBatch& batch, View sum_TD) {
    const View type = spec_.types > 0 ? parameters_[type_].w.first(1) : View{};
    backend_.embed_forward({batch.tokens, batch.offsets, parameters_[word_].w, parameters_[position_].w, type,
                            spec_.position_base, sum_TD});
}

void BertEncoder::embedded(View sum_TD, View stats_T2, bool inside, View x_TD) {
    norm(embedding_norm_, sum_TD, {}, {}, x_TD, stats_T2,
         dropout(spec_.hidden_dropout, streams::kEmbeddingDropout, inside));
}

void BertEncoder::layer_forward(const LayerActivations& a, View x_TD, const TextBatch& batch,
                                std::int64_t layer, bool inside) {
    const std::int64_t T = batch.num_tokens();
    const LayerWeights& w = layers_[static_cast<std::size_t>(layer)];
    const auto rows = [&](const View& view) { return view.empty() ? View{} : view.first(T); };
    const View qkv = rows(a.qkv_T3D), context = rows(a.context_TD), attended = rows(a.attended_TD);
    const View attention_sum = rows(a.attention_sum_TD), output_sum = rows(a.output_sum_TD);
    const View gelu = rows(a.gelu_TI), room = forward_room_;
    linear(w.qkv, x_TD, qkv, {a.input_codes, {}, room});
    backend_.attention_forward({qkv, batch.offsets, spec_.heads, attention_dropout(layer, inside), context,
                                rows(a.lse_TH), relative_bias(), a.attention_mask, fp16_step(),
                                rows(a.qkv_codes), qkv_exponents(a, T)});
    linear(w.out, context, attention_sum, {{}, {}, room});
    norm(w.attention_norm, attention_sum, x_TD, attended_dropout(layer, inside), attended,
         rows(a.attention_stats_T2), {}, rows(a.attention_normal_TD));
    // With FP8 products the gelu is part of its cast.
    const bool fp8 = !fp8_amax(w.up.weight).empty();
    linear(w.up, attended, gelu, {a.attended_codes, {}, room}, fp8 ? Activation::kNone : Activation::kGelu,
           fp8 ? View{} : rows(a.pre_TI));
    const bool kept = !kept_.empty() && !kept_[static_cast<std::size_t>(layer)].gelu_codes.empty();
    if (fp8 && !a.pre_TI.empty())
        linear(w.down, gelu, output_sum, {{}, {}, room, rows(a.pre_TI)});
    else
        linear(w.down, gelu, output_sum, {kept ? gelu_codes(a) : View{}, slopes(a, T), room});
    norm(w.output_norm, output_sum, attended, output_dropout(layer, inside), rows(a.output_TD),
         rows(a.output_stats_T2), {}, rows(a.output_normal_TD));
}

View BertEncoder::run_forward(const TextBatch& batch, bool training) {
    const std::int64_t T = batch.num_tokens();
    const Offsets texts = text_offsets();
    const View pooled = this->pooled(static_cast<std::int64_t>(texts.size()) - 1);
    if (T == 0) {  // texts without tokens have zero vectors
        backend_.fill_zero(pooled);
        return pooled;
    }
    const bool inside = training && !spec_.frozen;
    View x = forward_embedded_TD_.first(T);
    embed(batch, forward_embedding_sum_TD_.first(T));
    embedded(forward_embedding_sum_TD_.first(T), forward_embedding_stats_T2_.first(T), inside, x);
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
        const LayerActivations& a = forward_[static_cast<std::size_t>(i)];
        layer_forward(a, x, batch, i, inside);
        x = a.output_TD.first(T);
    }
    backend_.pool_forward(
        {x, texts, spec_.pooling, dropout(spec_.pooled_dropout, streams::kPooledDropout, training), pooled});
    return pooled;
}

View BertEncoder::layer_input(const TextBatch& batch, std::int64_t layer, View sum_TD, View buffer) {
    const std::int64_t tokens = batch.num_tokens();
    if (layer == 0) {
        if (!embedded_TD_.empty()) return embedded_TD_.first(tokens);
        embed(batch, sum_TD);
        embedded(sum_TD, embedding_stats_T2_.first(tokens), true, buffer);
        return buffer;
    }
    const LayerActivations& below = kept_[static_cast<std::size_t>(layer) - 1];
    if (!below.output_TD.empty()) return below.output_TD.first(tokens);
    norm(layers_[static_cast<std::size_t>(layer) - 1].output_norm, below.output_sum_TD.first(tokens), {}, {},
         buffer, below.output_stats_T2.first(tokens));
    return buffer;
}

View BertEncoder::qkv_exponents(const LayerActivations& a, std::int64_t tokens) const {
    return a.qkv_exponents.empty() ? View{} : reshaped(a.qkv_exponents, 3 * spec_.heads, tokens);
}
View BertEncoder::gelu_codes(const LayerActivations& a) const {
    return a.gelu_codes.empty() ? View{} : reshaped(a.gelu_codes, a.gelu_codes.rows, spec_.intermediate);
}
View BertEncoder::slopes(const LayerActivations& a, std::int64_t tokens) const {
    if (a.gelu_codes.empty()) return {};
    const std::int64_t before = a.gelu_codes.rows * spec_.intermediate;
    return {a.gelu_codes.codes() + before, DType::kU8, tokens, spec_.intermediate};
}

View BertEncoder::gradient_room(std::int64_t tokens, std::int64_t cols) const {
    const View& of_last = backward_.layers.back().gelu_codes;
    return 2 * in_sixteens(tokens) * cols <= of_last.size() ? of_last : backward_.room;
}

void BertEncoder::compute_again(const TextBatch& batch, std::int64_t layer, View dinput_TD) {
    const std::int64_t T = batch.num_tokens(), D = spec_.width;
    const LayerWeights& w = layers_[static_cast<std::size_t>(layer)];
    const LayerActivations& a = backward_.layers[static_cast<std::size_t>(layer)];
    const Recompute mode = recompute_[static_cast<std::size_t>(layer)];
    const View attention_sum = a.attention_sum_TD.first(T), stats = a.attention_stats_T2.first(T);
    const View attended = a.attended_TD.first(T), qkv = a.qkv_T3D.first(T);
    const Codes codes{{}, {}, backward_.codes_TD};
    // The first columns of `wide` as two matrices.
    const View both = reshaped(backward_.wide, 2 * T, D);
    View x;
    if (mode >= Recompute::kWider && !is_compact(mode)) {
        x = layer_input(batch, layer, dinput_TD, both.first(T));
        linear(w.qkv, x, qkv, codes);
    }
    if (mode >= Recompute::kLayer) {
        const View context = both.slice(T, 2 * T);
        backend_.attention_forward({qkv,
                                    batch.offsets,
                                    spec_.heads,
                                    attention_dropout(layer, true),
                                    context,
                                    {},
                                    relative_bias(),
                                    {},
                                    fp16_step()});
        linear(w.out, context, attention_sum, codes);
        norm(w.attention_norm, attention_sum, x, attended_dropout(layer, true), attended, stats);
    } else {
        norm(w.attention_norm, attention_sum, {}, {}, attended, stats);
    }
    if (!kept_[static_cast<std::size_t>(layer)].pre_TI.empty()) return;
    const View wide = reshaped(backward_.wide, T, spec_.intermediate);
    if (!a.pre_TI.empty())
        linear(w.up, attended, a.gelu_codes.empty() ? is_compact(mode) ? a.gelu_TI.first(T) : View{} : wide,
               codes, Activation::kGelu, a.pre_TI.first(T));
    else  // the backward of `down` makes codes of it
        linear(w.up, attended, wide, codes);
}

void BertEncoder::down_backward(const TextBatch& batch, std::int64_t layer, View dy_TD, View dgelu_TI,
                                View dinput_TD, bool accumulate) {
    const std::int64_t T = batch.num_tokens();
    const LayerWeights& w = layers_[static_cast<std::size_t>(layer)];
    const LayerActivations& a = backward_.layers[static_cast<std::size_t>(layer)];
    const Recompute mode = recompute_[static_cast<std::size_t>(layer)];
    const View up_dbias = parameters_[w.up.bias].grad;
    if (!a.gelu_codes.empty()) {
        const View room{dinput_TD.data, DType::kU8, 2 * in_sixteens(T), spec_.width};
        if (!a.pre_TI.empty())
            linear_backward(w.down, dy_TD, a.pre_TI.first(T), {gelu_codes(a), {}, room}, dgelu_TI,
                            accumulate);
        else if (mode >= Recompute::kWide)  // the pre-activations are where dgelu will be
            linear_backward(w.down, dy_TD, dgelu_TI, {gelu_codes(a), slopes(a, T), room}, dgelu_TI,
                            accumulate);
        else
            linear_backward(w.down, dy_TD, {}, {gelu_codes(a), {}, room}, dgelu_TI, accumulate);
        return;
    }
    // The op that computes the derivative, and before it the gradient of the input of `down`, also gives the
    // gelu where it was not kept: the gradient of the weights comes after it.
    const View gelu = a.gelu_TI.first(T);
    backend_.gelu_backward({a.pre_TI.first(T),
                            dgelu_TI,
                            mode == Recompute::kNone ? View{} : gelu,
                            up_dbias,
                            accumulate,
                            {},
                            fp16_step(),
                            dy_TD,
                            parameters_[w.down.weight].w});
    linear_backward(w.down, dy_TD, gelu, {}, {}, accumulate);
}

View BertEncoder::layer_backward(const TextBatch& batch, std::int64_t layer, View dx_TD, View more_dx_TD,
                                 bool accumulate) {
    const std::int64_t T = batch.num_tokens(), D = spec_.width;
    const LayerWeights& w = layers_[static_cast<std::size_t>(layer)];
    const Recompute mode = recompute_[static_cast<std::size_t>(layer)];
    const LayerActivations& a = backward_.layers[static_cast<std::size_t>(layer)];
    const View dgelu = reshaped(backward_.wide, T, spec_.intermediate);
    const View dqkv = reshaped(backward_.wide, T, 3 * D);
    // The gradients of the branches overwrite the sums, which are read for the last time here.
    const View output_sum = a.output_sum_TD.first(T), attention_sum = a.attention_sum_TD.first(T);
    const View dinput = reshaped(backward_.dinput_TD.empty() ? a.gelu_TI : backward_.dinput_TD, T, D);
    const View attended = a.attended_TD.first(T), attention_stats = a.attention_stats_T2.first(T);
    const auto rows = [&](const View& view) { return view.empty() ? View{} : view.first(T); };
    // The input of a product: as codes where they are kept, else from what is computed again.
    const auto kept_or = [&](const View& kept, std::int64_t cols) {
        return Codes{kept.empty() ? backward_.codes_TD : kept, {}, gradient_room(T, cols)};
    };
    if (mode >= Recompute::kWider && !is_compact(mode) && !more_dx_TD.empty()) {
        backend_.add({dx_TD, more_dx_TD});  // its place is wanted
        more_dx_TD = {};
    }
    if (mode >= Recompute::kWide) compute_again(batch, layer, dinput);
    const bool rounds = is_compact(mode) && !a.gelu_codes.empty();  // normals, where products are FP8

    View da = norm_backward(w.output_norm, dx_TD, more_dx_TD, output_sum, a.output_stats_T2.first(T),
                            output_dropout(layer, true), output_sum, parameters_[w.down.bias].grad,
                            accumulate, {}, {}, rows(a.output_normal_TD), rounds);
    down_backward(batch, layer, da, dgelu, dinput, accumulate);
    // The norm's backward also gives its output, where that was not kept: the gradient of the weights that
    // it went through comes after it. (An FP8 product would have to cast its gradient twice.)
    const bool fp8 = !fp8_amax(w.up.weight).empty();
    const bool attended_again =
        a.attended_codes.empty() && mode != Recompute::kNone && mode < Recompute::kWide;
    const View seen = fp8 ? rows(a.pre_TI) : View{};
    if (attended_again && fp8) norm(w.attention_norm, attention_sum, {}, {}, attended, attention_stats);
    if (attended_again && !fp8)
        linear_backward(w.up, dgelu, {}, {}, dinput, accumulate);
    else
        linear_backward(w.up, dgelu, a.attended_codes.empty() ? attended : View{},
                        kept_or(a.attended_codes, spec_.intermediate), dinput, accumulate,
                        seen.empty() ? slopes(a, T) : View{}, seen);

    da = norm_backward(w.attention_norm, dx_TD, dinput, attention_sum, attention_stats,
                       attended_dropout(layer, true), attention_sum, parameters_[w.out.bias].grad, accumulate,
                       attended_again && !fp8 ? attended : View{}, {}, rows(a.attention_normal_TD), rounds);
    if (attended_again && !fp8) linear_backward(w.up, dgelu, attended, {}, {}, accumulate);
    const View qkv = a.qkv_T3D.first(T), lse = a.lse_TH.first(T), context = a.context_TD.first(T);
    const Dropout attention = attention_dropout(layer, true);
    // The op that computes the gradients also gives the context, between the gradient of the out-projection's
    // input and that of its weights.
    const bool again = kept_[static_cast<std::size_t>(layer)].context_TD.empty();
    const Codes out_codes = kept_or({}, D);
    if (again)
        linear_backward(w.out, da, {}, {{}, {}, out_codes.room}, dinput, accumulate, {}, {}, true);
    else
        linear_backward(w.out, da, context, out_codes, dinput, accumulate);
    if (mode == Recompute::kCompactWider) {  // again, where codes of pre-activations may have been
        const View both = reshaped(backward_.wide, 2 * T, D);
        linear(w.qkv, layer_input(batch, layer, both.slice(T, 2 * T), both.first(T)), qkv,
               {{}, {}, backward_.codes_TD});
    }
    backend_.attention_backward({dinput, qkv, context, lse, batch.offsets, spec_.heads, attention, dqkv,
                                 relative_bias(), relative_bias_grad_RH_, again, parameters_[w.qkv.bias].grad,
                                 accumulate, a.attention_mask, fp16_step(), rows(a.qkv_codes),
                                 qkv_exponents(a, T), is_compact(mode) && a.qkv_codes.empty()});
    if (again) linear_backward(w.out, da, context, out_codes, {}, accumulate, {}, {}, true);
    const View more_dx = reshaped(a.qkv_T3D, T, D);  // qkv is used up
    linear_backward(w.qkv, dqkv,
                    a.input_codes.empty() ? layer_input(batch, layer, dinput, attention_sum) : View{},
                    kept_or(a.input_codes, 3 * D), more_dx, accumulate);
    return more_dx;
}

// The embeddings are group 0, layer i is group i + 1.
void BertEncoder::run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate,
                               const GroupDone& done) {
    const std::int64_t T = batch.num_tokens();
    if (T == 0) {
        for (std::size_t i = layers_.size() + 1; i-- > 0;) {
            if (!accumulate)
                for (const Parameter& p : group(i)) backend_.fill_zero(p.grad);
            done(i);
        }
        return;
    }
    const View dpooled =
        dpooled_BD.dtype == spec_.dtype ? dpooled_BD : backward_.dpooled_BD.first(dpooled_BD.rows);
    if (dpooled.data != dpooled_BD.data) backend_.cast(dpooled, dpooled_BD);
    const View dx = stream_TD_.first(T);
    backend_.pool_backward({dpooled, text_offsets(), spec_.pooling,
                            dropout(spec_.pooled_dropout, streams::kPooledDropout, true), dx});
    // Texts that are not windows were met last.
    if (text_offsets().data() != batch.offsets.data()) backend_.begin_batch(batch.tokens, batch.offsets);
    if (spec_.has_relative_bias()) backend_.fill_zero(relative_bias_grad_RH_);
    View more_dx;
    for (std::int64_t i = spec_.layers; i-- > 0;) {
        more_dx = layer_backward(batch, i, dx, more_dx, accumulate);
        done(static_cast<std::size_t>(i) + 1);
    }
    View sum = embedding_sum_TD_;
    if (sum.empty()) {  // again, where layer 0 had something
        const LayerActivations& first = kept_.front();
        sum = first.output_sum_TD.empty() ? first.attention_sum_TD : first.output_sum_TD;
        if (sum.empty()) sum = {first.qkv_codes.data, spec_.dtype, first.qkv_codes.rows, spec_.width};
        embed(batch, sum.first(T));
    }
    norm_backward(embedding_norm_, dx, more_dx, sum.first(T), embedding_stats_T2_.first(T), {}, {}, {},
                  accumulate, {}, dropout(spec_.hidden_dropout, streams::kEmbeddingDropout, true));
    if (spec_.has_relative_bias()) {
        const View grad = parameters_[relative_bias_].grad;
        if (accumulate)
            backend_.add({grad, relative_bias_grad_RH_});
        else
            backend_.cast(grad, relative_bias_grad_RH_);
    }
    // Only row 0 of the type table is ever used.
    if (spec_.types > 1 && !accumulate) backend_.fill_zero(parameters_[type_].grad);
    backend_.embed_backward(
        {dx, batch.tokens, batch.offsets, parameters_[word_].grad, parameters_[position_].grad,
         spec_.types > 0 ? parameters_[type_].grad.first(1) : View{}, spec_.position_base, accumulate});
    done(0);
}

}  // namespace elmo
