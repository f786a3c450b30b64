// Encoders: texts in, one vector per text out. An encoder owns no memory (the arena does) and computes only
// through the backend. A family fills the table of parameters and implements forward and backward. What all
// families share (memory, random start, update, files) is here.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "formats/safetensors_writer.h"
#include "io/mmap_file.h"
#include "model/encoder/encoder_spec.h"
#include "ranks/collectives.h"
#include "ranks/rank_share.h"

namespace elmo {

// One tensor of a weights file.
struct StoredTensor {
    std::string name;  // as transformers names it, without the model's prefix
    std::vector<std::int64_t> shape;
};

// One weight tensor and what training keeps beside it (empty views at prediction).
struct Parameter {
    std::string name;
    View w, grad, m, v, c;
    View exponents = {};  // of m and v, where the state is in bytes
    // Where a batch has several shards or ranks: the F32 sum of what its shards gave in `grad`.
    View total = {};
    // The rows that this rank updates: m, v, c, exponents and total have these, w and grad have all.
    ShareRange own = {};
    bool decays = true;      // biases and LayerNorms do not
    bool of_linear = false;  // weight or bias of a linear layer: FP16 products give its gradient in FP16
    // Random start: N(0, sigma), or a constant if sigma is 0.
    float sigma = 0, constant = 0;
    // In files: these tensors, one after another, fill w (query, key and value are one parameter).
    std::vector<StoredTensor> stored;

    // What the update reads.
    const View& gradient() const { return total.cols == 0 ? grad : total; }
};

// What the backward of a transformer layer computes again instead of storing, each with what is before it:
// nothing; everything without a product with weights; the pre-activations (one product); queries, keys and
// values (two); the attention's output (three), so that only what the last norm sees is kept. Gradients have
// the same bits. Compressed, a layer keeps pre-activations as codes (ops/linear.h), so that one product fewer
// is computed again than in the mode before it. The backward is then that of numbers close to the forward's,
// with the same bits for all three. With FP8 products, which have codes of their own, it is the mode before.
// Compact, queries, keys and values are codes too (ops/attention.h): kept are all of these, all but the
// pre-activations, or none, and what is not kept is computed again and rounded to codes. So its three have
// the same bits, others than those of compressed. With FP8 products the two norms are codes as well
// (ops/norm.h), beside the products' operands.
enum class Recompute {
    kNone,
    kCheap,
    kCompressed,
    kCompact,
    kWide,
    kCompactWide,
    kWider,
    kCompressedWider,
    kCompactWider,
    kLayer,
    kCompressedLayer
};
inline bool is_compact(Recompute mode) {
    return mode == Recompute::kCompact || mode == Recompute::kCompactWide || mode == Recompute::kCompactWider;
}
// Whether a layer keeps its input, where that is a product's operand in FP8.
inline bool keeps_input_codes(Recompute mode) {
    return mode == Recompute::kNone || mode == Recompute::kCompact || mode == Recompute::kCompactWide;
}
// Whether pre-activations are kept as codes, where products are not FP8. Where they are, only by kCompact.
inline bool keeps_pre_codes(Recompute mode) {
    return mode == Recompute::kCompact || mode == Recompute::kCompressed ||
           mode == Recompute::kCompressedWider || mode == Recompute::kCompressedLayer;
}

struct TextBatch {
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
    std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
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
    const std::vector<Parameter>& parameters() const { return parameters_; }
    // Parameters whose gradients are complete at the same time: the embeddings, or a layer.
    std::size_t num_groups() const { return group_ends_.size(); }
    std::span<const Parameter> group(std::size_t index) const {
        return std::span(parameters_).subspan(group_first(index), group_ends_[index] - group_first(index));
    }

    // Adds what it needs to the workload (widest linear, largest weight, heads).
    void describe_workload(Workload& workload) const;

    // One entry per layer (spec().layers; none for a bag), before memory is planned. At the start: kNone for
    // all. The last layer's backward follows its forward, and the other layers then reuse its memory. So
    // more than kCheap would save nothing there and means kCheap.
    void set_recompute(std::vector<Recompute> layers);

    // Plans or takes memory, in this order: weights (with optimiser state and, unless they are consumed,
    // gradients when training); what lives from forward to backward; what only the forward and only the
    // backward need. Called on the dry arena, then on the real one. What lives longer is allocated before the
    // activations: the backward's last gradients may overwrite them and what follows.
    void allocate(Arena& arena, const Workload& workload);
    virtual void allocate_activations(Arena& arena, const Workload& workload) = 0;
    // Memory that only the forward needs (the pooled vectors outlive it); called inside a Scope.
    virtual void allocate_forward(Arena& arena, const Workload& workload) = 0;
    // Memory that only the backward needs; called inside a Scope that the head's transient memory has left.
    void allocate_backward(Arena& arena, const Workload& workload);

    // Sums of gradients over shards, as one row of F32: each parameter's begin at a multiple of kTotalsAlign.
    static constexpr std::int64_t kTotalsAlign = 64;
    std::int64_t totals_size() const;
    // Of several ranks each updates a part of every group of parameters and has the optimiser state of that
    // part: the elements [totals_cut(group, rank), totals_cut(group, rank + 1)) of such a row, whole rows of
    // weights. Before memory is planned.
    void share_state(int rank, int ranks);
    std::int64_t totals_cut(std::size_t group, int rank) const;
    // The weights of a group that a rank updates, in as few views as they need, equally many on every rank.
    std::vector<View> weights_of(std::size_t group, int rank) const;
    // The rank's part of the sums, as a row per group: from now on the update reads them.
    void set_totals(std::span<const View> of_groups);
    // This step's gradients of a group, as F32 into its elements of such a row; zeros for a shard without
    // texts.
    void copy_gradients(std::size_t group, View to_1P, bool zeros) const;

    // Random start by addressed noise, or weights from spec().weights_folder.
    void initialise(std::uint64_t seed);

    // The pooled vectors [B, D] (dropped out when training), alive until the next forward: BF16, or F64 for
    // an F64 encoder, or F32 in training with FP16 products. `step` addresses the dropout noise. Announces
    // the batch to the backend: its memory must stay until the backward, or until the next forward. DataError
    // for a token outside the vocabulary or a text longer than the model's positions, unless it is windows
    // (spec().window).
    View forward(const TextBatch& batch, bool training, std::uint64_t seed, std::uint64_t step);
    // Where a forward leaves its vectors: a caller that has kept those of these texts may put them there.
    View pooled(std::int64_t batch) const {
        return {pooled_BD_.data, fp16_step_ ? DType::kF32 : output_dtype(), batch, spec_.width};
    }
    // The dropout that a training forward applies to them.
    Dropout pooled_dropout(std::uint64_t seed, std::uint64_t step) const;
    // Gradients of all parameters from the gradient of the pooled vectors (any float type); added to what is
    // there when `accumulate` is set. Must follow the training forward of the same batch, and consumes its
    // activations. Not for an encoder whose gradients are consumed. Calls `done` for each group of
    // parameters, once, as soon as nothing will read its weights or write its gradients: the last first.
    using GroupDone = std::function<void(std::size_t group)>;
    void backward(const TextBatch& batch, View dpooled_BD, bool accumulate, const GroupDone& done = {});
    // FP16 products: the gradients of linear layers become what FP16 holds of them; whether all gradients are
    // finite. Between backward and update.
    bool finish_fp16_gradients();
    // AdamW on every parameter, or what the rank has of it; or on those of a group.
    void update(const AdamWSettings& settings);
    void update_group(std::size_t group, const AdamWSettings& settings);
    // backward, then update, with the same bits, but each group of parameters (a layer, the embeddings) is
    // updated as soon as its gradients are there. `check`, where given, sees each parameter just before.
    using GradientCheck = std::function<void(const Parameter&)>;
    void backward_and_update(const TextBatch& batch, View dpooled_BD, const AdamWSettings& settings,
                             const GradientCheck& check = {});

    // model.safetensors + config.json that `transformers` loads unchanged (bag: our own config.json).
    void save_weights(const std::filesystem::path& folder) const;
    // model.safetensors or its shards, F32, F16 or BF16, with or without the model's prefix.
    void load_weights(const InputFolder& folder);
    // Optimiser state, all parameters: optimizer.safetensors. Exact round trip. With gradient accumulation
    // the gradients are part of it.
    void save_state(const std::filesystem::path& file) const;
    // The same file of a state that lies on all ranks: a collective, in which the first rank writes and the
    // others (file: null) send.
    void save_state_shared(const std::filesystem::path* file, Ranks& ranks) const;
    void load_state(MappedFile file);

  protected:
    Encoder(EncoderSpec spec, Backend& backend)
        : spec_(std::move(spec)),
          backend_(backend),
          recompute_(static_cast<std::size_t>(spec_.layers), Recompute::kNone) {}

    // Helpers to fill the table, in the order of the forward. They return the index of the parameter.
    std::size_t add_matrix(std::string name, std::int64_t rows, std::int64_t cols, float sigma);
    std::size_t add_vector(std::string name, std::int64_t cols, float constant);
    // The parameters since the last call form a group: their gradients are complete at the same time.
    void end_group();
    // A linear layer with these parameters.
    void mark_linear(std::size_t weight, std::size_t bias) {
        parameters_[weight].of_linear = parameters_[bias].of_linear = true;
    }

    virtual void describe_layers(Workload& workload) const = 0;
    virtual void allocate_backward_buffers(Arena& arena, const Workload& workload) = 0;
    // Texts here are windows, where a text is several; text_offsets() has the texts, whose vectors are asked
    // for.
    virtual View run_forward(const TextBatch& batch, bool training) = 0;
    // Gradients of different groups may lie in the same memory.
    virtual void run_backward(const TextBatch& batch, View dpooled_BD, bool accumulate,
                              const GroupDone& done) = 0;
    virtual std::string config_json() const = 0;

    Offsets text_offsets() const { return text_offsets_; }
    // A dropout of the running step; none outside training.
    Dropout dropout(float p, std::uint32_t stream, bool training) const;
    // Whether activations are kept for a backward.
    bool keeps(const Workload& workload) const { return workload.training && !spec_.frozen; }
    // Whether products are FP8, and what is kept of their operands is codes.
    bool keeps_codes(const Workload& workload) const { return spec_.fp8 && keeps(workload); }
    // For the linear ops of the running step, where its products are FP8: amax of the layer with this weight.
    // Forwards outside training multiply in BF16: a text's vector there depends on no other text.
    View fp8_amax(std::size_t weight) const {
        const auto row = static_cast<std::int64_t>(weight);
        return fp8_step_ ? fp8_amax_P3_.slice(row, row + 1) : View{};
    }
    // Whether the running step's products are FP16. Forwards outside training are those of F32.
    bool fp16_step() const { return fp16_step_; }
    // Room for the pooled vectors.
    View allocate_pooled(Arena& arena, std::int64_t batch) const {
        return arena.allocate("encoder/pooled", spec_.fp16 ? DType::kF32 : output_dtype(), batch,
                              spec_.width);
    }
    DType output_dtype() const { return spec_.dtype == DType::kF64 ? DType::kF64 : DType::kBf16; }
    // Of softmax and norm statistics.
    DType stats_dtype() const { return spec_.dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

    EncoderSpec spec_;
    View pooled_BD_;
    Backend& backend_;
    std::vector<Parameter> parameters_;
    std::vector<Recompute> recompute_;
    // When the gradients of group 0 appear, nothing allocated since is alive.
    std::optional<Arena::Mark> dead_for_group_0_;

  private:
    void check(const TextBatch& batch) const;
    // The batch with windows as its texts, as find_windows has found them.
    void find_windows(const TextBatch& batch);
    TextBatch windows_of(const TextBatch& batch) const {
        return {batch.tokens, window_offsets_.empty() ? batch.offsets : Offsets(window_offsets_)};
    }
    void check_gradient(const TextBatch& batch, View dpooled_BD) const;
    void update_range(std::size_t first, std::size_t last, const AdamWSettings& settings);
    std::size_t group_first(std::size_t index) const { return index == 0 ? 0 : group_ends_[index - 1]; }
    // The first row of the parameter that is not of an earlier rank.
    std::int64_t first_row_of(std::size_t parameter, int rank) const;
    std::vector<TensorSpec> state_tensors() const;

    int rank_ = 0, ranks_ = 1;                   // who shares the optimiser state
    std::vector<std::int64_t> elements_before_;  // of each parameter in its group, where they do,
    std::vector<std::int64_t> group_elements_;   // and of its whole group
    std::vector<std::size_t> group_ends_;        // indices of parameters
    View fp8_amax_P3_;                           // a row per parameter; planned where products are FP8
    bool fp8_step_ = false, fp16_step_ = false;  // of the last forward

    Offsets text_offsets_;                      // of the last forward
    std::vector<std::int32_t> window_offsets_;  // of the last forward; empty where every text is one window
    std::int64_t planned_batch_ = 0, planned_tokens_ = 0;
    std::uint64_t seed_ = 0, step_ = 0;  // of the last forward
};

std::unique_ptr<Encoder> make_encoder(const EncoderSpec& spec, Backend& backend);

}  // namespace elmo
