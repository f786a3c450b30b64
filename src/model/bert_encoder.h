// The BERT family: BERT, DistilBERT, RoBERTa and what shares their shape (MiniLM, DistilRoBERTa). Post-norm
// transformer layers on packed sequences:
//   x0 = dropout(LN(word + position + type))
//   y  = LN(x + dropout(attention(x)))       DistilBERT has no dropout here
//   x' = LN(y + dropout(W2 gelu(W1 y)))
#pragma once

#include "model/encoder.h"

namespace elmo {

class BertEncoder : public Encoder {
  public:
    BertEncoder(EncoderSpec spec, Backend& backend);
    void allocate_backward(Arena& arena, const Workload& workload) override;

  private:
    // A linear layer or a norm: the indices of its two parameters.
    struct Pair {
        std::size_t weight, bias;
    };
    struct LayerWeights {
        Pair qkv, out, attention_norm, up, down, output_norm;
    };
    // What one layer leaves for its backward. T tokens, D width, H heads, I intermediate.
    struct LayerActivations {
        View qkv_T3D, context_TD, lse_TH;
        View attention_sum_TD, attention_stats_T2, attended_TD;  // attended = y above
        View pre_TI, gelu_TI;
        View output_sum_TD, output_stats_T2, output_TD;
    };
    struct BackwardBuffers {
        View dpooled_BD, dx_TD, dbranch_TD, dinput_TD;
        View wide;  // [T, max(3 D, I)]: gradient of the gelu, then of qkv
    };

    void add_parameters();
    Pair add_linear(const std::string& name, std::int64_t rows, std::int64_t cols);
    Pair add_norm(const std::string& name);
    Pair add_qkv(const std::vector<std::string>& names, const std::string& fused_name);

    void describe_layers(Workload& workload) const override;
    void allocate_activations(Arena& arena, const Workload& workload) override;
    LayerActivations allocate_layer(Arena& arena, const Workload& workload, const std::string& name) const;
    View run_forward(const TextBatch& batch, bool training) override;
    void run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate) override;
    std::string config_json() const override;

    // The dropouts of the running step; `inside` is false outside training and when frozen.
    Dropout attention_dropout(std::int64_t layer, bool inside) const;
    Dropout attended_dropout(std::int64_t layer, bool inside) const;
    Dropout output_dropout(std::int64_t layer, bool inside) const;

    void linear(const Pair& layer, View x_TK, View y_TN, Activation activation = Activation::kNone,
                View pre_TN = {});
    void norm(const Pair& layer, View a_TD, View residual_TD, const Dropout& dropout, View y_TD,
              View stats_T2);
    void linear_backward(const Pair& layer, View dy_TN, View x_TK, View dx_TK, bool accumulate);
    // dy becomes the gradient of the sum; returns that of the branch (after dropout), which is dy itself
    // where there is no dropout.
    View norm_backward(const Pair& layer, View dy_TD, View sum_TD, View stats_T2, const Dropout& dropout,
                       View branch_TD, bool accumulate);
    void layer_forward(const LayerWeights& w, const LayerActivations& a, View x_TD, const TextBatch& batch,
                       std::int64_t layer, bool inside);
    // dx is the gradient of the layer's output and becomes that of its input.
    void layer_backward(const LayerWeights& w, const LayerActivations& a, View x_TD, const TextBatch& batch,
                        std::int64_t layer, View dx_TD, bool accumulate);

    std::size_t word_ = 0, position_ = 0, type_ = 0;
    Pair embedding_norm_{};
    std::vector<LayerWeights> layers_;

    View embedding_sum_TD_, embedding_stats_T2_, embedded_TD_, pooled_BD_;
    std::vector<LayerActivations> activations_;  // one, reused, when nothing is kept
    BackwardBuffers backward_;
    bool kept_ = false;
};

}  // namespace elmo
