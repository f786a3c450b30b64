// What a run is in memory: backend, encoder, head, and the arena that holds every byte of them. One function
// lays the arena out, and planning, training and prediction all call it: the plan is what happens.
//
// The order is fixed: encoder (weights, optimiser state, gradients unless they are consumed), head weights,
// the backend's scratch; what goes from the encoder's forward to its backward, and the gradient from head to
// encoder; then, over one another, what only the encoder's forward, only the head and only the encoder's
// backward need.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"
#include "model/encoder.h"
#include "model/head.h"
#include "model/renee_head.h"

namespace elmo {

// What libraries take once they run: oneDNN's generated code and packed operands, thread stacks, the
// tokenizer, batches and log buffers.
inline constexpr std::int64_t kLibraryBytes = std::int64_t{48} << 20;

// What a run must have room for: facts of the data set and of the verb.
struct RunShape {
    std::int64_t labels = 0;
    std::int64_t batch = 0;      // texts of the largest batch
    std::int64_t tokens = 0;     // tokens of the largest batch
    std::int64_t longest = 0;    // tokens of the longest text
    std::int64_t positives = 0;  // label entries of the largest batch
    std::int64_t top_k = 0;      // labels asked for at a time; 0 where nothing is ranked
    bool training = true;
    std::filesystem::path
        head_folder;                // prediction: the checkpoint whose head is mapped instead of allocated
    std::int64_t mapped_bytes = 0;  // of the data set's cache
    std::int64_t table_bytes = 0;   // row orders, label counts: ordinary memory that grows with the data
};

// How many labels head_kahan's share is: at least one where it is not zero.
std::int64_t compensated_labels(const Config& config, std::int64_t labels);

std::unique_ptr<Backend> make_backend(const Context& context,
                                      const Config& config);  // device and cpu_products; ConfigError

// OutOfMemory, naming the first tensor that does not fit and carrying the plan, when the arena needs more
// than `room_bytes`, which is what `whose` (max_memory, this machine) has for it.
void require_room(const MemoryReport& plan, std::int64_t room_bytes, const std::string& whose);
// The same with what the backend has free now.
void require_free_memory(const MemoryReport& plan, const Backend& backend);

class Session {
  public:
    // Plans: `chunks` and `recompute` as given, or the fewest chunks, then the least recomputation, with
    // which the plan keeps within max_memory. Allocates nothing.
    Session(const Context& context, const Config& config, const EncoderSpec& spec, const RunShape& shape);

    const MemoryReport& plan() const { return plan_; }
    // Takes the memory. OutOfMemory when the plan exceeds max_memory or what the machine has free.
    void allocate();

    Backend& backend() const { return *backend_; }
    Encoder& encoder() { return *encoder_; }
    Head& head() { return *head_; }
    const Head& head() const { return *head_; }
    // What the baseline keeps beside the head, or null for other precisions.
    ReneeHead* renee() const { return renee_.get(); }
    const Workload& workload() const { return workload_; }

    // One step of the head, as this run's precision has it: see Head::step.
    HeadStepResult head_step(View x_BD, std::span<const Positive> positives, float lr, float weight_decay,
                             std::uint64_t seed, std::uint64_t step, bool want_loss, View dx_BD);

    // Memory that was really taken: of the device where there is one, else of the process.
    std::int64_t taken_bytes() const { return backend_->taken_bytes(); }

    // Gradient of the pooled vectors as the head gives it (f32) and as the encoder takes it (bf16).
    View head_grad(std::int64_t batch) const { return head_grad_BD_.first(batch); }
    View embed_grad(std::int64_t batch) const { return embed_grad_BD_.first(batch); }

  private:
    // At prediction on a CPU W stays in its files.
    bool maps_head() const { return !shape_.head_folder.empty() && backend_->host_memory(); }
    void lay_out(Arena& arena);
    // Plans with this recomputation and the chunks for it: fills plan_.
    void plan_chunks(const Config& config, const std::vector<Recompute>& layers);
    // Plans with this many chunks: fills plan_.
    void dry_run(std::int64_t chunks);

    Context context_;
    RunShape shape_;
    std::int64_t max_bytes_ = 0;  // of max_memory; 0: not given
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Encoder> encoder_;
    std::unique_ptr<Head> head_;
    std::unique_ptr<ReneeHead> renee_;
    HeadFormat head_format_;
    HeadExtras head_extras_;
    Workload workload_;
    MemoryReport plan_;
    std::unique_ptr<Arena> arena_;
    View head_grad_BD_, embed_grad_BD_;
};

}  // namespace elmo
