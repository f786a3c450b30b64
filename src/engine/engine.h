// A run in memory: backend, encoder, head, and the arena that holds every byte of them. A verb stages what it
// needs: an encoder, a head, or both. One function lays the arena out. Planning, training, prediction and
// refinement all call it, so the plan is exact.
//
// The order is fixed: encoder (weights, optimiser state, gradients unless they are consumed), head weights,
// the backend's scratch; what goes from the encoder's forward to its backward (or, without an encoder, the
// vectors that the head is given), and the gradient from head to encoder; then, in overlaid
// memory, what only the encoder's forward, only the head and only the encoder's backward need.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "config/views.h"
#include "elmo/context.h"
#include "elmo/memory.h"
#include "engine/shared_step.h"
#include "model/encoder/encoder.h"
#include "model/head/head.h"

namespace elmo {

// What a run must have room for: facts of the data set and of the verb.
struct RunShape {
    std::int64_t batch = 0;      // texts of the largest batch, or of its largest shard
    std::int64_t tokens = 0;     // tokens of the largest batch, or of its largest shard
    std::int64_t longest = 0;    // tokens of the longest text
    std::int64_t positives = 0;  // label entries of the largest batch
    bool weighted = false;       // they have weights
    std::int64_t top_k = 0;      // labels asked for at a time; 0 where nothing is ranked
    bool training = true;
    bool input_gradient = true;     // training: the head's step gives dx
    std::int64_t mapped_bytes = 0;  // of files besides the head's: the data set's cache
    std::int64_t table_bytes = 0;   // row orders, label counts: ordinary memory that grows with the data
    // Training, where the batch has shards or the run has ranks: texts of the largest batch, and of all
    // shards of a rank; labels of the run.
    RankShare share = {};
    std::int64_t texts = 0, rank_texts = 0, labels = 0;
};

// What is staged.
struct EngineParts {
    std::optional<EncoderSpec> encoder;
    std::optional<HeadSpec> head;
    bool is_new = false;  // its sizes are still the caller's to choose
};
// Both, trained as the options say; the head has the labels of the rank. Of a part of the labels, the number
// of compensated ones is the caller's to set: compensated_labels() are chosen among all.
EngineParts training_parts(const HeadOptions& options, const EncoderSpec& encoder, std::int64_t labels,
                           const RankShare& share = {});
// How many labels head_kahan's share is: at least one where it is not zero.
std::int64_t compensated_labels(const HeadOptions& options, std::int64_t labels);
// A head with all that the options say about its training.
HeadSpec trained_head(const HeadOptions& options, std::int64_t labels, std::int64_t width);

std::unique_ptr<Backend> make_backend(const Context& context, const EngineOptions& options);
// Starts the GPU where the options name it: an Error if there is none. Before data is read, which may take
// minutes.
void require_device(const Context& context, const EngineOptions& options);

// OutOfMemory, naming the first tensor that does not fit and carrying the plan, when the arena needs more
// than `room_bytes`, the room that `whose` (max_memory, this machine) has for it.
void require_room(const MemoryReport& plan, std::int64_t room_bytes, const std::string& whose);

class Engine {
  public:
    // Plans: `chunks` and `recompute` as given, or the fewest chunks, then the least recomputation, with
    // which the plan keeps within max_memory. Allocates nothing and reads no weights.
    Engine(const Context& context, const EngineOptions& options, const EngineParts& parts,
           const RunShape& shape);

    const MemoryReport& plan() const { return plan_; }
    // Plans again for other labels of the head, with the given or preferred chunks.
    void plan_labels(LabelLayout layout);
    // Adds so much ordinary memory to the plan. False, and nothing, where max_memory or main memory has no
    // room.
    bool hold(std::int64_t bytes);
    // Whether the plan keeps within max_memory and what is free now.
    bool fits() const;
    // Takes the memory. OutOfMemory when it does not fit.
    void allocate();
    // Gives the memory back.
    void release() {
        arena_.reset();
        host_arena_.reset();
    }

    // Weights: a random start (the encoder's may be given, see Encoder), or those of a checkpoint; a head
    // that stays in its files is mapped. After allocate().
    void initialise(std::uint64_t seed);
    void load(const InputFolder& folder);

    Backend& backend() const { return *backend_; }
    // Null if it is not staged.
    Encoder* staged_encoder() const { return encoder_.get(); }
    Head* staged_head() const { return head_.get(); }
    Encoder& encoder() const { return *encoder_; }
    Head& head() const { return *head_; }
    const Workload& workload() const { return workload_; }

    // Measured memory: of the device if there is one, else of the process.
    std::int64_t taken_bytes() const { return backend_->taken_bytes(); }

    // Without an encoder: what the head is given (bf16), to be filled.
    View text_vectors(std::int64_t batch) const { return text_vectors_BD_.first(batch); }
    // Gradient of the text vectors as the head gives it (f32, empty where none is wanted) and as the encoder
    // takes it (bf16; f32 where its products are FP16).
    View head_grad(std::int64_t batch) const {
        return shape_.input_gradient ? head_grad_BD_.first(batch) : View{};
    }
    View embed_grad(std::int64_t batch) const { return embed_grad_BD_.first(batch); }
    // Where labels, batches or both are cut: null otherwise.
    SharedStep* shared() const { return shared_.get(); }
    const RankShare& share() const { return shape_.share; }
    // Several ranks: moves views between them, and room for the vectors of a batch that another rank encoded.
    ViewExchange& exchange() const { return *exchange_; }
    View ranked_vectors(std::int64_t batch) const { return ranked_vectors_BD_.first(batch); }

  private:
    void describe_workload();
    // With the texts that the encoder sees at a time.
    Workload encoder_workload() const;
    void share_step(const EngineOptions& options);
    void lay_out(Arena& arena, Arena& host);
    // Plans with this recomputation and the chunks for it: fills plan_.
    void plan_chunks(const std::vector<Recompute>& layers);
    // Plans with this many chunks: fills plan_.
    void dry_run(std::int64_t chunks);
    std::int64_t usual_chunks() const;
    // What the arena may take of max_memory, and of what is free now.
    std::int64_t given_room() const;
    std::int64_t free_room() const;

    Context context_;
    RunShape shape_;
    std::int64_t max_bytes_ = 0;  // of max_memory; 0: not given
    std::int64_t chunks_ = 0;     // 0: not given
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Encoder> encoder_;
    std::unique_ptr<Head> head_;
    std::unique_ptr<ViewExchange> exchange_;
    std::unique_ptr<SharedStep> shared_;
    bool maps_head_ = false;  // W stays in its files
    Workload workload_;
    MemoryReport plan_;
    std::unique_ptr<Arena> arena_, host_arena_;
    View text_vectors_BD_, head_grad_BD_, embed_grad_BD_, ranked_vectors_BD_;
};

}  // namespace elmo
