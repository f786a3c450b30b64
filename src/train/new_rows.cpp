#include "train/new_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "data/batcher.h"
#include "train/schedule.h"

namespace elmo {
namespace {

constexpr std::int64_t kSampledLabels = 2000;

EncoderSpec frozen_spec(const Checkpoint& checkpoint, const Config& config) {
    EncoderSpec spec = read_encoder_spec(checkpoint.folder());
    spec.frozen = true;
    spec.pooled_dropout = static_cast<float>(config.dropout);
    return spec;
}

RunShape shape_of(const Config& config, std::int64_t max_length, std::int64_t labels,
                  const NewLabelData& data, bool training) {
    RunShape shape;
    shape.labels = labels;
    shape.batch = config.batch_size;
    shape.tokens = config.batch_size * max_length;
    shape.longest = max_length;
    shape.training = training;
    if (data.split != nullptr) {
        const BatchPlan plan(*data.split, all_rows(data.split->rows()), config.batch_size, config.seed);
        if (training) shape.positives = plan.limits(0, config.steps).positives;
        shape.table_bytes = 8 * data.split->rows();
    }
    return shape;
}

std::vector<double> mean_of(const std::vector<float>& rows, std::int64_t width) {
    std::vector<double> mean(static_cast<std::size_t>(width));
    const std::size_t count = rows.size() / mean.size();
    for (std::size_t i = 0; i < rows.size(); ++i) mean[i % mean.size()] += rows[i];
    for (double& value : mean) value /= static_cast<double>(std::max<std::size_t>(count, 1));
    return mean;
}

// Least squares of w - w_mean on v - v_mean, one number for all labels and columns.
double slope_of(const std::vector<float>& w, const std::vector<double>& w_mean, const std::vector<float>& v,
                const std::vector<double>& v_mean) {
    double product = 0, square = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        const std::size_t d = i % w_mean.size();
        product += (w[i] - w_mean[d]) * (v[i] - v_mean[d]);
        square += (v[i] - v_mean[d]) * (v[i] - v_mean[d]);
    }
    return square > 0 ? product / square : 0;
}

}  // namespace

NewRows::NewRows(const Checkpoint& checkpoint, const Tokenizer& tokenizer, const Config& config,
                 std::int64_t max_length, std::int64_t labels, const NewLabelData& data, bool training)
    : checkpoint_(checkpoint),
      tokenizer_(tokenizer),
      config_(config),
      max_length_(max_length),
      labels_(labels),
      data_(data),
      session_(config, frozen_spec(checkpoint, config),
               shape_of(config, max_length, labels, data, training)) {
    session_.allocate();
    session_.encoder().initialise(0);
    width_ = session_.head().width();
}

std::vector<float> NewRows::forward(std::span<const std::int32_t> tokens,
                                    std::span<const std::int32_t> offsets) {
    session_.backend().begin_batch(tokens, offsets);
    const View x_BD = session_.encoder().forward({tokens, offsets}, false, 0, 0);
    std::vector<Bf16> stored(static_cast<std::size_t>(x_BD.size()));
    assert(x_BD.dtype == DType::kBf16);
    session_.backend().download(stored.data(), x_BD);
    std::vector<float> values(stored.size());
    for (std::size_t i = 0; i < stored.size(); ++i) values[i] = to_float(stored[i]);
    return values;
}

std::vector<float> NewRows::vectors_of(std::span<const std::string_view> texts) {
    std::vector<float> result;
    result.reserve(texts.size() * static_cast<std::size_t>(width_));
    std::vector<std::int32_t> tokens, offsets, ids;
    for (std::size_t first = 0; first < texts.size(); first += static_cast<std::size_t>(config_.batch_size)) {
        tokens.clear();
        offsets.assign(1, 0);
        const auto count = std::min(texts.size() - first, static_cast<std::size_t>(config_.batch_size));
        for (const std::string_view text : texts.subspan(first, count)) {
            tokenizer_.encode(text, max_length_, ids);
            tokens.insert(tokens.end(), ids.begin(), ids.end());
            offsets.push_back(static_cast<std::int32_t>(tokens.size()));
        }
        const auto vectors = forward(tokens, offsets);
        result.insert(result.end(), vectors.begin(), vectors.end());
    }
    return result;
}

void NewRows::add_data(std::vector<double>& sums, std::vector<std::int64_t>& rows) {
    if (data_.split == nullptr) return;
    // Rows without a new label need not be encoded.
    std::vector<std::int64_t> with_new;
    for (std::int64_t row = 0; row < data_.split->rows(); ++row) {
        const auto labels = data_.split->labels.row(row);
        if (std::any_of(labels.begin(), labels.end(),
                        [&](std::uint32_t l) { return data_.new_label[l] >= 0; }))
            with_new.push_back(row);
    }
    if (with_new.empty()) return;
    const BatchPlan plan(*data_.split, std::move(with_new), config_.batch_size);
    Progress progress("encoding texts", plan.num_rows(), "texts");
    BatchReader reader(plan, 0, plan.steps_per_epoch());
    std::int64_t done = 0;
    while (const Batch* batch = reader.next()) {
        const auto vectors = forward(batch->tokens, batch->offsets);
        for (std::int64_t b = 0; b < batch->size(); ++b)
            for (std::int64_t i = batch->label_offsets[b]; i < batch->label_offsets[b + 1]; ++i) {
                const std::int64_t label = data_.new_label[batch->labels[i]];
                if (label < 0) continue;
                ++rows[static_cast<std::size_t>(label)];
                for (std::int64_t d = 0; d < width_; ++d)
                    sums[static_cast<std::size_t>(label * width_ + d)] +=
                        vectors[static_cast<std::size_t>(b * width_ + d)];
            }
        done += batch->size();
        progress.update(done);
    }
    progress.finish();
}

void NewRows::start(const std::vector<std::string_view>& run_names, std::span<const std::string_view> texts,
                    LabelChange& change) {
    const auto known = static_cast<std::int64_t>(run_names.size());
    const std::int64_t sampled = std::min(known, kSampledLabels);
    std::vector<std::int64_t> sample;
    std::vector<std::string_view> sample_names;
    for (std::int64_t i = 0; i < sampled; ++i) {
        sample.push_back(known * i / sampled);
        sample_names.push_back(run_names[static_cast<std::size_t>(sample.back())]);
    }
    const std::vector<float> w = read_head_rows(checkpoint_.folder(), sample), v = vectors_of(sample_names);
    const std::vector<double> w_mean = mean_of(w, width_), v_mean = mean_of(v, width_);
    change.slope = slope_of(w, w_mean, v, v_mean);
    if (!(change.slope > 0)) {
        log_warning(
            "the run's rows do not follow the names of their labels, so new rows start at the mean row: "
            "train "
            "them (--data, --steps)");
        change.slope = 0;
    }

    std::vector<double> sums(static_cast<std::size_t>(labels_ * width_));
    std::vector<std::int64_t> rows(static_cast<std::size_t>(labels_));
    add_data(sums, rows);
    const std::vector<float> own = vectors_of(texts);
    std::vector<float> start(sums.size());
    for (std::int64_t l = 0; l < labels_; ++l) {
        const std::int64_t count = rows[static_cast<std::size_t>(l)];
        ++(count > 0 ? change.from_data : change.from_text);
        for (std::int64_t d = 0; d < width_; ++d) {
            const auto i = static_cast<std::size_t>(l * width_ + d), column = static_cast<std::size_t>(d);
            const double vector = count > 0 ? sums[i] / static_cast<double>(count) : own[i];
            start[i] = static_cast<float>(w_mean[column] + change.slope * (vector - v_mean[column]));
        }
    }
    session_.head().assign(start);
}

void NewRows::train(LabelChange& change) {
    const BatchPlan plan(*data_.split, all_rows(data_.split->rows()), config_.batch_size, config_.seed);
    const Schedule schedule = make_schedule(config_, config_.steps);
    Progress progress("training new labels", config_.steps, "steps");
    BatchReader reader(plan, 0, config_.steps);
    std::vector<Positive> positives;
    while (const Batch* batch = reader.next()) {
        const std::int64_t step = ++change.steps;
        positives.clear();
        for (std::int64_t b = 0; b < batch->size(); ++b)
            for (std::int64_t i = batch->label_offsets[b]; i < batch->label_offsets[b + 1]; ++i)
                if (const std::int64_t label = data_.new_label[batch->labels[i]]; label >= 0)
                    positives.push_back({label, static_cast<std::int32_t>(b)});
        std::sort(positives.begin(), positives.end(), [](const Positive& x, const Positive& y) {
            return x.label < y.label || (x.label == y.label && x.sample < y.sample);
        });
        session_.backend().begin_batch(batch->tokens, batch->offsets);
        const View x_BD = session_.encoder().forward({batch->tokens, batch->offsets}, true, config_.seed,
                                                     static_cast<std::uint64_t>(step));
        const bool last = step == config_.steps;
        const HeadStepResult result = session_.head().step(
            x_BD, positives, static_cast<float>(config_.head_lr * schedule.factor(step)),
            static_cast<float>(config_.head_weight_decay), config_.seed, static_cast<std::uint64_t>(step),
            step == 1 || last, session_.head_grad(batch->size()));
        const double loss = result.loss_sum / static_cast<double>(batch->size());
        if (result.non_finite >= 0 || !std::isfinite(loss))
            throw NumericError(fmt::format(
                "step {}: the new rows met a NaN or Inf; nothing was written; lower head_lr", step));
        if (step == 1) change.first_loss = loss;
        if (last) change.last_loss = loss;
        progress.update(step);
    }
    progress.finish();
}

}  // namespace elmo
