#include "revise/head_refiner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/progress.h"
#include "elmo/error.h"
#include "engine/session.h"
#include "model/head.h"
#include "model/streams.h"

namespace elmo {
namespace {

// Of the vectors' files, as much is kept mapped in memory; the kernel maps up to 64 KiB around a touched row.
constexpr std::int64_t kVectorWindowBytes = std::int64_t{64} << 20, kBytesAroundRow = 1 << 16;
constexpr std::int64_t kLoadedRows = 4096;  // of the stored head, decoded at once

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

}  // namespace

HeadRefiner::HeadRefiner(const Context& context, const Config& config, const BatchPlan& batches,
                         std::int64_t total_steps, DType storage, std::int64_t labels, std::int64_t width,
                         std::int64_t mapped_bytes)
    : context_(context),
      config_(config),
      batches_(batches),
      total_steps_(total_steps),
      schedule_(make_schedule(config, total_steps)),
      labels_(labels),
      mapped_bytes_(mapped_bytes),
      backend_(make_backend(context, config)) {
    workload_.batch = std::min(batches.batch_size(), batches.num_rows());
    workload_.width = width;
    workload_.positives = batches.limits(context, 0, total_steps).positives;
    workload_.head_dtype = storage;
    choose_subset();
}

void HeadRefiner::lay_out(Arena& arena) {
    w_SD_ = arena.allocate("head/weights", workload_.head_dtype, workload_.labels, workload_.width);
    x_BD_ = arena.allocate("step/text_vectors", DType::kBf16, workload_.batch, workload_.width);
    backend_->reserve(arena, workload_);
    backend_->reserve_head(arena, workload_);
}

void HeadRefiner::plan_subset(std::int64_t labels) {
    subset_ = workload_.labels = std::min(labels, labels_);
    workload_.chunks = config_.chunks > 0 ? config_.chunks : backend_->preferred_chunks(workload_);
    Arena dry;
    lay_out(dry);
    plan_ = plan_of(context_, dry, *backend_, mapped_bytes_ + kVectorWindowBytes, 8 * batches_.num_rows());
    plan_.chunks = workload_.chunks;
}

void HeadRefiner::choose_subset() {
    const auto fits = [&](std::int64_t units) {
        plan_subset(units * kLabelUnit);
        return plan_.arena_bytes <= arena_room(plan_, config_.max_memory, *backend_);
    };
    const std::int64_t all = round_up(labels_, kLabelUnit) / kLabelUnit;
    if (fits(all)) return;
    std::int64_t most = 0, too_many = all;  // units that fit, and that do not
    while (too_many - most > 1) {
        const std::int64_t middle = most + (too_many - most) / 2;
        (fits(middle) ? most : too_many) = middle;
    }
    if (most == 0) {
        plan_subset(kLabelUnit);
        return require_fits(plan_, config_.max_memory, *backend_);
    }
    const std::int64_t subsets = (all + most - 1) / most;
    plan_subset((all + subsets - 1) / subsets * kLabelUnit);
}

void HeadRefiner::load(const std::filesystem::path& from, std::int64_t first, View w_SD) {
    std::vector<std::int64_t> numbers;
    std::vector<Bf16> rounded;
    for (std::int64_t begin = 0; begin < w_SD.rows; begin += kLoadedRows) {
        const std::int64_t end = std::min(w_SD.rows, begin + kLoadedRows);
        numbers.resize(static_cast<std::size_t>(end - begin));
        std::iota(numbers.begin(), numbers.end(), first + begin);
        const std::vector<float> values = read_head_rows(from, numbers);
        if (w_SD.dtype == DType::kF32) {
            backend_->upload(w_SD.slice(begin, end), values.data());
        } else {
            rounded.resize(values.size());
            std::transform(values.begin(), values.end(), rounded.begin(), [](float v) { return to_bf16(v); });
            backend_->upload(w_SD.slice(begin, end), rounded.data());
        }
    }
}

View HeadRefiner::gather(const RowStore& vectors, const Batch& batch) {
    const auto row_bytes = static_cast<std::size_t>(vectors.row_bytes());
    staged_.resize(batch.rows.size() * row_bytes);
    for (std::size_t b = 0; b < batch.rows.size(); ++b)
        std::memcpy(staged_.data() + b * row_bytes, vectors.rows_from(batch.rows[b]).data(), row_bytes);
    const View x_BD = x_BD_.first(batch.size());
    backend_->upload(x_BD, staged_.data());
    return x_BD;
}

void HeadRefiner::append(View w_SD, RowStore& rows) {
    const std::int64_t piece =
        std::max(RowStore::kPieceBytes / rows.row_bytes() / kLabelUnit, std::int64_t{1}) * kLabelUnit;
    std::vector<std::byte> bytes;
    for (std::int64_t begin = 0; begin < w_SD.rows; begin += piece) {
        const View part = w_SD.slice(begin, std::min(w_SD.rows, begin + piece));
        bytes.resize(static_cast<std::size_t>(part.bytes()));
        backend_->download(bytes.data(), part);
        rows.append(bytes);
    }
}

bool HeadRefiner::refine_next(const std::filesystem::path& from, const RowStore& vectors, RowStore& rows,
                              Subset& done) {
    if (arena_ == nullptr) {
        require_fits(plan_, config_.max_memory, *backend_);
        arena_ = std::make_unique<Arena>(backend_->allocate(plan_.arena_bytes));
        lay_out(*arena_);
    }
    const std::int64_t first = rows.rows_done(), last = std::min(labels_, first + subset_);
    const View w_SD = w_SD_.first(last - first);
    load(from, first, w_SD);
    done = {first, last};

    const std::int64_t window = std::max<std::int64_t>(
        1, kVectorWindowBytes / (batches_.batch_size() * (kBytesAroundRow + vectors.row_bytes())));
    const std::int64_t loss_steps = std::clamp<std::int64_t>(total_steps_ / 2, 1, kLossSteps);
    Progress progress(context_, "refining", labels_, "labels");
    SortedPositives sorted;
    std::vector<Positive> positives;
    HeadStep op;
    op.w_LD = w_SD;
    op.weight_decay = static_cast<float>(config_.head_weight_decay);
    op.num_chunks = workload_.chunks;
    op.first_label = first;
    BatchReader reader(batches_, 0, total_steps_);
    while (const Batch* batch = reader.next()) {
        if (context_.stop_requested()) return false;
        const std::int64_t step = batch->step + 1;
        sort_positives(*batch, sorted);
        positives.clear();
        const auto [begin, end] = sorted.range(first, last);
        for (std::int64_t i = begin; i < end; ++i)
            positives.push_back({sorted.labels[i] - first, sorted.samples[i]});
        op.x_BD = gather(vectors, *batch);
        // Noise of its own: batches are those of training's first epochs, and with its masks too the head
        // would be fitted to the same numbers again.
        backend_->dropout({op.x_BD,
                           {static_cast<float>(config_.dropout),
                            {config_.seed, static_cast<std::uint64_t>(step), streams::kRefineDropout}}});
        op.positives = positives;
        op.lr = static_cast<float>(config_.head_lr * schedule_.factor(step));
        op.rounding = {config_.seed, static_cast<std::uint64_t>(step), streams::kRefineRounding};
        const bool early = step <= loss_steps, late = step > total_steps_ - loss_steps;
        op.want_loss = early || late;
        const HeadStepResult result = backend_->head_step(op);
        const double loss = result.loss_sum / static_cast<double>(batch->size() * loss_steps);
        if (early) done.first_loss += loss;
        if (late) done.last_loss += loss;
        if (step % window == 0) vectors.release_pages();
        progress.update(first + (last - first) * step / total_steps_,
                        fmt::format("labels {} to {}, step {} of {}", first, last - 1, step, total_steps_));
    }
    vectors.release_pages();
    if (!std::isfinite(done.last_loss) || backend_->has_non_finite(w_SD))
        throw NumericError(fmt::format(
            "labels {} to {}: the refined weights have a NaN or Inf; lower head_lr and start again", first,
            last - 1));
    append(w_SD, rows);
    progress.finish(fmt::format("labels {} to {}, loss of a text {:.4g} to {:.4g}", first, last - 1,
                                done.first_loss, done.last_loss));
    return true;
}

}  // namespace elmo
