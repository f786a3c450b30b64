#include "revise/head_refiner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/progress.h"
#include "elmo/error.h"
#include "model/streams.h"

namespace elmo {
namespace {

// This much of the vectors' files stays mapped in memory; the kernel maps up to 64 KiB around a touched row.
constexpr std::int64_t kVectorWindowBytes = std::int64_t{64} << 20, kBytesAroundRow = 1 << 16;
constexpr std::int64_t kLoadedRows = 4096;  // of the stored head, decoded at once

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

EngineParts parts_of(DType storage, std::int64_t labels, std::int64_t width) {
    HeadSpec head{LabelLayout::range(0, labels), width, storage};
    head.extras.rounding_stream = streams::kRefineRounding;
    return {std::nullopt, head};
}

RunShape shape_of(const Context& context, const BatchPlan& batches, std::int64_t total_steps,
                  std::int64_t mapped_bytes) {
    RunShape shape;
    shape.batch = std::min(batches.batch_size(), batches.num_rows());
    shape.positives = batches.limits(context, 0, total_steps).positives;
    shape.input_gradient = false;
    shape.mapped_bytes = mapped_bytes + kVectorWindowBytes;
    shape.table_bytes = 8 * batches.num_rows();
    return shape;
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
      engine_(context, config, parts_of(storage, labels, width),
              shape_of(context, batches, total_steps, mapped_bytes)) {
    choose_subset();
}

void HeadRefiner::plan_subset(std::int64_t labels) {
    subset_ = std::min(labels, labels_);
    engine_.plan_labels(LabelLayout::range(0, subset_));
}

void HeadRefiner::choose_subset() {
    const auto fits = [&](std::int64_t units) {
        plan_subset(units * kLabelUnit);
        return engine_.fits();
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
        return allocate();  // which says what is missing
    }
    const std::int64_t subsets = (all + most - 1) / most;
    plan_subset((all + subsets - 1) / subsets * kLabelUnit);
}

void HeadRefiner::allocate() {
    if (allocated_) return;
    engine_.allocate();
    allocated_ = true;
}

void HeadRefiner::load(const InputFolder& from) {
    Head& head = engine_.head();
    std::vector<std::int64_t> labels;
    for (std::int64_t begin = 0; begin < head.labels(); begin += kLoadedRows) {
        labels.resize(static_cast<std::size_t>(std::min(kLoadedRows, head.labels() - begin)));
        std::iota(labels.begin(), labels.end(), head.layout().label(begin));
        head.assign(read_head_rows(from, labels), begin);
    }
}

View HeadRefiner::gather(const RowStore& vectors, const Batch& batch) {
    const auto row_bytes = static_cast<std::size_t>(vectors.row_bytes());
    staged_.resize(batch.rows.size() * row_bytes);
    for (std::size_t b = 0; b < batch.rows.size(); ++b)
        std::memcpy(staged_.data() + b * row_bytes, vectors.rows_from(batch.rows[b]).data(), row_bytes);
    const View x_BD = engine_.text_vectors(batch.size());
    engine_.backend().upload(x_BD, staged_.data());
    return x_BD;
}

void HeadRefiner::append(RowStore& rows) {
    const View w_SD = engine_.head().weights();
    const std::int64_t piece =
        std::max(RowStore::kPieceBytes / rows.row_bytes() / kLabelUnit, std::int64_t{1}) * kLabelUnit;
    std::vector<std::byte> bytes;
    for (std::int64_t begin = 0; begin < w_SD.rows; begin += piece) {
        const View part = w_SD.slice(begin, std::min(w_SD.rows, begin + piece));
        bytes.resize(static_cast<std::size_t>(part.bytes()));
        engine_.backend().download(bytes.data(), part);
        rows.append(bytes);
    }
}

bool HeadRefiner::refine_next(const InputFolder& from, const RowStore& vectors, RowStore& rows,
                              Subset& done) {
    allocate();
    const std::int64_t first = rows.rows_done(), last = std::min(labels_, first + subset_);
    engine_.head().set_layout(LabelLayout::range(first, last));
    load(from);
    done = {first, last};

    const std::int64_t window = std::max<std::int64_t>(
        1, kVectorWindowBytes / (batches_.batch_size() * (kBytesAroundRow + vectors.row_bytes())));
    const std::int64_t loss_steps = std::clamp<std::int64_t>(total_steps_ / 2, 1, kLossSteps);
    Progress progress(context_, "refining", labels_, "labels");
    StepInput in;
    in.seed = config_.seed;
    in.head_weight_decay = static_cast<float>(config_.head_weight_decay);
    BatchReader reader(batches_, 0, total_steps_,
                       [&](std::int64_t label) { return engine_.head().layout().row(label); });
    while (const Batch* batch = reader.next()) {
        if (context_.stop_requested()) return false;
        const std::int64_t step = batch->step + 1;
        in.x_BD = gather(vectors, *batch);
        in.positives = batch->positives;
        in.step = static_cast<std::uint64_t>(step);
        in.head_lr = static_cast<float>(config_.head_lr * schedule_.factor(step));
        // Separate noise: batches are those of training's first epochs, and with the same masks the head
        // would be fitted to the same numbers again.
        engine_.backend().dropout(
            {in.x_BD, {static_cast<float>(config_.dropout), {in.seed, in.step, streams::kRefineDropout}}});
        const bool early = step <= loss_steps, late = step > total_steps_ - loss_steps;
        in.want_loss = early || late;
        const HeadStepResult result = train_step(engine_, in).head;
        const double loss = result.loss_sum / static_cast<double>(batch->size() * loss_steps);
        if (early) done.first_loss += loss;
        if (late) done.last_loss += loss;
        if (step % window == 0) vectors.release_pages();
        progress.update(first + (last - first) * step / total_steps_,
                        fmt::format("labels {} to {}, step {} of {}", first, last - 1, step, total_steps_));
    }
    vectors.release_pages();
    if (!std::isfinite(done.last_loss) || engine_.backend().has_non_finite(engine_.head().weights()))
        throw NumericError(fmt::format(
            "labels {} to {}: the refined weights have a NaN or Inf; lower head_lr and start again", first,
            last - 1));
    append(rows);
    progress.finish(fmt::format("labels {} to {}, loss of a text {:.4g} to {:.4g}", first, last - 1,
                                done.first_loss, done.last_loss));
    return true;
}

}  // namespace elmo
