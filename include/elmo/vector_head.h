// The head by itself: trained and ranked on vectors that come from elsewhere, from any encoder. Its step is
// the program's, bit for bit: scores, loss, gradient of the vectors and update of the weights in one pass,
// without a gradient of the weights in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

struct VectorHeadShape {
    std::int64_t labels = 0, width = 0;
    std::int64_t batch = 0;  // vectors of the largest batch
    std::int64_t top = 100;  // labels that topk may be asked for
};

// Vectors of `width` BF16 numbers (their bits), row after row.
struct VectorBatch {
    const std::uint16_t* values = nullptr;
    std::int64_t rows = 0;
    bool on_device = false;  // in memory of the head's GPU, at a multiple of 64, instead of ordinary memory
    void* stream = nullptr;  // then: the CUDA stream that makes them, for which the head waits
};

// The labels of the vectors of a batch: those of vector i stand from offsets[i] to before offsets[i + 1], in
// any order.
struct BatchLabels {
    std::span<const std::int64_t> offsets, labels;
};

struct VectorHeadStep {
    double loss = 0;               // binary cross-entropy: the sum over all labels, mean over the vectors
    std::int64_t saturations = 0;  // weights that met the largest number of their format
};

struct RankedLabels {
    std::int64_t rows = 0, k = 0;      // k: as asked for, or all labels where there are fewer
    std::vector<std::int64_t> labels;  // row after row, best first, ties by lower number
    std::vector<float> scores;
};

// One thread at a time may call it.
class ELMO_API VectorHead {
  public:
    // Plans and takes its memory; weights start as the program's do. Options used: precision, head_rounding,
    // head_noise, weight_dropout, chunks, seed, device (auto: cpu), cpu_products, threads, max_memory. The
    // GPU is the context's. ConfigError for a shape or options that cannot be; DeviceError; OutOfMemory.
    VectorHead(const Context& context, const Config& config, const VectorHeadShape& shape);
    ~VectorHead();
    VectorHead(VectorHead&&) noexcept;
    VectorHead& operator=(VectorHead&&) noexcept;

    // One step on a batch. `gradient` (rows x width, where the vectors lie) is set to the gradient of the
    // loss summed over the batch, by the weights from before the update. Vectors on a GPU: their stream waits
    // for the step. The step's number addresses the noise: steps() + 1. Without want_loss the step is faster
    // and does not wait for a GPU; the loss is NaN, and a NaN in the vectors goes unnoticed. `report`, with
    // vectors on a GPU: two numbers there, set to loss and saturations in the order of the stream, and the
    // step does not wait either; the loss is NaN where the gradient is not finite. DataError for labels that
    // do not exist; NumericError for vectors that give no finite gradient, where the step waits.
    VectorHeadStep step(const VectorBatch& vectors, const BatchLabels& truth, double lr, double weight_decay,
                        std::span<float> gradient, bool want_loss = true, float* report = nullptr);
    RankedLabels topk(const VectorBatch& vectors, std::int64_t k) const;

    std::int64_t steps() const;
    // A continued head draws the noise of the steps that follow.
    void set_steps(std::int64_t steps);
    // Only the weights, as a checkpoint has them: head-00001-of-000NN.safetensors. DataError.
    void save(const std::string& folder) const;
    // A run whose encoder is `vectors`: its checkpoint `best`, complete or as it was before. Predictor, the
    // program's predict (--vectors), serve and inspect take it. label_names: of all labels, or none.
    // ConfigError for another number of names, and where the folder holds a run that was trained on texts.
    void save_run(const std::string& folder, const std::vector<std::string>& label_names) const;
    // The weights of such a folder, of a run (its best checkpoint, checked by its manifest; the noise of the
    // following steps goes on from there if it is a run of save_run), or of a checkpoint.
    void load(const std::string& folder);
    const VectorHeadShape& shape() const;
    const MemoryReport& plan() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
