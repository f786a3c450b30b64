// elmo eval: a run's checkpoint, or a stored prediction file, scored on a split.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "base/parallel.h"
#include "data/dataset.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/evaluation.h"
#include "elmo/resolve.h"
#include "formats/json_lines.h"
#include "io/checksum.h"
#include "io/links.h"
#include "rank/predictions_file.h"
#include "rank/scored_run.h"
#include "rank/scoring.h"
#include "run/checkpoint.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

void check_ready(const Config& config) {
    validate(config);
    if (config.data.empty()) throw ConfigError("data: expected a data set to score, found none");
}

std::string filter_text(const Config& config, const Dataset& dataset, const ScoredRows& chosen) {
    if (chosen.split->filter.rows() > 0)
        return fmt::format("{}, {} pairs", dataset.filter_description(chosen.name),
                           chosen.split->filter.values.size());
    if (!filters(data_set_name(config.data), config.like))
        return fmt::format("none: {} filters sets with label texts alone", config.like);
    return dataset.filter_description(chosen.name);
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

void store(const Context& context, const std::string& run, const Config& config, Evaluation evaluation) {
    const fs::path file = scores_file(run, config);
    if (file.empty()) return;
    evaluation.texts_per_second = 0;  // equal evaluations leave equal lines
    try {
        if (config.save_scores == "auto") refuse_link(file);
        JsonLinesWriter(file).write(nlohmann::ordered_json::parse(to_json(evaluation)));
    } catch (const DataError& error) {
        if (config.save_scores != "auto") throw;
        context.warning(fmt::format("the scores were not kept: {}", error.what()));
    }
}

Evaluation evaluate_predictions(const Context& context, const Config& config) {
    const Dataset dataset = Dataset::open_labels(context, config);
    const ScoredRows chosen = choose_rows(config, dataset);
    const Split& split = *chosen.split;
    Scorer scorer(config, parse_ks(config.k), dataset.num_labels(), dataset.label_counts(),
                  dataset.train().rows(), Scorer::Detail::kIntervalsAndGroups);
    std::vector<std::int64_t> drop;
    const auto start = std::chrono::steady_clock::now();
    read_predictions(config.predictions, static_cast<std::int64_t>(chosen.rows.size()), dataset.num_labels(),
                     [&](std::int64_t i, std::vector<ScoredLabel>& ranked) {
                         const std::int64_t row = chosen.rows[static_cast<std::size_t>(i)];
                         if (split.filter.rows() > 0) {
                             const auto pairs = split.filter.row(row);
                             drop.assign(pairs.begin(), pairs.end());
                             remove_filtered(ranked, std::span<const std::int64_t>(drop), scorer.largest_k());
                         }
                         scorer.add(ranked, split.labels.row(row));
                     });
    Evaluation result = scorer.result();
    result.texts_per_second = static_cast<double>(chosen.rows.size()) /
                              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.filter = filter_text(config, dataset, chosen);
    result.split = config.split;
    result.checkpoint =
        fmt::format("{} (xxh64 {})", config.predictions, hash_text(hash_file(config.predictions)));
    return result;
}

Evaluation evaluate_run(const Context& context, const std::string& run, const Config& given) {
    const ScoredRun scored(context, run, given);
    const Config& config = scored.config();
    const Split& split = *scored.rows().split;
    const RunState& state = scored.checkpoint().state();
    const auto num_rows = static_cast<std::int64_t>(scored.rows().rows.size());
    const auto counts = scored.label_counts();
    if (!scored.matched().empty() && !config.save_predictions.empty())
        throw ConfigError(
            "save_predictions: the data's labels are not the run's, so stored numbers would mean others");
    Scorer scorer(config, parse_ks(config.k), scored.num_labels(), counts, state.train_rows,
                  Scorer::Detail::kIntervalsAndGroups);
    std::optional<PredictionsWriter> writer;
    if (!config.save_predictions.empty()) writer.emplace(config.save_predictions, num_rows, state.labels);
    const auto start = std::chrono::steady_clock::now();
    scored.rank(scorer.largest_k(), fmt::format("scoring {}", config.split),
                [&](std::int64_t row, std::vector<ScoredLabel>& ranked) {
                    scorer.add(ranked, split.labels.row(row));
                    if (writer) writer->add(ranked);
                });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (writer) writer->commit();
    Evaluation result = scorer.result();
    result.texts_per_second = static_cast<double>(num_rows) / seconds;
    result.filter = filter_text(config, scored.dataset(), scored.rows());
    result.labels_matched = scored.matched();
    result.split = config.split;
    result.checkpoint = fmt::format("{} (step {}, manifest xxh64 {})", scored.checkpoint().folder().string(),
                                    state.step, scored.checkpoint().manifest_hash());
    return result;
}

}  // namespace

Evaluation evaluate(const Context& given_context, const std::string& run, const Config& given) {
    Config config = given.predictions.empty() ? resolve_for_run(run, given) : given;
    check_ready(config);
    const Context context = given_context.with_threads(config.threads);
    if (config.filter == "auto" && !filters(data_set_name(config.data), config.like)) config.filter = "none";
    const Evaluation result = config.predictions.empty() ? evaluate_run(context, run, config)
                                                         : evaluate_predictions(context, config);
    store(context, run, config, result);
    return result;
}

}  // namespace elmo
