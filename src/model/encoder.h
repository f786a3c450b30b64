// Encoders: texts in, one vector a text out. An encoder owns no memory (the arena does) and computes
// through the backend alone.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "elmo/config.h"

namespace elmo {

// Everything that fixes an encoder's shape.
struct EncoderSpec {
    std::string family = "bag";  // bag, bert, distilbert, roberta
    std::int64_t vocab = 0;
    std::int64_t width = 0;
    std::int64_t layers = 0, heads = 1, intermediate = 0;
    std::int64_t positions = 0;      // rows of the position table
    std::int64_t position_base = 0;  // row of the first token (RoBERTa: pad id + 1)
    std::int64_t types = 0;
    float norm_epsilon = 1e-12f;
    float hidden_dropout = 0, attention_dropout = 0;
    Pooling pooling = Pooling::kMean;
    float pooled_dropout = 0;
    DType dtype = DType::kBf16;  // of weights and activations (F64 on the reference, for golden tests)
    std::filesystem::path weights_folder;  // Hugging Face folder to load from; empty: start from scratch
    std::string hf_config;                 // its config.json, kept for saving

    std::int64_t longest_text() const;  // most tokens a text may have; 0: any
};

// The spec that a configuration asks for: bag, or a Hugging Face folder. `vocab` is the tokenizer's.
EncoderSpec make_encoder_spec(const Config& config, std::int64_t vocab);
EncoderSpec read_encoder_spec(const std::filesystem::path& folder);  // from a saved checkpoint's config.json

// One weight tensor and what training keeps beside it (empty views at prediction).
struct Parameter {
    std::string name;  // its Hugging Face name (fused tensors: the internal name)
    View w, grad, m, v, c;
    bool decays = true;  // biases and LayerNorms do not
};

struct TextBatch {
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

struct AdamWSettings {
    float lr = 0, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, weight_decay = 0.01f, grad_scale = 1;
    std::int64_t t = 1;  // update count from 1
    std::uint64_t seed = 0;
};

class Encoder {
  public:
    virtual ~Encoder() = default;
    const EncoderSpec& spec() const { return spec_; }
    std::vector<Parameter>& parameters() { return parameters_; }

    // Adds what it needs to the workload (widest linear, largest weight, heads).
    virtual void describe_workload(Workload& workload) const = 0;

    // Plans or takes memory, in this order: weights (with gradients and optimiser state when training),
    // then what lives from forward to backward. Called on the dry arena, then on the real one.
    virtual void allocate(Arena& arena, const Workload& workload) = 0;
    // Memory of the backward alone; called inside a Scope that the head's transient memory has left.
    virtual void allocate_backward(Arena& arena, const Workload& workload) = 0;

    // Random start by addressed noise, or weights from spec().weights_folder.
    virtual void initialise(std::uint64_t seed) = 0;

    // The pooled vectors [B, D] (dropped out when training), alive until the next forward.
    // step addresses the dropout noise.
    virtual View forward(const TextBatch& batch, bool training, std::uint64_t seed, std::uint64_t step) = 0;
    // Gradients of all parameters from the gradient of the pooled vectors; added to what is there when
    // `accumulate` is set. Must follow the forward of the same batch and step.
    virtual void backward(const TextBatch& batch, View dpooled_BD, bool accumulate) = 0;
    // AdamW on every parameter.
    void update(const AdamWSettings& settings);

    // model.safetensors + config.json that `transformers` loads unchanged (bag: our own config.json).
    virtual void save_weights(const std::filesystem::path& folder) const = 0;
    virtual void load_weights(const std::filesystem::path& folder) = 0;
    // Optimiser state, all parameters: optimizer.safetensors. Exact round trip.
    void save_state(const std::filesystem::path& file) const;
    void load_state(const std::filesystem::path& file);

  protected:
    Encoder(EncoderSpec spec, Backend& backend) : spec_(std::move(spec)), backend_(backend) {}
    EncoderSpec spec_;
    Backend& backend_;
    std::vector<Parameter> parameters_;
};

std::unique_ptr<Encoder> make_encoder(const EncoderSpec& spec, Backend& backend);

}  // namespace elmo
