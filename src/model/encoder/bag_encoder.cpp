#include "model/encoder/bag_encoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/encoder/hf_config.h"
#include "model/streams.h"

namespace elmo {

BagEncoder::BagEncoder(EncoderSpec spec, Backend& backend) : Encoder(std::move(spec), backend) {
    const std::int64_t D = spec_.width, I = spec_.intermediate;
    const auto fan_in = [](std::int64_t n) { return 1.0f / std::sqrt(static_cast<float>(n)); };
    word_ = add_matrix("embeddings.weight", spec_.vocab, D, spec_.initializer_range);
    end_group();
    input_gain_ = add_vector("input_norm.weight", D, 1);
    input_bias_ = add_vector("input_norm.bias", D, 0);
    up_ = add_matrix("up.weight", I, D, fan_in(D));
    up_bias_ = add_vector("up.bias", I, 0);
    down_ = add_matrix("down.weight", D, I, fan_in(I));
    down_bias_ = add_vector("down.bias", D, 0);
    mark_linear(up_, up_bias_);
    mark_linear(down_, down_bias_);
    output_gain_ = add_vector("output_norm.weight", D, kOutputNorm * fan_in(D));
    output_bias_ = add_vector("output_norm.bias", D, 0);
    end_group();
}

std::string BagEncoder::config_json() const {
    return model_config_text(spec_);
}

void BagEncoder::describe_layers(Workload& workload) const {
    workload.widest = std::max({workload.widest, spec_.width, spec_.intermediate});
    workload.largest_weight = std::max(workload.largest_weight, spec_.width * spec_.intermediate);
}

void BagEncoder::allocate_activations(Arena& arena, const Workload& workload) {
    const std::int64_t B = workload.batch, D = spec_.width, I = spec_.intermediate;
    mean_BD_ = arena.allocate("encoder/bag/mean", spec_.dtype, B, D);
    input_stats_B2_ = arena.allocate("encoder/bag/input_stats", stats_dtype(), B, 2);
    hidden_BD_ = arena.allocate("encoder/bag/hidden", spec_.dtype, B, D);
    pre_BI_ = arena.allocate("encoder/bag/pre_gelu", spec_.dtype, B, I);
    gelu_BI_ = arena.allocate("encoder/bag/gelu", spec_.dtype, B, I);
    sum_BD_ = arena.allocate("encoder/bag/sum", spec_.dtype, B, D);
    output_stats_B2_ = arena.allocate("encoder/bag/output_stats", stats_dtype(), B, 2);
    output_BD_ = arena.allocate("encoder/bag/output", spec_.dtype, B, D);
    pooled_BD_ = allocate_pooled(arena, B);
    if (keeps_codes(workload)) {
        codes_ = arena.allocate("encoder/bag/codes", DType::kU8, in_sixteens(B), std::max(D, I));
        room_ = arena.allocate("encoder/bag/room", DType::kU8, in_sixteens(B), 2 * std::max(D, I));
    }
    row_offsets_.resize(static_cast<std::size_t>(B) + 1);
    std::iota(row_offsets_.begin(), row_offsets_.end(), 0);
}

void BagEncoder::allocate_backward_buffers(Arena& arena, const Workload& workload) {
    const std::int64_t B = workload.batch, D = spec_.width;
    dpooled_BD_ = arena.allocate("encoder/backward/dpooled", spec_.dtype, B, D);
    dx_BD_ = arena.allocate("encoder/backward/dx", spec_.dtype, B, D);
    dbranch_BD_ = arena.allocate("encoder/backward/dbranch", spec_.dtype, B, D);
    dgelu_BI_ = arena.allocate("encoder/backward/dgelu", spec_.dtype, B, spec_.intermediate);
    dhidden_BD_ = arena.allocate("encoder/backward/dhidden", spec_.dtype, B, D);
}

Dropout BagEncoder::branch_dropout(bool training) const {
    return dropout(spec_.hidden_dropout, streams::kLayerDropout, training && !spec_.frozen);
}

View BagEncoder::run_forward(const TextBatch& batch, bool training) {
    const std::int64_t B = batch.size();
    const auto w = [&](std::size_t i) { return parameters_[i].w; };
    const View mean = mean_BD_.first(B), hidden = hidden_BD_.first(B), gelu = gelu_BI_.first(B);
    const View sum = sum_BD_.first(B), output = output_BD_.first(B), pooled = this->pooled(B);
    backend_.bag_forward({batch.tokens, batch.offsets, w(word_), mean});
    backend_.residual_norm_forward({mean,
                                    {},
                                    {},
                                    w(input_gain_),
                                    w(input_bias_),
                                    spec_.norm_epsilon,
                                    mean,
                                    hidden,
                                    input_stats_B2_.first(B)});
    backend_.linear_forward({hidden,
                             w(up_),
                             w(up_bias_),
                             gelu,
                             Activation::kGelu,
                             pre_BI_.first(B),
                             fp8_amax(up_),
                             {},
                             {},
                             room_,
                             fp16_step()});
    backend_.linear_forward({gelu,
                             w(down_),
                             w(down_bias_),
                             sum,
                             Activation::kNone,
                             {},
                             fp8_amax(down_),
                             {},
                             {},
                             room_,
                             fp16_step()});
    backend_.residual_norm_forward({sum, hidden, branch_dropout(training), w(output_gain_), w(output_bias_),
                                    spec_.norm_epsilon, sum, output, output_stats_B2_.first(B)});
    backend_.pool_forward({output, rows(B), Pooling::kCls,
                           dropout(spec_.pooled_dropout, streams::kPooledDropout, training), pooled});
    return pooled;
}

void BagEncoder::run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate,
                              const GroupDone& done) {
    const std::int64_t B = batch.size();
    const auto w = [&](std::size_t i) { return parameters_[i].w; };
    const auto grad = [&](std::size_t i) { return parameters_[i].grad; };
    const View dpooled = dpooled_BD.dtype == spec_.dtype ? dpooled_BD : dpooled_BD_.first(B);
    if (dpooled.data != dpooled_BD.data) backend_.cast(dpooled, dpooled_BD);
    const View dx = dx_BD_.first(B), dgelu = dgelu_BI_.first(B), dhidden = dhidden_BD_.first(B);
    backend_.pool_backward(
        {dpooled, rows(B), Pooling::kCls, dropout(spec_.pooled_dropout, streams::kPooledDropout, true), dx});
    const Dropout branch = branch_dropout(true);
    const View dbranch = branch.threshold() > 0 ? dbranch_BD_.first(B) : View{};
    backend_.residual_norm_backward({dx, sum_BD_.first(B), output_stats_B2_.first(B), w(output_gain_), branch,
                                     dx, dbranch, grad(output_gain_), grad(output_bias_), accumulate});
    backend_.linear_backward({dbranch.empty() ? dx : dbranch,
                              gelu_BI_.first(B),
                              w(down_),
                              dgelu,
                              grad(down_),
                              grad(down_bias_),
                              accumulate,
                              fp8_amax(down_),
                              codes_,
                              {},
                              room_,
                              fp16_step()});
    backend_.gelu_backward({pre_BI_.first(B), dgelu, {}, {}, false, {}, fp16_step()});
    backend_.linear_backward({dgelu,
                              hidden_BD_.first(B),
                              w(up_),
                              dhidden,
                              grad(up_),
                              grad(up_bias_),
                              accumulate,
                              fp8_amax(up_),
                              codes_,
                              {},
                              room_,
                              fp16_step()});
    backend_.add({dx, dhidden});
    backend_.residual_norm_backward({dx,
                                     mean_BD_.first(B),
                                     input_stats_B2_.first(B),
                                     w(input_gain_),
                                     {},
                                     dx,
                                     {},
                                     grad(input_gain_),
                                     grad(input_bias_),
                                     accumulate});
    done(1);
    backend_.bag_backward({dx, batch.tokens, batch.offsets, grad(word_), accumulate});
    done(0);
}

}  // namespace elmo
