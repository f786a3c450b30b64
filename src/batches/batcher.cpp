#include "batches/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>

#include "base/parallel.h"
#include "batches/batch_shards.h"
#include "batches/permutation.h"
#include "batches/share.h"
#include "batches/streams.h"
#include "elmo/error.h"
#include "numerics/philox.h"

namespace elmo {

void fill_positives(Batch& batch, const RowOfLabel& row_of, std::span<const float> weights) {
    batch.positives.clear();
    for (std::int64_t i = 0; i < batch.size(); ++i)
        for (std::int64_t p = batch.label_offsets[i]; p < batch.label_offsets[i + 1]; ++p)
            if (const std::int64_t row = row_of(batch.labels[p]); row >= 0)
                batch.positives.push_back(row, static_cast<std::int32_t>(i));
    batch.positives.sort();
    batch.positives.weigh(weights);
}

BatchPlan::BatchPlan(const Split& split, std::vector<std::int64_t> rows, std::int64_t batch_size)
    : split_(split), rows_(std::move(rows)), batch_size_(batch_size) {
    if (batch_size < 1)
        throw ConfigError(fmt::format("batch_size: expected at least 1, found {}", batch_size));
    if (rows_.empty()) throw ConfigError("no rows to make batches of: the split is empty");
}

BatchPlan::BatchPlan(const Split& split, std::vector<std::int64_t> rows, std::int64_t batch_size,
                     std::uint64_t seed)
    : BatchPlan(split, std::move(rows), batch_size) {
    seed_ = seed;
    shuffle_ = true;
}

void BatchPlan::append(const Split& extra) {
    extra_ = extra;
    for (std::int64_t i = 0; i < extra.rows(); ++i) rows_.push_back(split_.rows() + i);
}

const Split& BatchPlan::split_of(std::int64_t& row) const {
    if (row < split_.rows()) return split_;
    row -= split_.rows();
    return extra_;
}

template <class Visit>
void BatchPlan::visit_rows(std::int64_t step, const Visit& visit) const {
    const std::int64_t epoch = step / steps_per_epoch();
    const std::int64_t begin = step % steps_per_epoch() * batch_size_;
    const std::int64_t end = std::min(begin + batch_size_, num_rows());
    if (shuffle_) {
        const Permutation order(seed_, epoch, num_rows());
        for (std::int64_t i = begin; i < end; ++i) visit(rows_[order(i)]);
    } else {
        for (std::int64_t i = begin; i < end; ++i) visit(rows_[i]);
    }
}

void BatchPlan::fill(std::int64_t step, Batch& batch) const {
    batch.step = step;
    batch.rows.clear();
    batch.tokens.clear();
    batch.labels.clear();
    batch.positives.clear();
    batch.offsets.assign(1, 0);
    batch.label_offsets.assign(1, 0);
    visit_rows(step, [&](std::int64_t row) {
        batch.rows.push_back(row);
        const Split& split = split_of(row);
        if (split.tokens.rows() > 0) {
            const auto tokens = split.tokens.row(row);
            batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
        }
        const auto labels = split.labels.row(row);
        if (split.label_targets.empty()) {
            batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
        } else {
            // A soft target p is a positive in a share p of the steps: the gradient, linear in the target, is
            // that of p on average.
            const NoiseKey key{seed_, static_cast<std::uint64_t>(step), kStreamSoftTargets};
            const auto targets = split.label_targets.subspan(split.labels.offsets[row], labels.size());
            for (std::size_t p = 0; p < labels.size(); ++p) {
                const PhiloxBlock noise = noise_block(key, row, labels[p]);
                if (falls_in_share(std::uint64_t{noise[1]} << 32 | noise[0], targets[p]))
                    batch.labels.push_back(labels[p]);
            }
        }
        if (batch.tokens.size() > std::numeric_limits<std::int32_t>::max())
            throw ConfigError(
                fmt::format("step {}: the batch holds more than 2^31 tokens; lower batch_size", step));
        batch.offsets.push_back(static_cast<std::int32_t>(batch.tokens.size()));
        batch.label_offsets.push_back(static_cast<std::int64_t>(batch.labels.size()));
    });
}

namespace {

// Of one batch, whose texts begin at these offsets.
void measure_shards(std::span<const std::int32_t> offsets, const RankShare& share, BatchLimits& most) {
    if (share.shards == 1) {
        most.shard_tokens = most.tokens;
        most.shard_texts = most.rank_texts = static_cast<std::int64_t>(offsets.size()) - 1;
        return;
    }
    const std::vector<std::int64_t> cuts = cut_shards(offsets, share.shards);
    for (std::size_t m = 0; m + 1 < cuts.size(); ++m) {
        most.shard_texts = std::max(most.shard_texts, cuts[m + 1] - cuts[m]);
        most.shard_tokens =
            std::max<std::int64_t>(most.shard_tokens, offsets[cuts[m + 1]] - offsets[cuts[m]]);
    }
    for (std::int64_t r = 0; r < share.ranks; ++r) {
        const ShareRange own = share.own_shards(r);
        most.rank_texts = std::max(most.rank_texts, cuts[own.last] - cuts[own.first]);
    }
}

void take_larger(BatchLimits& all, const BatchLimits& other) {
    for (std::int64_t BatchLimits::*limit :
         {&BatchLimits::tokens, &BatchLimits::positives, &BatchLimits::longest_row,
          &BatchLimits::shard_tokens, &BatchLimits::shard_texts, &BatchLimits::rank_texts})
        all.*limit = std::max(all.*limit, other.*limit);
}

// The sum of the `most` largest numbers that it is given.
class LargestSum {
  public:
    explicit LargestSum(std::int64_t most) : most_(static_cast<std::size_t>(most)) {}

    void add(std::int64_t number) {
        if (kept_.size() == most_ && number <= kept_.top()) return;
        kept_.push(number);
        sum_ += number;
        if (kept_.size() <= most_) return;
        sum_ -= kept_.top();
        kept_.pop();
    }
    std::int64_t sum() const { return sum_; }

  private:
    std::size_t most_;
    std::int64_t sum_ = 0;
    std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> kept_;
};

}  // namespace

BatchLimits BatchPlan::limits_of_any_batch(const Context& context, const RankShare& share) const {
    const std::int64_t texts = std::min(batch_size_, num_rows());
    LargestSum tokens(texts), positives(texts);
    BatchLimits most;
    for (std::int64_t i = 0; i < num_rows(); ++i) {
        if (i % 65536 == 0) context.leave_if_stopped();
        std::int64_t row = rows_[i];
        const Split& split = split_of(row);
        const std::int64_t length = split.tokens.rows() > 0 ? split.tokens.length(row) : 0;
        tokens.add(length);
        positives.add(split.labels.length(row));
        most.longest_row = std::max(most.longest_row, length);
    }
    most.tokens = tokens.sum();
    most.positives = positives.sum();
    // A shard ends within half of a text of its part.
    most.shard_tokens = std::min(most.tokens, most.tokens / share.shards + most.longest_row);
    most.shard_texts = most.rank_texts = texts;
    return most;
}

BatchLimits BatchPlan::limits(const Context& context, std::int64_t first_step, std::int64_t last_step,
                              const RankShare& share) const {
    // Unshuffled epochs are all alike.
    if (!shuffle_) {
        last_step = std::min(last_step, first_step + steps_per_epoch());
    }
    const std::int64_t count = std::max<std::int64_t>(0, last_step - first_step);
    if (shuffle_ && count > kMostWalkedRows / batch_size_) return limits_of_any_batch(context, share);
    constexpr std::int64_t kGrain = 256;
    std::vector<BatchLimits> found((count + kGrain - 1) / kGrain);
    context.threads().parallel_ranges(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
        if (context.stop_requested()) return;
        BatchLimits& most = found[begin / kGrain];
        std::vector<std::int32_t> offsets;
        for (std::int64_t step = first_step + begin; step < first_step + end; ++step) {
            BatchLimits here;
            offsets.assign(1, 0);
            visit_rows(step, [&](std::int64_t row) {
                const Split& split = split_of(row);
                const std::int64_t tokens = split.tokens.rows() > 0 ? split.tokens.length(row) : 0;
                here.tokens += tokens;
                here.positives += split.labels.length(row);
                here.longest_row = std::max(here.longest_row, tokens);
                offsets.push_back(static_cast<std::int32_t>(here.tokens));
            });
            measure_shards(offsets, share, here);
            take_larger(most, here);
        }
    });
    context.leave_if_stopped();
    BatchLimits all;
    for (const BatchLimits& most : found) take_larger(all, most);
    return all;
}

std::vector<std::int64_t> all_rows(std::int64_t rows) {
    std::vector<std::int64_t> list(rows);
    std::iota(list.begin(), list.end(), 0);
    return list;
}

BatchReader::BatchReader(const BatchPlan& plan, std::int64_t first_step, std::int64_t last_step,
                         RowOfLabel row_of, std::span<const float> weights)
    : plan_(plan),
      row_of_(std::move(row_of)),
      weights_(weights),
      last_step_(last_step),
      next_step_(first_step),
      filled_(first_step),
      released_(first_step) {
    thread_ = std::thread([this, first_step] { work(first_step); });
}

BatchReader::~BatchReader() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void BatchReader::work(std::int64_t first_step) {
    for (std::int64_t step = first_step; step < last_step_; ++step) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return stop_ || step < released_ + 2; });
            if (stop_) return;
        }
        try {
            Batch& batch = batches_[step % 2];
            plan_.fill(step, batch);
            if (row_of_) fill_positives(batch, row_of_, weights_);
        } catch (...) {
            const std::lock_guard lock(mutex_);
            error_ = std::current_exception();
            changed_.notify_all();
            return;
        }
        {
            const std::lock_guard lock(mutex_);
            filled_ = step + 1;
        }
        changed_.notify_all();
    }
}

const Batch* BatchReader::next() {
    if (next_step_ >= last_step_) return nullptr;
    std::unique_lock lock(mutex_);
    released_ = next_step_;  // every batch handed out before may go
    changed_.notify_all();
    changed_.wait(lock, [&] { return filled_ > next_step_ || error_; });
    if (filled_ <= next_step_) std::rethrow_exception(error_);
    return &batches_[next_step_++ % 2];
}

}  // namespace elmo
