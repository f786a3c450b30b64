#include "rank/scored_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "rank/linear_ranking.h"
#include "run/run_data.h"

namespace elmo {
namespace {

Config with_length(Config config, std::int64_t max_length) {
    config.max_length = max_length;
    return config;
}

// The splits that hold the rows to score.
std::vector<SplitName> splits_for(SplitChoice choice) {
    if (choice == SplitChoice::kTest) return {SplitName::kTest};
    if (choice == SplitChoice::kTrain) return {SplitName::kTrain};
    return {SplitName::kTrain, SplitName::kValidation};
}

Dataset open_data(const Context& context, const ReadOptions& reading, const Tokenizer& tokenizer) {
    return Dataset::open(context, reading, tokenizer, nullptr, splits_for(reading.split));
}

}  // namespace

ScoredRows choose_rows(const ReadOptions& reading, const Dataset& dataset) {
    const SplitName asked = splits_for(reading.split).back();
    ScoredRows chosen;
    // Validation rows without a file of their own are among the training rows.
    if (asked == SplitName::kValidation && !dataset.validation().present && dataset.train().present) {
        chosen.name = SplitName::kTrain;
        chosen.split = &dataset.train();
        chosen.rows = split_validation(reading, dataset.train().rows()).validation;
    } else {
        chosen.name = asked;
        chosen.split = &dataset.split(asked);
        chosen.rows = all_rows(chosen.split->rows());
    }
    if (chosen.rows.empty())
        throw DataError(fmt::format("{}: expected {} rows to score, found none; {}", reading.data,
                                    name_of(asked),
                                    asked == SplitName::kValidation
                                        ? "train with --validation above 0, or give rows as --validation FILE"
                                        : "give data that has them, or score others with --split"));
    return chosen;
}

ScoredRun::ScoredRun(const Context& context, const std::string& run, const Config& given)
    : context_(context),
      checkpoint_(run, given.checkpoint),
      spec_(stored_encoder(checkpoint_)),
      tokenizer_(stored_tokenizer(checkpoint_.content())),
      config_(with_usual_numbers(with_length(with_run_reading(given, checkpoint_.config()),
                                             cut_length(context, checkpoint_.config().max_length, spec_)))),
      dataset_(open_data(context, config_, *tokenizer_)) {
    rows_ = choose_rows(config_, dataset_);
    const RunState& state = checkpoint_.state();
    if (dataset_.num_labels() != state.labels || names_hash(dataset_) != state.names_hash) match(run);
}

void ScoredRun::match(const std::string& run) {
    const std::int64_t labels = dataset_.num_labels();
    const auto run_names = checkpoint_.label_names();
    std::vector<std::string_view> names;
    if (dataset_.has_label_names())
        for (std::int64_t label = 0; label < labels; ++label) names.push_back(dataset_.label_name(label));
    const LabelMatch match = match_labels(names, run_names);
    const std::int64_t found = static_cast<std::int64_t>(names.size()) - match.unknown;
    if (2 * found < labels || run_names.empty())
        throw DataError(
            fmt::format("{}: these are not the labels of the run in {}: expected {}{}, found {}{}, of which "
                        "{} are the run's",
                        config_.data, run, checkpoint_.state().labels, run_names.empty() ? "" : " named ones",
                        labels, names.empty() ? "" : " named ones", found));
    matched_ =
        fmt::format("by name: {} of the data's {} are not in the run, {} of the run's {} not in the data",
                    match.unknown, labels, match.missing, run_names.size());
    context_.warning(fmt::format("{}: labels are matched {}", config_.data, matched_));
    unknown_ = match.unknown;
    unknown_counts_.resize(static_cast<std::size_t>(unknown_));
    const auto counts = dataset_.label_counts();
    for (std::size_t label = 0; label < counts.size(); ++label)
        if (const std::int64_t number = match.number[label] - checkpoint_.state().labels; number >= 0)
            unknown_counts_[static_cast<std::size_t>(number)] = counts[label];
    renumbered_ = *rows_.split;
    labels_ = renumber(rows_.split->labels, match);
    filter_ = renumber(rows_.split->filter, match);
    renumbered_.labels.values = labels_;
    renumbered_.filter.values = filter_;
    rows_.split = &renumbered_;
}

std::vector<std::int64_t> ScoredRun::label_counts() const {
    std::vector<std::int64_t> counts = checkpoint_.read_label_counts();
    counts.insert(counts.end(), unknown_counts_.begin(), unknown_counts_.end());
    return counts;
}

void ScoredRun::rank(std::int64_t k, const std::string& title, const TakeRanked& take) const {
    if (checkpoint_.is_linear()) {
        refuse_other_device(config_);
        const LinearRanker ranker(load_linear_model(checkpoint_.content(), checkpoint_.state().labels),
                                  *tokenizer_);
        rank_rows(context_, ranker, *rows_.split, rows_.rows, k, title, take);
        return;
    }
    const std::int64_t labels = checkpoint_.state().labels;
    const BatchPlan plan(*rows_.split, rows_.rows, config_.batch_size);
    const BatchLimits limits = plan.limits(context_, 0, plan.steps_per_epoch());
    RunShape shape;
    shape.batch = std::min<std::int64_t>(config_.batch_size, plan.num_rows());
    shape.tokens = std::max<std::int64_t>(limits.tokens, 1);
    shape.longest = std::max<std::int64_t>(limits.longest_row, 1);
    shape.top_k = std::min(k + longest_filter(*rows_.split), labels);
    shape.training = false;
    shape.mapped_bytes = dataset_.mapped_bytes();
    shape.table_bytes =
        16 * plan.num_rows() + 16 * labels + 4 * static_cast<std::int64_t>(labels_.size() + filter_.size());
    Engine engine(context_, config_, {spec_, stored_head(checkpoint_.content())}, shape);
    engine.allocate();
    engine.load(checkpoint_.content());
    rank_rows(context_, engine, plan, *rows_.split, k, title, take);
}

}  // namespace elmo
