// The BERT family: BERT, DistilBERT, RoBERTa, XLM-RoBERTa, MPNet and what shares their shape (MiniLM,
// DistilRoBERTa). Post-norm transformer layers on packed sequences:
//   x0 = dropout(LN(word + position + type))
//   y  = LN(x + dropout(attention(x)))       DistilBERT has no dropout here
//   x' = LN(y + dropout(W2 gelu(W1 y)))
// MPNet's attention has a bias by distance, which all layers share.
#pragma once

#include "model/encoder/encoder.h"

namespace elmo {

// Attention's work for a token grows with its text, what it gives does not: where texts may be longer than
// this, kCheap and kWide keep the context. kCompact has to compute it from codes.
inline constexpr std::int64_t kCheapAttention = 128;
inline bool keeps_context(Recompute mode, std::int64_t longest) {
    return mode == Recompute::kNone ||
           (mode < Recompute::kWider && !is_compact(mode) && longest > kCheapAttention);
}

class BertEncoder : public Encoder {
  public:
    BertEncoder(EncoderSpec spec, Backend& backend);
    void allocate_activations(Arena& arena, const Workload& workload) override;
    void allocate_forward(Arena& arena, const Workload& workload) override;

  private:
    // A linear layer or a norm: the indices of its two parameters.
    struct Pair {
        std::size_t weight, bias;
    };
    struct LayerWeights {
        Pair qkv, out, attention_norm, up, down, output_norm;
    };
    // What one layer computes. T tokens, D width, H heads, I intermediate. As what is kept, views are without
    // columns where nothing is kept.
    struct LayerActivations {
        View qkv_T3D, context_TD, lse_TH, attention_mask;
        View qkv_codes, qkv_exponents;                           // [T, 3 D] and T * 3 H bytes in place of qkv
        View attention_sum_TD, attention_stats_T2, attended_TD;  // attended = y above
        View pre_TI, gelu_TI;
        View output_sum_TD, output_stats_T2, output_TD;
        View attention_normal_TD, output_normal_TD;  // in place of the sums: what the norms make of them
        // With FP8 products (ops/linear.h), in place of their inputs, a byte per element: the layer's input,
        // `attended`, and [T, 2 I], the gelu and then its slopes. Rows in sixteens.
        View input_codes, attended_codes, gelu_codes;
    };
    // What FP8 products need beside their operands.
    struct Codes {
        View x, slope, room;
        View seen = {};
    };
    // Most gradients in transit reuse memory that is dead by then (bert_memory.cpp); the others:
    struct BackwardBuffers {
        View dpooled_BD;
        View wide;       // [T, max(3 D, I)]: gradient of the gelu, then of qkv
        View dinput_TD;  // if the gelu's memory is too small for it, or codes
        View codes_TD;   // with FP8 products: of an input that is computed again
        View room;       // and for the codes of a gradient, where the gelu's are fewer
        // By layer: what the forward had, kept or computed again. gelu may be where pre is, attended and
        // context where output_sum is.
        std::vector<LayerActivations> layers;
    };

    void add_parameters();
    Pair add_linear(const std::string& name, std::int64_t rows, std::int64_t cols);
    Pair add_norm(const std::string& name);
    Pair add_qkv(const std::vector<std::string>& names, const std::string& fused_name);

    void describe_layers(Workload& workload) const override;
    void allocate_backward_buffers(Arena& arena, const Workload& workload) override;
    // What a layer keeps in this mode, except its output. Where the next one keeps its own input, it need not
    // be made from this one's sum.
    LayerActivations allocate_layer(Arena& arena, const Workload& workload, const std::string& name,
                                    Recompute mode, bool next_has_input) const;
    View run_forward(const TextBatch& batch, bool training) override;
    void run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate,
                      const GroupDone& done) override;
    std::string config_json() const override;

    // The dropouts of the running step; `inside` is false outside training and when frozen.
    Dropout attention_dropout(std::int64_t layer, bool inside) const;
    Dropout attended_dropout(std::int64_t layer, bool inside) const;
    Dropout output_dropout(std::int64_t layer, bool inside) const;

    void linear(const Pair& layer, View x_TK, View y_TN, const Codes& codes,
                Activation activation = Activation::kNone, View pre_TN = {});
    // The sum goes where a is, unless its normal is kept.
    void norm(const Pair& layer, View a_TD, View residual_TD, const Dropout& dropout, View y_TD,
              View stats_T2, const Dropout& y_dropout = {}, View normal_TD = {});
    // dx and the gradient of the weight; that of the bias comes with dy, from the op that makes it, or from
    // here where dy is still to be multiplied by slopes, or by what they are where codes of what the gelu saw
    // are given. Without x and its codes only dx, without dx only the
    // other.
    void linear_backward(const Pair& layer, View dy_TN, View x_TK, const Codes& codes, View dx_TK,
                         bool accumulate, View dy_slope_TN = {}, View dy_seen_TN = {}, bool dy_codes = false);
    // dy (with more_dy) becomes the gradient of the sum; returns that of the branch (after dropout), which is
    // dy itself where there is no dropout. dbias is the gradient of the branch's last bias; y, where given,
    // the norm's output again. A kept normal is taken in place of the sum, or the sum's is rounded as if it
    // were kept (ops/norm.h).
    View norm_backward(const Pair& layer, View dy_TD, View more_dy_TD, View sum_TD, View stats_T2,
                       const Dropout& dropout, View branch_TD, View dbias_1D, bool accumulate, View y_TD = {},
                       const Dropout& dy_dropout = {}, View normal_TD = {}, bool rounds = false);
    void embed(const TextBatch& batch, View sum_TD);
    // x0 from the embeddings' sum.
    void embedded(View sum_TD, View stats_T2, bool inside, View x_TD);
    // lse and pre-activations are left out where their views are empty.
    void layer_forward(const LayerActivations& a, View x_TD, const TextBatch& batch, std::int64_t layer,
                       bool inside);
    // The input of a layer in the last forward: kept, or computed again into `buffer`; `sum` is for the
    // embeddings' sum. Both may be overwritten.
    View layer_input(const TextBatch& batch, std::int64_t layer, View sum_TD, View buffer_TD);
    View qkv_exponents(const LayerActivations& a, std::int64_t tokens) const;
    View gelu_codes(const LayerActivations& a) const;
    View slopes(const LayerActivations& a, std::int64_t tokens) const;
    // Room for the codes of a gradient of `cols` columns: where the last layer's gelu had its own, which are
    // used up.
    View gradient_room(std::int64_t tokens, std::int64_t cols) const;
    // What the mode does not keep and its backward does not give, up to the pre-activations. `dinput` may be
    // overwritten.
    void compute_again(const TextBatch& batch, std::int64_t layer, View dinput_TD);
    // The gradient of the gelu, multiplied by its derivative, that of the weights of `down`, and that of the
    // bias of `up`. With FP8 products the backward of `up` multiplies, and gives the last. `dinput` may be
    // overwritten.
    void down_backward(const TextBatch& batch, std::int64_t layer, View dy_TD, View dgelu_TI, View dinput_TD,
                       bool accumulate);
    // dx + more_dx (which may be empty) is the gradient of the layer's output; dx + what is returned becomes
    // that of its input. The norms do the additions.
    View layer_backward(const TextBatch& batch, std::int64_t layer, View dx_TD, View more_dx_TD,
                        bool accumulate);

    View relative_bias() const { return spec_.has_relative_bias() ? parameters_[relative_bias_].w : View{}; }

    std::size_t word_ = 0, position_ = 0, type_ = 0, relative_bias_ = 0;
    Pair embedding_norm_{};
    std::vector<LayerWeights> layers_;

    // What is kept for the backward, by layer.
    View embedding_sum_TD_, embedding_stats_T2_, embedded_TD_;
    View relative_bias_grad_RH_;  // sum over the layers, of which gradients have no memory yet
    std::vector<LayerActivations> kept_;
    View stream_TD_;  // in the forward `context`, then `attended`; in the backward the gradient of x
    // Where the forward writes: what is kept, and shared buffers for the rest.
    View forward_embedding_sum_TD_, forward_embedding_stats_T2_, forward_embedded_TD_;
    std::vector<LayerActivations> forward_;
    View forward_room_;  // codes
    BackwardBuffers backward_;
};

}  // namespace elmo
