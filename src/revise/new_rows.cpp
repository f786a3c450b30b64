#include "revise/new_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/progress.h"
#include "batches/batcher.h"
#include "elmo/error.h"
#include "train/schedule.h"

namespace elmo {
namespace {

constexpr std::int64_t kSampledLabels = 2000;
constexpr std::int64_t kSampledRows = 20000;

EncoderSpec frozen_spec(const Checkpoint& checkpoint, const Config& config) {
    EncoderSpec spec = read_encoder_spec(checkpoint.content());
    spec.frozen = true;
    spec.pooled_dropout = static_cast<float>(config.dropout);
    return spec;
}

RunShape shape_of(const Context& context, const Config& config, std::int64_t max_length,
                  const NewLabelData& data, bool training) {
    RunShape shape;
    shape.batch = config.batch_size;
    shape.longest = max_length * config.windows;
    shape.tokens = config.batch_size * shape.longest;
    shape.training = training;
    if (data.split != nullptr) {
        const BatchPlan plan(*data.split, all_rows(data.split->rows()), config.batch_size, config.seed);
        if (training) shape.positives = plan.limits(context, 0, config.steps).positives;
        shape.table_bytes = 8 * data.split->rows();
    }
    return shape;
}

std::vector<double> mean_of(std::span<const float> rows, std::int64_t width) {
    std::vector<double> mean(static_cast<std::size_t>(width));
    const std::size_t count = rows.size() / mean.size();
    for (std::size_t i = 0; i < rows.size(); ++i) mean[i % mean.size()] += rows[i];
    for (double& value : mean) value /= static_cast<double>(std::max<std::size_t>(count, 1));
    return mean;
}

// Labels at even steps through the training positives; through the labels where there are none. Ascending.
std::vector<std::int64_t> sample_labels(const std::vector<std::int64_t>& counts) {
    const auto labels = static_cast<std::int64_t>(counts.size());
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    std::vector<std::int64_t> sample;
    const std::int64_t wanted = std::min(labels, kSampledLabels);
    if (total == 0) {
        for (std::int64_t i = 0; i < wanted; ++i) sample.push_back(labels * i / wanted);
        return sample;
    }
    std::int64_t sum = 0;
    double next = 0.5;
    for (std::int64_t label = 0; label < labels; ++label) {
        sum += counts[static_cast<std::size_t>(label)];
        const double reached =
            static_cast<double>(sum) / static_cast<double>(total) * static_cast<double>(wanted);
        if (reached < next) continue;
        sample.push_back(label);
        next = std::floor(reached - 0.5) + 1.5;
    }
    return sample;
}

}  // namespace

NewRows::NewRows(const Context& context, const Checkpoint& checkpoint, const Tokenizer& tokenizer,
                 const Config& config, std::int64_t max_length, std::int64_t labels, const NewLabelData& data,
                 bool training)
    : context_(context),
      checkpoint_(checkpoint),
      tokenizer_(tokenizer),
      config_(config),
      max_length_(max_length),
      labels_(labels),
      data_(data),
      engine_(context, config, training_parts(config, frozen_spec(checkpoint, config), labels),
              shape_of(context, config, max_length, data, training)) {
    engine_.allocate();
    engine_.encoder().load_weights(checkpoint.content());
    width_ = engine_.head().width();
}

std::vector<float> NewRows::forward(std::span<const std::int32_t> tokens,
                                    std::span<const std::int32_t> offsets) {
    const View x_BD = engine_.encoder().forward({tokens, offsets}, false, 0, 0);
    std::vector<Bf16> stored(static_cast<std::size_t>(x_BD.size()));
    assert(x_BD.dtype == DType::kBf16);
    engine_.backend().download(stored.data(), x_BD);
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

NewRows::Rule NewRows::fit(std::span<const float> w, std::span<const float> v, std::int64_t width) {
    Rule rule{mean_of(w, width), mean_of(v, width)};
    double product = 0, square = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        const std::size_t d = i % rule.w_mean.size();
        product += (w[i] - rule.w_mean[d]) * (v[i] - rule.v_mean[d]);
        square += (v[i] - rule.v_mean[d]) * (v[i] - rule.v_mean[d]);
    }
    rule.slope = square > 0 ? product / square : 0;
    return rule;
}

NewRows::Means NewRows::means_of(const std::vector<std::int64_t>& label_of, std::int64_t count,
                                 std::int64_t most) {
    Means means{std::vector<float>(static_cast<std::size_t>(count * width_)),
                std::vector<std::int64_t>(static_cast<std::size_t>(count))};
    std::vector<std::int64_t> rows, taken;
    for (std::int64_t row = 0; row < data_.split->rows(); ++row) {
        const auto labels = data_.split->labels.row(row);
        if (std::any_of(labels.begin(), labels.end(), [&](std::uint32_t l) { return label_of[l] >= 0; }))
            rows.push_back(row);
    }
    if (rows.empty()) return means;
    const auto num_rows = static_cast<std::int64_t>(rows.size());
    for (std::int64_t i = 0; i < std::min(num_rows, most); ++i)
        taken.push_back(rows[static_cast<std::size_t>(num_rows * i / std::min(num_rows, most))]);
    const BatchPlan plan(*data_.split, std::move(taken), config_.batch_size);
    Progress progress(context_, "encoding texts", plan.num_rows(), "texts");
    BatchReader reader(plan, 0, plan.steps_per_epoch());
    std::vector<double> sums(means.vectors.size());
    std::int64_t done = 0;
    while (const Batch* batch = reader.next()) {
        const auto vectors = forward(batch->tokens, batch->offsets);
        for (std::int64_t b = 0; b < batch->size(); ++b)
            for (std::int64_t i = batch->label_offsets[b]; i < batch->label_offsets[b + 1]; ++i) {
                const std::int64_t label = label_of[batch->labels[i]];
                if (label < 0) continue;
                ++means.rows[static_cast<std::size_t>(label)];
                for (std::int64_t d = 0; d < width_; ++d)
                    sums[static_cast<std::size_t>(label * width_ + d)] +=
                        vectors[static_cast<std::size_t>(b * width_ + d)];
            }
        done += batch->size();
        progress.update(done);
    }
    progress.finish();
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const std::int64_t n = means.rows[i / static_cast<std::size_t>(width_)];
        means.vectors[i] = n > 0 ? static_cast<float>(sums[i] / static_cast<double>(n)) : 0;
    }
    return means;
}

void NewRows::start(const LabelTable& run_labels, std::span<const std::string_view> texts,
                    LabelChange& change) {
    const std::vector<std::int64_t> sample = sample_labels(run_labels.counts);
    std::vector<std::string_view> names;
    for (const std::int64_t label : sample)
        names.push_back(run_labels.names[static_cast<std::size_t>(label)]);
    const std::vector<float> w = read_head_rows(checkpoint_.content(), sample);
    const Rule by_text = fit(w, vectors_of(names), width_);

    Rule by_data = by_text;
    Means found{{}, std::vector<std::int64_t>(static_cast<std::size_t>(labels_))};
    if (data_.split != nullptr) {
        found = means_of(data_.new_label, labels_, data_.split->rows());
        std::vector<std::int64_t> sampled(data_.known_label.size(), -1);
        for (std::size_t i = 0; i < sampled.size(); ++i) {
            const auto at = std::lower_bound(sample.begin(), sample.end(), data_.known_label[i]);
            if (at != sample.end() && *at == data_.known_label[i]) sampled[i] = at - sample.begin();
        }
        const Means known = means_of(sampled, static_cast<std::int64_t>(sample.size()), kSampledRows);
        std::vector<float> w_seen, v_seen;
        for (std::size_t i = 0; i < sample.size(); ++i) {
            if (known.rows[i] == 0) continue;
            const auto first = static_cast<std::ptrdiff_t>(i) * width_;
            w_seen.insert(w_seen.end(), w.begin() + first, w.begin() + first + width_);
            v_seen.insert(v_seen.end(), known.vectors.begin() + first,
                          known.vectors.begin() + first + width_);
        }
        if (const Rule rule = fit(w_seen, v_seen, width_); rule.slope > 0) by_data = rule;
    }

    const std::vector<float> own = vectors_of(texts);
    std::vector<float> start(own.size());
    for (std::int64_t l = 0; l < labels_; ++l) {
        const bool from_data = found.rows[static_cast<std::size_t>(l)] > 0;
        ++(from_data ? change.from_data : change.from_text);
        const Rule& rule = from_data ? by_data : by_text;
        const float* vector = (from_data ? found.vectors : own).data() + l * width_;
        for (std::int64_t d = 0; d < width_; ++d) {
            const auto column = static_cast<std::size_t>(d);
            start[static_cast<std::size_t>(l * width_ + d)] = static_cast<float>(
                rule.w_mean[column] + std::max(rule.slope, 0.0) * (vector[d] - rule.v_mean[column]));
        }
    }
    change.slope = change.from_data > 0 ? by_data.slope : by_text.slope;
    if (!(change.slope > 0))
        context_.warning(
            "the run's rows do not follow the names of their labels, so new rows start at the mean row: "
            "train "
            "them (--data, --steps)");
    engine_.head().assign(start);
}

void NewRows::train(LabelChange& change) {
    const BatchPlan plan(*data_.split, all_rows(data_.split->rows()), config_.batch_size, config_.seed);
    const Schedule schedule = make_schedule(config_, config_.steps);
    change.loss_steps = std::clamp<std::int64_t>(config_.steps / 2, 1, plan.steps_per_epoch());
    std::int64_t first_texts = 0, last_texts = 0;
    Progress progress(context_, "training new labels", config_.steps, "steps");
    BatchReader reader(plan, 0, config_.steps,
                       [&](std::int64_t label) { return data_.new_label[static_cast<std::size_t>(label)]; });
    while (const Batch* batch = reader.next()) {
        const std::int64_t step = ++change.steps;
        const bool early = step <= change.loss_steps, late = step > config_.steps - change.loss_steps;
        StepInput in;
        in.texts = {batch->tokens, batch->offsets};
        in.positives = batch->positives;
        in.seed = config_.seed;
        in.step = static_cast<std::uint64_t>(step);
        in.head_lr = static_cast<float>(config_.head_lr * schedule.factor(step));
        in.head_weight_decay = static_cast<float>(config_.head_weight_decay);
        in.want_loss = early || late;
        const HeadStepResult result = train_step(engine_, in).head;
        if (result.non_finite >= 0 || !std::isfinite(result.loss_sum))
            throw NumericError(fmt::format(
                "step {}: the new rows met a NaN or Inf; nothing was written; lower head_lr", step));
        if (early) change.first_loss += result.loss_sum, first_texts += batch->size();
        if (late) change.last_loss += result.loss_sum, last_texts += batch->size();
        progress.update(step);
    }
    change.first_loss /= static_cast<double>(std::max<std::int64_t>(first_texts, 1));
    change.last_loss /= static_cast<double>(std::max<std::int64_t>(last_texts, 1));
    progress.finish();
}

}  // namespace elmo
