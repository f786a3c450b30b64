// elmo eval: a run's checkpoint, or a stored prediction file, scored on a split.
#include "rank/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/parallel.h"
#include "config/resolve.h"
#include "data/dataset.h"
#include "data/named_labels.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/evaluation.h"
#include "elmo/messages.h"
#include "elmo/resolve.h"
#include "formats/json_lines.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/links.h"
#include "rank/answers/predictions_file.h"
#include "rank/report/judge.h"
#include "rank/scored_rows.h"
#include "rank/scored_run.h"
#include "rank/scoring.h"
#include "ranks/collectives.h"
#include "run/checkpoint.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

void check_ready(const Config& config) {
    validate(config);
    if (config.data.empty()) throw ConfigError("data: expected a data set to score, found none");
    if (!config.per_label.empty()) const AtomicFile can_be_made(config.per_label);
}

std::string filter_text(const Config& config, const Dataset& dataset, const std::vector<ScoredRows>& parts) {
    std::string text;
    for (const ScoredRows& part : parts)
        if (part.split->filter.rows() > 0)
            text += fmt::format("{}{}, {} pairs", text.empty() ? "" : "; ",
                                dataset.filter_description(part.name), part.split->filter.values.size());
    if (!text.empty()) return text;
    if (!filters(data_set_name(original_value(config, "data")), config.like))
        return fmt::format("none: {} filters sets with label texts alone", config.like);
    return dataset.filter_description(parts.front().name);
}

// The file that keeps the scores of a run; "" for none.
fs::path scores_file(const std::string& run, const Config& config) {
    if (config.save_scores == "none") return {};
    if (config.save_scores != "auto") return config.save_scores;
    std::error_code error;
    if (!config.predictions.empty()) return {};
    // The given folder may be a checkpoint, which is replaced as a whole: its run keeps the scores.
    if (!fs::exists(fs::path(run) / "manifest.json", error)) return fs::path(run) / "scores.jsonl";
    const fs::path parent = fs::absolute(run, error).lexically_normal().parent_path();
    return fs::exists(parent / "log.jsonl", error) ? parent / "scores.jsonl" : fs::path();
}

void hash_row(Hash64& hash, SplitName split, std::int64_t row, std::size_t labels) {
    const std::int64_t numbers[] = {static_cast<std::int64_t>(split), row, static_cast<std::int64_t>(labels)};
    hash.update(std::as_bytes(std::span(numbers)));
}

void name_rows(const RowsName& rows, Evaluation& e) {
    if (!rows.data.empty()) e.data = rows.data;
    if (!rows.split.empty()) e.split = rows.split;
}

// Rows that are given are of no split.
void name_wrong_texts(const RowsName& rows, Evaluation& e) {
    if (rows.split.empty()) return;
    for (WrongText& wrong : e.wrong_texts) wrong.split = "all";
}

DetailedEvaluation evaluate_predictions(const Context& context, const Config& given, const RowsName& rows) {
    require_predictions(given.predictions);
    const auto threshold = scoring_threshold(given);
    Config config = given;
    if (config.split == "auto")
        choose_option<std::string>(config, "split", &Config::split, "test", "stored predictions have no run");
    const Dataset dataset = Dataset::open_labels(context, config);
    if (config.split == "validation" && !dataset.validation().present &&
        ReadOptions(config).equal_texts_together)
        throw ConfigError(
            "split: which rows validate depends on their texts, and stored predictions are scored without "
            "them: score the run itself ('elmo eval RUN DATA --split validation'), or give --equal-texts "
            "apart "
            "where it was trained so");
    const auto parts = choose_rows(config, dataset);
    const bool all_given = !rows.split.empty(),  // from memory: nothing is there beside them
        counts_scored = all_given || (config.split == "all" && !dataset.test().present);
    if (counts_scored)
        context.warning(fmt::format(
            "{}: propensities, head and tail are counted on the scored rows, as no others are there: give "
            "the training data with the test rows beside it",
            rows.data.empty() ? config.data : rows.data));
    std::int64_t num_rows = 0;
    for (const ScoredRows& part : parts) num_rows += static_cast<std::int64_t>(part.rows.size());
    Scorer scorer(config, parse_ks(config.k), dataset.num_labels(), dataset.label_counts(),
                  dataset.train().rows(), Scorer::Detail::kIntervalsAndGroups);
    std::optional<Judge> judge;
    if (threshold) judge.emplace(*threshold, config, dataset.num_labels(), 0);
    std::vector<std::int64_t> drop;
    DetailedEvaluation result;
    const auto start = std::chrono::steady_clock::now();
    auto part = parts.begin();
    std::size_t taken = 0;  // of this part
    read_predictions(config.predictions, num_rows, dataset.num_labels(),
                     [&](std::int64_t, std::vector<ScoredLabel>& ranked) {
                         if (taken == part->rows.size()) {
                             ++part;
                             taken = 0;
                         }
                         const Split& split = *part->split;
                         const std::int64_t row = part->rows[taken++];
                         if (split.filter.rows() > 0) {
                             const auto pairs = split.filter.row(row);
                             drop.assign(pairs.begin(), pairs.end());
                             remove_filtered(
                                 ranked, std::span<const std::int64_t>(drop),
                                 judge ? static_cast<std::int64_t>(ranked.size()) : scorer.largest_k());
                         }
                         scorer.add(ranked, split.labels.row(row));
                         if (judge) judge->add(part->name, row, ranked, split.labels.row(row));
                     });
    Evaluation& e = result.evaluation;
    e = scorer.result();
    e.texts_per_second = static_cast<double>(num_rows) /
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (const std::string set = "training set"; counts_scored && e.propensity_counts.starts_with(set))
        e.propensity_counts.replace(0, set.size(), "scored rows");
    e.filter = filter_text(config, dataset, parts);
    e.split = config.split;
    e.split_reason = reason_of(config, "split");
    name_rows(rows, e);
    e.checkpoint = fmt::format("{} (xxh64 {})", config.predictions, hash_text(hash_file(config.predictions)));
    if (judge)
        judge->finish(
            context, config,
            [&](std::int64_t label) {
                return dataset.has_label_names() ? std::string(dataset.label_name(label))
                                                 : std::to_string(label);
            },
            e);
    name_wrong_texts(rows, e);
    return result;
}

DetailedEvaluation evaluate_run(const Context& context, const std::string& run, const Config& given,
                                const RowsName& rows, const std::string& called, std::int64_t least_depth) {
    Checkpoint checkpoint(run, given.checkpoint);
    const auto threshold = scoring_threshold(context, given, checkpoint);
    ScoredRun scored(context, run, std::move(checkpoint), given, called);
    const Config& config = scored.config();
    const RunState& state = scored.checkpoint().state();
    const std::int64_t num_rows = scored.num_rows(), num_labels = scored.num_labels();
    const auto counts = scored.label_counts();
    if (scored.missing_labels() > 0 && !config.save_predictions.empty())
        throw ConfigError(fmt::format(
            "save_predictions: labels are stored by their number in the data, which does not have {} of the "
            "run's {}; score the run's own data, or write names with 'elmo predict --out'",
            with_commas(scored.missing_labels()), with_commas(state.labels)));
    if (scored.offered_rows() > 0 && !config.save_predictions.empty())
        context.warning(fmt::format("{} holds the answers of {} of {} rows", config.save_predictions,
                                    with_commas(num_rows), with_commas(scored.offered_rows())));
    Scorer scorer(config, parse_ks(config.k), num_labels, counts, state.train_rows,
                  Scorer::Detail::kIntervalsAndGroups, state.labels);
    std::int64_t depth = std::max(scorer.largest_k(), least_depth);
    std::optional<Judge> judge;
    if (threshold) {
        depth = std::max(depth, kMostAnswers);
        judge.emplace(*threshold, config, num_labels, depth);
    }
    if (config.errors > 0 || !config.per_label.empty()) scored.load_names();
    std::optional<PredictionsWriter> writer;
    if (!config.save_predictions.empty())
        writer.emplace(config.save_predictions, num_rows, scored.dataset().num_labels());
    DetailedEvaluation result;
    Hash64 hash;
    const auto start = std::chrono::steady_clock::now();
    scored.rank(
        depth, rows.split.empty() ? fmt::format("scoring {}", config.split) : std::string("scoring"),
        [&](const ScoredRow& row, std::vector<ScoredLabel>& ranked) {
            scorer.add(ranked, row.truth);
            if (judge) judge->add(row.split, row.row, ranked, row.truth);
            hash_row(hash, row.split, row.row, row.truth.size());
            if (!writer) return;
            ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(scorer.largest_k())));
            for (ScoredLabel& best : ranked) best.label = scored.data_number(best.label);
            writer->add(ranked);
        },
        judge ? static_cast<std::int64_t>(sizeof(LabelTally)) * num_labels : 0);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (writer) writer->commit();
    Evaluation& e = result.evaluation;
    e = scorer.result();
    e.texts_per_second = static_cast<double>(num_rows) / seconds;
    e.filter = filter_text(config, scored.dataset(), scored.parts());
    e.labels_matched = scored.matched();
    if (const std::int64_t unknown = scored.num_labels() - state.labels;
        unknown > 0 && !e.propensity_counts.empty())
        e.propensity_counts +=
            fmt::format("; of {} that the run does not have, the scored data", counted(unknown, "label"));
    e.trained_samples = scored.trained_rows();
    e.untold_samples = scored.untold_rows();
    e.split = config.split;
    e.split_reason = reason_of(config, "split");
    name_rows(rows, e);
    e.checkpoint = fmt::format("{} (step {}, manifest xxh64 {})", scored.checkpoint().folder().string(),
                               state.step, scored.checkpoint().manifest_hash());
    if (judge)
        judge->finish(
            context, config, [&](std::int64_t label) { return scored.label_name(label); }, e);
    name_wrong_texts(rows, e);
    result.replicates = scorer.bootstrap().replicate_scores();
    result.rows_hash = hash.digest();
    return result;
}

}  // namespace

DetailedEvaluation evaluate_in_detail(const Context& given_context, const std::string& run,
                                      const Config& given, const RowsName& rows, const std::string& called,
                                      std::int64_t least_depth) {
    // Stored predictions may have no run; one that is named is read for its data as where it is scored
    // itself.
    Config config = run.empty() ? given : resolve_for_run(run, given);
    if (!run.empty() && !config.predictions.empty() && !config.data.empty())
        config = with_scored_split(
            std::move(config), Checkpoint(run, given.checkpoint, Checkpoint::Check::kAllButHead).config());
    if (run.empty() && !config.predictions.empty() && config.split == "all")
        config = with_nothing_held_out(std::move(config));
    if (!run.empty() && config.data.empty())  // as a head on vectors has none
        refuse_vectors(Checkpoint(run, config.checkpoint, Checkpoint::Check::kAllButHead), "scoring");
    check_ready(config);
    const Context context = given_context.with_threads(config.threads);
    if (!ranks_of(context).is_first()) {
        if (config.predictions.empty()) follow_rankings(context, run, config.checkpoint, config);
        return {};
    }
    if (config.filter == "auto" && !filters(data_set_name(original_value(config, "data")), config.like))
        config.filter = "none";
    return config.predictions.empty() ? evaluate_run(context, run, config, rows, called, least_depth)
                                      : evaluate_predictions(context, config, rows);
}

void keep_scores(const Context& context, const std::string& run, const Config& config,
                 Evaluation evaluation) {
    if (!ranks_of(context).is_first()) return;
    const fs::path file = scores_file(run, config);
    if (file.empty()) return;
    evaluation.texts_per_second = 0;     // equal evaluations leave equal lines
    evaluation.frequent_labels.clear();  // a report, no scores
    evaluation.worst_labels.clear();
    evaluation.f1_bands.clear();
    evaluation.calibration_curve.clear();
    evaluation.confusions.clear();
    evaluation.wrong_texts.clear();
    try {
        if (config.save_scores == "auto") refuse_link(file);
        JsonLinesWriter(file).write(own_ordered_json(to_json(evaluation)));
    } catch (const DataError& error) {
        if (config.save_scores != "auto") throw;
        context.warning(fmt::format("the scores were not kept: {}", error.what()));
    }
}

Evaluation evaluate(const Context& context, const std::string& run, const Config& config,
                    const RowsName& rows) {
    Evaluation evaluation = evaluate_in_detail(context, run, config, rows).evaluation;
    keep_scores(context, run, config, evaluation);
    return evaluation;
}

}  // namespace elmo
