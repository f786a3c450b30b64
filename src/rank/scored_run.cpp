#include "rank/scored_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/said_once.h"
#include "base/text_util.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "data/unknown_texts.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "engine/engine.h"
#include "io/checksum.h"
#include "rank/linear_ranking.h"
#include "ranks/collectives.h"
#include "run/run_data.h"
#include "sources/layout.h"

namespace elmo {
namespace {

// More than this share: the data is what the run was trained on, under another name or in another form.
constexpr double kOwnShare = 0.5;

// Why the data was taken for the run's own before a row of it was read.
bool is_by_name_or_bytes(std::string_view reason) {
    return reason == kOwnData || reason == kHeldOutOtherwise || reason == kNothingHeldOut;
}

Config with_length(Config config, std::int64_t max_length) {
    config.max_length = max_length;
    return config;
}

std::int64_t count_rows(const std::vector<ScoredRows>& parts) {
    std::int64_t rows = 0;
    for (const ScoredRows& part : parts) rows += static_cast<std::int64_t>(part.rows.size());
    return rows;
}

std::int64_t count_trained(const TrainedTexts& texts, const std::vector<ScoredRows>& parts,
                           const Tokenizer& tokenizer) {
    std::int64_t rows = 0;
    for (const ScoredRows& part : parts)
        rows += texts.count(part.split->tokens, known_rows(part.split->tokens, part.rows, tokenizer));
    return rows;
}

// Those that count_trained does not count.
std::vector<std::int64_t> untrained_rows(const TrainedTexts& texts, const ScoredRows& part,
                                         const Tokenizer& tokenizer) {
    const TokenRows& tokens = part.split->tokens;
    const std::vector<std::int64_t> known = known_rows(tokens, part.rows, tokenizer),
                                    others = texts.others(tokens, known);
    std::vector<std::int64_t> trained, rows;
    std::ranges::set_difference(known, others, std::back_inserter(trained));
    std::ranges::set_difference(part.rows, trained, std::back_inserter(rows));
    return rows;
}

std::int64_t count_unknown(const std::vector<ScoredRows>& parts, const Tokenizer& tokenizer) {
    std::int64_t rows = 0;
    for (const ScoredRows& part : parts)
        rows += std::ranges::count_if(part.rows, [&](std::int64_t row) {
            return is_mostly_unknown(part.split->tokens.row(row), tokenizer);
        });
    return rows;
}

// Whether more than a share of the texts that the tokenizer knows trained the run. Nothing where it knows
// less than a tenth of them.
std::optional<bool> are_trained(std::int64_t trained, std::int64_t unknown,
                                const std::vector<ScoredRows>& parts, double share) {
    const std::int64_t rows = count_rows(parts), known = rows - unknown;
    if (10 * known < rows) return std::nullopt;
    return static_cast<double>(trained) > share * static_cast<double>(known);
}

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
    refuse_vectors(checkpoint, "scoring");
    return stored_tokenizer(checkpoint.content());
}

Dataset open_data(const Context& context, const ReadOptions& reading, const Tokenizer& tokenizer) {
    return Dataset::open(context, reading, tokenizer, nullptr, splits_for(reading.split));
}

Dataset open_scored(const Context& context, const Checkpoint& checkpoint, const Config& config,
                    const Tokenizer& tokenizer) {
    if (!checkpoint.is_linear()) require_device(context, config);
    return open_data(context, config, tokenizer);
}

Context warnings_only(const Context& context) {
    Sinks sinks = context.sinks();
    sinks.message = [message = sinks.message](Severity severity, std::string_view text) {
        if (severity == Severity::kWarning && message) message(severity, text);
    };
    return context.with_sinks(std::move(sinks));
}

}  // namespace

ScoredRun::ScoredRun(const Context& context, const std::string& run, Checkpoint checkpoint,
                     const Config& given, std::string called)
    : context_(context),
      called_(std::move(called)),
      checkpoint_(std::move(checkpoint)),
      spec_(stored_encoder(checkpoint_)),
      tokenizer_(tokenizer_of(checkpoint_)),
      config_(with_usual_numbers(
          with_length(with_scored_split(with_run_reading(given, checkpoint_.config()), checkpoint_.config()),
                      cut_length(context, checkpoint_.config().max_length, spec_)))),
      dataset_(open_scored(context, checkpoint_, config_, *tokenizer_)) {
    choose_parts(given);
    for (const ScoredRows& part : parts_) {
        dataset_.warn_of_unseen(context_, part.name);
        dataset_.warn_of_missing_columns(context_, part.name, [&] { return checkpoint_.label_names(); });
    }
    const RunState& state = checkpoint_.state();
    if (dataset_.num_labels() != state.labels || names_hash(dataset_) != state.names_hash) match(run);
}

std::string ScoredRun::scored_data() const {
    const std::filesystem::path file =
        config_.split == "validation" ? parse_validation(config_).file : std::filesystem::path();
    return file.empty() ? config_.data : file.string();
}

// Where the data has as many training rows as the run, they are the run's under another name or in another
// form: then the test rows, as of its own data. Else the rows whose texts did not train it.
void ScoredRun::choose_untrained(const Config& given, const TrainedTexts& texts) {
    const Config& of_run = checkpoint_.config();
    const auto say = [&](const std::string& which, std::int64_t rows) {
        context_.info(fmt::format(
            "{}: {} of {} texts trained {}{}: {} are scored (--split all scores all)", config_.data,
            with_commas(trained_rows_), with_commas(num_rows()), called_,
            untold_rows_ > 0
                ? fmt::format(", and its tokenizer knows too little of {} to tell", with_commas(untold_rows_))
                : "",
            fmt::format(fmt::runtime(which), with_commas(rows))));
        offered_rows_ = num_rows();
    };
    try {
        Config own = with_usual_numbers(with_length(
            with_scored_split(with_run_reading(given, of_run), of_run, true), config_.max_length));
        Dataset held_out = open_data(without_messages(context_), own, *tokenizer_);
        const auto parts = choose_rows(own, held_out);
        const bool same = held_out.train().rows() == checkpoint_.state().train_rows;
        const std::int64_t trained = count_trained(texts, parts, *tokenizer_);
        if ((same || !texts.is_whole()) &&
            !are_trained(trained, count_unknown(parts, *tokenizer_), parts, kOwnShare).value_or(false)) {
            say(same ? "the {} that it held out" : "{} of the others", count_rows(parts));
            config_ = std::move(own);
            dataset_ = std::move(held_out);
            parts_ = choose_rows(config_, dataset_);
            trained_rows_ = trained;
            return;
        }
    } catch (const DataError&) {  // nothing was held out of it
    }
    if (!texts.is_whole()) return;
    std::vector<std::int64_t> rows = untrained_rows(texts, parts_.front(), *tokenizer_);
    // No more than validated the run: a training file without its test rows.
    const double validated = validation_share(of_run) * static_cast<double>(num_rows());
    if (static_cast<double>(rows.size()) <= validated + 3 * std::sqrt(validated)) {
        if (reason_of(config_, "split") != kNothingHeldOut)
            choose_option<std::string>(config_, "split", &Config::split, "all",
                                       "nearly all of the data's rows trained the run, and the others are "
                                       "hardly more than validated it");
        return;
    }
    say("the other {}", std::ssize(rows));
    // Of the whole data, where no label is left out because only these rows have it.
    parts_ = {{&dataset_.train(), SplitName::kTrain, std::move(rows)}};
    choose_option<std::string>(
        config_, "split", &Config::split, "test",
        untold_rows_ > 0
            ? "most of the data's rows that its tokenizer knows trained the run: those whose texts did not"
            : "most of the data's rows trained the run: those whose texts did not");
    trained_rows_ = count_trained(texts, parts_, *tokenizer_);
}

// Whether what bears the name of the run's data has other rows than those that trained it: less than half of
// its rows did, and less than half of these are there, so that it did not just grow.
bool ScoredRun::is_other_data(const TrainedTexts& texts) const {
    if (texts.empty()) return false;
    const bool alike = names_hash(dataset_) == checkpoint_.state().names_hash &&
                       std::ranges::equal(dataset_.label_counts(), checkpoint_.read_label_counts());
    if (alike) return false;  // told without reading a text
    Config training = config_;
    training.split = "train";
    copy_option(training, checkpoint_.config(), "text_column");  // of these it knows the texts
    std::optional<Dataset> read;
    try {
        read = open_data(without_messages(context_), training, *tokenizer_);
    } catch (const DataError&) {  // it has no such column
        return true;
    }
    const Dataset& opened = *read;
    if (opened.train().rows() == 0) return false;
    const auto parts = choose_rows(training, opened);
    const std::int64_t trained = count_trained(texts, parts, *tokenizer_);
    return 2 * trained < checkpoint_.state().train_rows &&
           !are_trained(trained, count_unknown(parts, *tokenizer_), parts, kOwnShare).value_or(true);
}

// A run keeps the path of its data as it was given. From another folder, or later, it may lead to another
// file.
void ScoredRun::leave_other_data(const Config& given, const TrainedTexts& texts) {
    const ReadOptions reading(config_);
    const bool nobody_named_it = reading.data_named_by_run,
               as_own = given.split == "auto" && is_by_name_or_bytes(reason_of(config_, "split"));
    if ((!nobody_named_it && !as_own) || !is_other_data(texts)) return;
    if (nobody_named_it)
        throw DataError(fmt::format(
            "{}: expected the data that trained {}, found other rows; the run keeps this path as it "
            "was given: name the data, as it is called from here",
            reading.data_name, called_));
    const bool has_test_file = !files_with_nothing_held_out(config_).test.labels.empty();
    if (has_test_file || reading.test_share_given)
        choose_option<std::string>(config_, "split", &Config::split, "test",
                                   has_test_file ? kOwnTestRows : "test_share is given");
    else
        score_all(kOtherData);
}

void ScoredRun::score_all(const char* reason) {
    config_ = with_all_rows(std::move(config_), reason);
    dataset_ = open_data(warnings_only(context_), config_, *tokenizer_);
}

void ScoredRun::choose_parts(const Config& given) {
    const TrainedTexts texts = TrainedTexts::load(checkpoint_.content());
    leave_other_data(given, texts);
    // Rows of its own file that the run may or may not have held out.
    const bool open = given.split == "auto" && config_.split == "test" && !elmo::given(given, "test_share") &&
                      find_layout(config_).splits_by_hash();
    if (open && dataset_.test().rows() == 0) score_all(kNothingHeldOut);  // the training half of such a file
    parts_ = choose_rows(config_, dataset_);
    trained_rows_ = count_trained(texts, parts_, *tokenizer_);
    untold_rows_ = count_unknown(parts_, *tokenizer_);
    const auto trained = [&](double share) {
        return are_trained(trained_rows_, untold_rows_, parts_, share).value_or(false);
    };
    const Config& of_run = checkpoint_.config();
    const bool is_own_test_file = config_.split == "all" && is_test_file_of_run(config_, of_run);
    if (given.split == "auto" && config_.split == "all" && !is_own_test_file && trained(kOwnShare)) {
        choose_untrained(given, texts);
    }
    // By its name or bytes the run's own data, but what is held out of it trained the run: a training file
    // without the test file that it had beside it.
    else if (open && trained(kOwnShare) && dataset_.train().rows() != checkpoint_.state().train_rows) {
        score_all(kNothingHeldOut);
        parts_ = choose_rows(config_, dataset_);
        trained_rows_ = count_trained(texts, parts_, *tokenizer_);
    }
    untold_rows_ = count_unknown(parts_, *tokenizer_);
    if (const std::string line = unknown_line(untold_rows_, num_rows()); !line.empty())
        context_.warning(fmt::format("{}: {}", scored_data(), line));
    if (are_held_out_otherwise(config_, of_run) && !is_other_data(texts))
        context_.warning(fmt::format(
            "{}: the {} rows of {} were held out by the text of --text-column {}; those held out by "
            "the text of {} may have trained it: {}score a file that did not",
            config_.data, config_.split, called_, of_run.text_column, config_.text_column,
            called_ == kThisRun ? "leave --text-column out, or " : ""));
    const double too_many = offered_rows_ > 0 || is_own_test_file || is_runs_own_split(config_, of_run)
                                ? kOwnShare
                                : kManyTrained;
    // A share of a training file whose test rows were elsewhere: all of the file trained the run.
    const bool asks_for_share = config_.split == "test" && ReadOptions(given).test_share_given,
               all_trained = asks_for_share && dataset_.train().rows() + dataset_.test().rows() ==
                                                   checkpoint_.state().train_rows;
    if (all_trained)
        choose_option<std::string>(config_, "split", &Config::split, "test", "test_share is given");
    if (config_.split != "train" && trained(too_many))
        context_.warning(
            fmt::format("{}: {} of {} scored texts trained {}, or are alike to its tokenizer; their scores "
                        "say little about new texts{}",
                        scored_data(), with_commas(trained_rows_), with_commas(num_rows()), called_,
                        config_.split == "validation" ? ": give rows that did not train it"
                        : all_trained ? ", and so did the other rows: give rows that did not train it"
                        : asks_for_share && is_own_data(config_, of_run)
                            ? ": leave --test-share out to score those that it held out"
                            : ""));
}

void ScoredRun::match(const std::string& run) {
    const std::int64_t labels = dataset_.num_labels();
    std::vector<std::string_view> run_names = checkpoint_.label_names(), names;
    if (dataset_.has_label_names())
        for (std::int64_t label = 0; label < labels; ++label) names.push_back(dataset_.label_name(label));
    std::vector<std::string> numbers;  // which name the labels of a run without names, as in its answers
    if (run_names.empty() && !names.empty()) {
        for (std::int64_t label = 0; label < checkpoint_.state().labels; ++label)
            numbers.push_back(std::to_string(label));
        run_names.assign(numbers.begin(), numbers.end());
    }
    const auto refuse = [&](const std::string& why) {
        throw DataError(fmt::format(
            "{}: these are not the labels of the run in {}: expected {}{}, found {}{}{}", config_.data, run,
            checkpoint_.state().labels, run_names.empty() || !numbers.empty() ? "" : " named ones", labels,
            names.empty() ? "" : " named ones", why));
    };
    LabelMatch match = match_labels_but_blanks(names, run_names);
    if (names.empty() || (!numbers.empty() && match.unknown == labels))
        refuse("; labels are the same by their names, or without names by their number");
    const auto counted_rows = dataset_.label_counts();
    std::vector<std::int64_t> counts(counted_rows.begin(), counted_rows.end());
    const std::int64_t found = static_cast<std::int64_t>(names.size()) - match.unknown;
    // Of a long tail most labels of a test file may be new: then those that its rows have most are known.
    const std::int64_t positives = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    std::int64_t known = 0;
    for (std::size_t label = 0; label < match.number.size(); ++label)
        if (match.number[label] < checkpoint_.state().labels) known += counts[label];
    if (2 * found < labels && 2 * known <= positives) {
        std::size_t example = 0;  // the commonest that the run does not have
        std::int64_t most = -1;
        for (std::size_t label = 0; label < match.number.size(); ++label)
            if (match.number[label] >= checkpoint_.state().labels && counts[label] > most) {
                most = counts[label];
                example = label;
            }
        std::size_t other = 0;  // the first that the data does not have
        while (std::ranges::find(match.number, static_cast<std::int64_t>(other)) != match.number.end())
            ++other;
        refuse(
            fmt::format(", of which {} are the run's ({} of {} positives): the data has '{}', for example, "
                        "and the run '{}'; if "
                        "labels are written otherwise here, say so with --label-column or --label-separator",
                        found, with_commas(known), with_commas(positives), quoted(names[example]),
                        quoted(run_names[other < run_names.size() ? other : 0])));
    }
    matched_ = match.unknown == 0
                   ? fmt::format("by name: all {} of the data are in the run, which has {}",
                                 with_commas(labels), with_commas(std::ssize(run_names)))
                   : fmt::format(
                         "by name: {} of the data's {} are not in the run, {} of the run's {} not in "
                         "the data",
                         with_commas(match.unknown), with_commas(labels), with_commas(match.missing),
                         with_commas(std::ssize(run_names)));
    unknown_ = match.unknown;
    missing_ = match.missing;
    data_numbers_.assign(static_cast<std::size_t>(checkpoint_.state().labels), -1);
    for (std::size_t label = 0; label < match.number.size(); ++label)
        if (match.number[label] < checkpoint_.state().labels)
            data_numbers_[static_cast<std::size_t>(match.number[label])] = static_cast<std::int64_t>(label);
    if (unknown_ > 0) context_.warning(fmt::format("{}: labels are matched {}", config_.data, matched_));
    unknown_counts_.resize(static_cast<std::size_t>(unknown_));
    unknown_names_.resize(static_cast<std::size_t>(unknown_));
    for (std::size_t label = 0; label < counts.size(); ++label)
        if (const std::int64_t number = match.number[label] - checkpoint_.state().labels;
            number >= 0 && number < unknown_) {
            unknown_counts_[static_cast<std::size_t>(number)] = counts[label];
            unknown_names_[static_cast<std::size_t>(number)] = names[label];
        }
    for (ScoredRows& part : parts_) {
        Renumbered& as_run = *renumbered_.emplace_back(std::make_unique<Renumbered>());
        as_run.split = *part.split;
        as_run.labels = renumber(part.split->labels, match);
        as_run.filter = renumber(part.split->filter, match);
        as_run.split.labels.values = as_run.labels;
        as_run.split.filter.values = as_run.filter;
        part.split = &as_run.split;
    }
}

std::string ScoredRun::label_name(std::int64_t label) const {
    const std::int64_t beyond = label - checkpoint_.state().labels;
    if (beyond >= 0) return std::string(unknown_names_[static_cast<std::size_t>(beyond)]);
    return names_.empty() ? std::to_string(label) : std::string(names_[static_cast<std::size_t>(label)]);
}

std::int64_t ScoredRun::num_rows() const {
    return count_rows(parts_);
}

std::uint64_t ScoredRun::rows_hash() const {
    Hash64 hash;
    for (const ScoredRows& part : parts_) {
        const auto name = static_cast<std::int64_t>(part.name);
        hash.update(std::as_bytes(std::span(&name, 1)));
        hash.update(std::as_bytes(std::span(part.rows)));
    }
    return hash.digest();
}

std::vector<std::int64_t> ScoredRun::label_counts() const {
    std::vector<std::int64_t> counts = checkpoint_.read_label_counts();
    counts.insert(counts.end(), unknown_counts_.begin(), unknown_counts_.end());
    return counts;
}

void ScoredRun::rank(std::int64_t k, const std::string& title, const TakeScored& take,
                     std::int64_t table_bytes) const {
    const auto title_of = [&](const ScoredRows& part) {
        return parts_.size() == 1 ? title : fmt::format("{} ({})", title, name_of(part.name));
    };
    const auto take_of = [&take](const ScoredRows& part) {
        return [&take, &part](std::int64_t row, std::vector<ScoredLabel>& ranked) {
            take({part.name, row, part.split->labels.row(row)}, ranked);
        };
    };
    if (checkpoint_.is_linear()) {
        refuse_other_device(config_);
        warn_of_unused_limit(context_, config_);
        const LinearRanker ranker(load_linear_model(checkpoint_.content(), checkpoint_.state().labels),
                                  *tokenizer_);
        for (const ScoredRows& part : parts_)
            rank_rows(context_, ranker, *part.split, part.rows, k, title_of(part), take_of(part));
        return;
    }
    const std::int64_t labels = checkpoint_.state().labels;
    RunShape shape;
    shape.tokens = shape.longest = 1;
    shape.training = false;
    shape.mapped_bytes = dataset_.mapped_bytes();
    shape.table_bytes = table_bytes + 16 * labels;
    std::vector<BatchPlan> plans;
    for (const ScoredRows& part : parts_) {
        const BatchPlan& plan = plans.emplace_back(*part.split, part.rows, config_.batch_size);
        const BatchLimits limits = plan.limits(context_, 0, plan.steps_per_epoch());
        shape.batch = std::max(shape.batch, std::min<std::int64_t>(config_.batch_size, plan.num_rows()));
        shape.tokens = std::max(shape.tokens, limits.tokens);
        shape.longest = std::max(shape.longest, limits.longest_row);
        shape.top_k = std::max(shape.top_k, std::min(k + longest_filter(*part.split), labels));
        shape.table_bytes += 16 * plan.num_rows();
    }
    for (const auto& part : renumbered_)
        shape.table_bytes += 4 * static_cast<std::int64_t>(part->labels.size() + part->filter.size());
    std::optional<RankingLeader> leader;
    std::optional<Engine> engine;
    const std::int64_t ranks = ranks_of(context_).size();
    if (ranks > 1) {
        leader.emplace(context_, config_, checkpoint_, spec_, std::vector<std::int64_t>(), shape);
    } else {
        engine.emplace(context_, config_, EngineParts{spec_, stored_head(checkpoint_.content())}, shape);
        engine->allocate();
        engine->load(checkpoint_.content());
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const Split& split = *parts_[i].split;
        const auto title_here = title_of(parts_[i]);
        if (engine)
            rank_rows(context_, *engine, plans[i], split, k, title_here, take_of(parts_[i]));
        else
            rank_rows(
                context_, [&](std::span<const RankedBatch> batches) { return leader->rank(batches); }, ranks,
                plans[i], split, k, title_here, take_of(parts_[i]));
    }
}

}  // namespace elmo
