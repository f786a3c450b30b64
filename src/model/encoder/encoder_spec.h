// What fixes an encoder's shape, and how to read it from a configuration or a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "backend/ops/embedding.h"
#include "config/views.h"
#include "elmo/context.h"
#include "io/input_folder.h"
#include "tensor/view.h"

namespace elmo {

struct EncoderSpec {
    std::string family = "bag";  // bag, bert, distilbert, roberta, xlm-roberta, mpnet
    std::int64_t vocab = 0;
    std::int64_t width = 0;
    std::int64_t layers = 0, heads = 1, intermediate = 0;
    std::int64_t positions = 0;      // rows of the position table
    std::int64_t position_base = 0;  // row of the first token (RoBERTa: pad id + 1)
    std::int64_t types = 0;
    std::int64_t window = 0;  // a longer text is windows of so many tokens, each with its positions; 0: none
    float norm_epsilon = 1e-12f;
    float hidden_dropout = 0, attention_dropout = 0;
    float initializer_range = 0.02f;
    Pooling pooling = Pooling::kMean;
    float pooled_dropout = 0;
    DType dtype = DType::kBf16;  // of weights and activations (F64 on the reference, for golden tests)
    // Products of the linear layers run in FP8 in training (backend/ops/linear.h); weights are BF16.
    bool fp8 = false;
    // Products run in FP16 in training, as ops with `fp16` round (backend/ops/linear.h); weights are F32. The
    // gradient that the backward takes has a scale, and so have the gradients of all parameters.
    bool fp16 = false;
    bool compensated = true;      // BF16 weights have a compensation
    bool state_in_bytes = false;  // of compensated BF16 weights (backend/ops/optimizer.h)
    std::int64_t accumulate = 1;  // steps whose gradients are summed; more than one needs F32 gradients
    // Gradients share memory and are consumed as they appear, only by Encoder::backward_and_update.
    bool consume_gradients = false;
    bool frozen = false;         // weights stay as they are: no gradients, no dropout inside
    InputFolder weights_folder;  // Hugging Face folder to load from; empty: start from scratch
    std::string hf_config;       // its config.json, kept for saving

    bool is_bag() const { return family == "bag"; }
    bool has_relative_bias() const { return family == "mpnet"; }  // of attention, shared by the layers
    bool has_compensation() const { return compensated && dtype == DType::kBf16; }
    bool has_bytes() const { return state_in_bytes && has_compensation(); }
    DType grad_dtype() const { return accumulate > 1 && dtype == DType::kBf16 ? DType::kF32 : dtype; }
    // Of tables and linear layers: all but biases and norms.
    std::int64_t matrix_weights() const {
        return (vocab + positions + types) * width + layers * width * (4 * width + 2 * intermediate);
    }
    // Most tokens a text may have; 0: any.
    std::int64_t longest_text() const { return positions - position_base; }
};

// What options say about weights and their training.
void set_training(const EncoderOptions& options, EncoderSpec& spec);

// The spec that options ask for: bag, or a Hugging Face folder. `vocab` is the tokenizer's; it must
// fit in a Hugging Face encoder's table. A folder given as `encoder` replaces that of the options.
EncoderSpec make_encoder_spec(const EncoderOptions& options, std::int64_t vocab,
                              const InputFolder& encoder = {});

// From a saved checkpoint's config.json: shape, pooling and dtype as saved, weights from the folder.
EncoderSpec read_encoder_spec(const InputFolder& folder);

// max_length limited to the encoder's positions, with a log line if it was reduced.
std::int64_t cut_length(const Context& context, std::int64_t max_length, const EncoderSpec& spec);

}  // namespace elmo
