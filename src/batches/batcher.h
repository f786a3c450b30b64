// Batches of a split: rows packed without padding, in an order that depends only on (seed, epoch), so
// any step can be computed by itself. A prefetching reader prepares the next batch meanwhile.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "elmo/context.h"
#include "ranks/rank_share.h"
#include "sources/rows.h"
#include "tensor/positives.h"

namespace elmo {

// B rows, T tokens, P positives.
struct Batch {
    std::int64_t step = 0;
    std::vector<std::int64_t> rows;           // [B] row numbers in the split; those of extra rows come after
    std::vector<std::int32_t> tokens;         // [T] ids, row after row
    std::vector<std::int32_t> offsets;        // [B + 1] into tokens
    std::vector<std::uint32_t> labels;        // [P] ids, ascending within a row
    std::vector<std::int64_t> label_offsets;  // [B + 1] into labels
    PositiveList positives;                   // the same for the trained head; empty if the reader has none

    std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
};

// The row of a label in the trained head, or -1 if it is not there.
using RowOfLabel = std::function<std::int64_t(std::int64_t label)>;
// `weights`: how many times a positive of each row of the head counts; empty: once.
void fill_positives(Batch& batch, const RowOfLabel& row_of, std::span<const float> weights = {});

// The largest batch of a range of steps: memory is planned from this.
struct BatchLimits {
    std::int64_t tokens = 0;
    std::int64_t positives = 0;
    std::int64_t longest_row = 0;
    // The largest shard of a batch, and the most texts that a rank has in its shards.
    std::int64_t shard_tokens = 0, shard_texts = 0, rank_texts = 0;
};

// Which rows make up which step; rows with soft targets draw their positives for each step. Step numbers
// continue through the epochs; the last batch of an epoch may be short. Without shuffling every epoch has the
// given order.
class BatchPlan {
  public:
    // `rows` are row numbers of the split (all_rows for all). The split's memory must outlive the plan. With
    // a seed the rows are shuffled again each epoch. ConfigError when batch_size is below 1 or there are no
    // rows.
    BatchPlan(const Split& split, std::vector<std::int64_t> rows, std::int64_t batch_size);
    BatchPlan(const Split& split, std::vector<std::int64_t> rows, std::int64_t batch_size,
              std::uint64_t seed);

    // Adds all rows of another split; in a batch their numbers come after those of the first. Call it
    // before the plan is used. That split's memory must outlive the plan too.
    void append(const Split& extra);

    // Row numbers of the split in the given order, then those of `extra`.
    const std::vector<std::int64_t>& rows() const { return rows_; }
    std::int64_t num_rows() const { return static_cast<std::int64_t>(rows_.size()); }
    std::int64_t batch_size() const { return batch_size_; }
    // Another size, of at least 1: the same rows in the same order.
    void set_batch_size(std::int64_t batch_size) { batch_size_ = batch_size; }
    std::int64_t steps_per_epoch() const { return (num_rows() + batch_size_ - 1) / batch_size_; }

    // Fills `batch` for a step; its vectors keep their memory from call to call.
    void fill(std::int64_t step, Batch& batch) const;
    // Exact for steps [first, last), by walking the lengths of their rows; `share` cuts them. Shuffled steps
    // with more rows than kMostWalkedRows would take too long: their limits are those of any batch.
    static constexpr std::int64_t kMostWalkedRows = std::int64_t{1} << 28;
    BatchLimits limits(const Context& context, std::int64_t first_step, std::int64_t last_step,
                       const RankShare& share = {}) const;

  private:
    // What no order of the rows exceeds: a batch of the longest rows, one of those with the most labels.
    BatchLimits limits_of_any_batch(const Context& context, const RankShare& share) const;
    template <class Visit>
    void visit_rows(std::int64_t step, const Visit& visit) const;

    // The split that holds a row, which becomes its number there.
    const Split& split_of(std::int64_t& row) const;

    Split split_, extra_;
    std::vector<std::int64_t> rows_;
    std::int64_t batch_size_;
    std::uint64_t seed_ = 0;
    bool shuffle_ = false;
};

// 0, 1, ..., rows - 1.
std::vector<std::int64_t> all_rows(std::int64_t rows);

// Hands out the batches of steps [first, last) in order; a thread fills the next one while the caller
// works on the present one. The plan must outlive it.
class BatchReader {
  public:
    // With row_of, which the thread calls, the batches have positives, weighed by the `weights` of the head's
    // rows, which must outlive it.
    BatchReader(const BatchPlan& plan, std::int64_t first_step, std::int64_t last_step,
                RowOfLabel row_of = {}, std::span<const float> weights = {});
    ~BatchReader();
    BatchReader(const BatchReader&) = delete;
    BatchReader& operator=(const BatchReader&) = delete;

    // The next batch, or nullptr after the last. Valid until the next call.
    const Batch* next();

  private:
    void work(std::int64_t first_step);

    const BatchPlan& plan_;
    const RowOfLabel row_of_;
    const std::span<const float> weights_;
    const std::int64_t last_step_;
    std::int64_t next_step_;  // of the consumer
    Batch batches_[2];        // step s lies in batches_[s % 2]
    std::int64_t filled_;     // steps below are filled
    std::int64_t released_;   // steps below may be overwritten
    bool stop_ = false;
    std::exception_ptr error_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;
};

}  // namespace elmo
