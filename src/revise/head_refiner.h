// The second stage of a refinement: the head in higher precision, a subset of its labels in memory at a time.
// The gradient of a label's row depends on no other label once the text vectors are fixed, and noise is
// addressed by the label's number: results do not depend on the subsets. The vectors are stored as at
// prediction; each step drops elements of its batch, the same for every subset.
#pragma once

#include <atomic>
#include <filesystem>
#include <vector>

#include "batches/batcher.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "engine/train_step.h"
#include "formats/row_store.h"
#include "train/schedule.h"

namespace elmo {

class HeadRefiner {
  public:
    // Labels are taken in multiples of this: every backend cuts its tiles there, for any subset.
    static constexpr std::int64_t kLabelUnit = 256;
    // The loss of one batch is noisy: batches differ more than the steps change it.
    static constexpr std::int64_t kLossSteps = 32;

    // `batches`: the training rows, whose numbers are rows of `vectors` (with or without tokens). `storage`
    // is the precision to refine in. Plans subsets of equal size, as large as max_memory and the free memory
    // allow; takes no memory yet.
    HeadRefiner(const Context& context, const Config& config, const BatchPlan& batches,
                std::int64_t total_steps, DType storage, std::int64_t labels, std::int64_t width,
                std::int64_t mapped_bytes);

    const MemoryReport& plan() const { return engine_.plan(); }
    std::int64_t subset_labels() const { return subset_; }
    std::int64_t taken_bytes() const { return engine_.taken_bytes(); }

    struct Subset {
        std::int64_t first = 0, last = 0;  // labels
        // Of a text, summed over these labels: means over the first and the last steps, up to kLossSteps.
        double first_loss = 0, last_loss = 0;
    };
    // Refines labels [rows.rows_done(), + subset_labels()) of the head in `from`, and appends them to `rows`.
    // False when the context asked to stop first: then nothing is appended. NumericError.
    bool refine_next(const InputFolder& from, const RowStore& vectors, RowStore& rows, Subset& done);

  private:
    void plan_subset(std::int64_t labels);
    void choose_subset();
    void allocate();
    // The weights of the head's labels, from a stored head of any precision.
    void load(const InputFolder& from);
    View gather(const RowStore& vectors, const Batch& batch);
    void append(RowStore& rows);

    Context context_;
    const Config& config_;
    const BatchPlan& batches_;
    std::int64_t total_steps_;
    Schedule schedule_;
    std::int64_t labels_;
    std::int64_t subset_ = 0;
    Engine engine_;
    bool allocated_ = false;
    std::vector<std::byte> staged_;  // a batch of vectors on the host
};

}  // namespace elmo
