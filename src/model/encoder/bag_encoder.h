// The bag of tokens: for machines without a GPU and for quick starts. With e the mean of a text's token
// embeddings:
//   h = LN(e);  y = LN(h + dropout(W2 gelu(W1 h + b1) + b2));  pooled = dropout(y)
// The last norm's gain starts at kOutputNorm / sqrt(D), so pooled vectors start at length kOutputNorm at any
// width: the head's SGD step on a logit is its rate times that length squared.
#pragma once

#include "model/encoder/encoder.h"

namespace elmo {

class BagEncoder : public Encoder {
  public:
    static constexpr float kOutputNorm = 8.0f;

    BagEncoder(EncoderSpec spec, Backend& backend);
    void allocate_activations(Arena& arena, const Workload& workload) override;
    void allocate_forward(Arena&, const Workload&) override {}

  private:
    void describe_layers(Workload& workload) const override;
    void allocate_backward_buffers(Arena& arena, const Workload& workload) override;
    View run_forward(const TextBatch& batch, bool training) override;
    void run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate,
                      const GroupDone& done) override;
    std::string config_json() const override;

    Dropout branch_dropout(bool training) const;
    // Offsets that make each row a separate text: pooling is then dropout and a change of dtype.
    Offsets rows(std::int64_t count) const {
        return Offsets(row_offsets_).first(static_cast<std::size_t>(count) + 1);
    }

    std::size_t word_, input_gain_, input_bias_, up_, up_bias_, down_, down_bias_, output_gain_, output_bias_;
    // B texts, D width, I intermediate.
    View mean_BD_, input_stats_B2_, hidden_BD_, pre_BI_, gelu_BI_, sum_BD_, output_stats_B2_, output_BD_;
    View codes_, room_;  // of FP8 products
    View dpooled_BD_, dx_BD_, dbranch_BD_, dgelu_BI_, dhidden_BD_;
    std::vector<std::int32_t> row_offsets_;
};

}  // namespace elmo
