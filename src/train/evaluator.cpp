// elmo eval: a run's checkpoint, or a stored prediction file, scored on a split.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "base/parallel.h"
#include "base/text_util.h"
#include "data/dataset.h"
#include "elmo/elmo.h"
#include "io/checksum.h"
#include "io/json_lines.h"
#include "train/checkpoint.h"
#include "train/predictions_file.h"
#include "train/run_data.h"
#include "train/scoring.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// The rows that --split names. Validation rows of a share are those that training left out.
struct ScoredRows {
    const Split* split = nullptr;
    SplitName name = SplitName::kTest;
    std::vector<std::int64_t> rows;
};

ScoredRows choose_rows(const Config& config, const Dataset& dataset) {
    ScoredRows chosen;
    if (config.split == "test") {
        chosen.split = &dataset.test();
    } else if (config.split == "train") {
        chosen.name = SplitName::kTrain;
        chosen.split = &dataset.train();
    } else if (config.split == "validation") {
        chosen.name = SplitName::kValidation;
        chosen.split = &dataset.validation();
        if (!chosen.split->present && dataset.train().present) {
            chosen.name = SplitName::kTrain;
            chosen.split = &dataset.train();
            chosen.rows = split_validation(config, dataset.train().rows()).validation;
        }
    } else {
        throw ConfigError(
            fmt::format("split: expected test, validation or train, found '{}'", quoted(config.split)));
    }
    if (config.split != "validation" || chosen.name == SplitName::kValidation)
        chosen.rows = all_rows(chosen.split->rows());
    if (chosen.rows.empty())
        throw DataError(fmt::format("{}: expected {} rows to score, found none", config.data, config.split));
    return chosen;
}

void check_ready(const Config& config) {
    program_start_bytes();
    validate(config);
    if (config.data.empty()) throw ConfigError("data: expected a data set to score, found none");
    set_num_threads(static_cast<int>(config.threads));
}

std::string filter_text(const Config& config, const Dataset& dataset, const ScoredRows& chosen) {
    if (chosen.split->filter.rows() > 0)
        return fmt::format("{}, {} pairs", dataset.filter_description(chosen.name),
                           chosen.split->filter.values.size());
    if (!filters(data_set_name(config.data), config.like))
        return fmt::format("none: {} filters sets with label texts alone", config.like);
    return dataset.filter_description(chosen.name);
}

// Where the scores of a run are kept; "" for nowhere.
fs::path scores_file(const std::string& run, const Config& config) {
    if (config.save_scores == "none") return {};
    if (config.save_scores != "auto") return config.save_scores;
    std::error_code error;
    if (!config.predictions.empty()) return {};
    // The folder named may be a checkpoint, which is replaced as one: its run keeps the scores.
    if (!fs::exists(fs::path(run) / "manifest.json", error)) return fs::path(run) / "scores.jsonl";
    const fs::path parent = fs::absolute(run, error).lexically_normal().parent_path();
    return fs::exists(parent / "log.jsonl", error) ? parent / "scores.jsonl" : fs::path();
}

void store(const std::string& run, const Config& config, Evaluation evaluation) {
    const fs::path file = scores_file(run, config);
    if (file.empty()) return;
    evaluation.texts_per_second = 0;  // equal evaluations leave equal lines
    try {
        JsonLinesWriter(file).write(nlohmann::ordered_json::parse(to_json(evaluation)));
    } catch (const DataError& error) {
        if (config.save_scores != "auto") throw;
        log_warning(fmt::format("the scores were not kept: {}", error.what()));
    }
}

Evaluation evaluate_predictions(const Config& config) {
    const Dataset dataset = Dataset::open_labels(config);
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

// Options of reading data that the run was trained with and that must be the same to read it again.
Config with_run_options(const Config& given, const Config& run, std::int64_t max_length) {
    Config config = given;
    const Config defaults;
    for (const char* key :
         {"format", "text_column", "label_column", "label_separator", "test_share", "validation", "seed"})
        if (get_option(given, key) == get_option(defaults, key))
            set_option(config, key, get_option(run, key));
    config.max_length = max_length;
    return config;
}

Evaluation evaluate_run(const std::string& run, const Config& given) {
    const Checkpoint checkpoint(run, given.checkpoint);
    const EncoderSpec spec = read_encoder_spec(checkpoint.folder());
    const auto tokenizer = load_tokenizer(checkpoint.folder());
    const Config config = with_run_options(given, checkpoint.config(), cut_length(checkpoint.config(), spec));
    const SplitName wanted = config.split == "test" ? SplitName::kTest : SplitName::kTrain;
    const Dataset dataset =
        Dataset::open(config, *tokenizer, nullptr,
                      config.split == "validation" ? std::vector{SplitName::kTrain, SplitName::kValidation}
                                                   : std::vector{wanted});
    const RunState& state = checkpoint.state();
    if (dataset.num_labels() != state.labels || names_hash(dataset) != state.names_hash)
        throw DataError(
            fmt::format("{}: these are not the labels of the run in {}: expected {}{}, found {}{}",
                        config.data, run, state.labels, state.names_hash.empty() ? "" : " named ones",
                        dataset.num_labels(), dataset.has_label_names() ? " named ones" : ""));
    ScoredRows chosen = choose_rows(config, dataset);
    const Split& split = *chosen.split;
    const auto counts = checkpoint.read_label_counts();
    Scorer scorer(config, parse_ks(config.k), state.labels, counts, state.train_rows,
                  Scorer::Detail::kIntervalsAndGroups);

    const BatchPlan plan(split, std::move(chosen.rows), config.batch_size);
    const BatchLimits limits = plan.limits(0, plan.steps_per_epoch());
    RunShape shape;
    shape.batch = std::min(config.batch_size, plan.num_rows());
    shape.tokens = std::max<std::int64_t>(limits.tokens, 1);
    shape.longest = std::max<std::int64_t>(limits.longest_row, 1);
    shape.top_k = std::min(scorer.largest_k() + longest_filter(split), state.labels);
    shape.training = false;
    shape.head_folder = checkpoint.folder();
    shape.mapped_bytes = dataset.mapped_bytes();
    shape.table_bytes = 8 * plan.num_rows() + 16 * state.labels;
    Session session(config, spec, shape);
    session.allocate();
    session.encoder().initialise(0);

    std::optional<PredictionsWriter> writer;
    if (!config.save_predictions.empty())
        writer.emplace(config.save_predictions, plan.num_rows(), state.labels);
    const auto start = std::chrono::steady_clock::now();
    rank_rows(session, plan, split, scorer.largest_k(), fmt::format("scoring {}", config.split),
              [&](std::int64_t row, std::vector<ScoredLabel>& ranked) {
                  scorer.add(ranked, split.labels.row(row));
                  if (writer) writer->add(ranked);
              });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (writer) writer->commit();
    Evaluation result = scorer.result();
    result.texts_per_second = static_cast<double>(plan.num_rows()) / seconds;
    result.filter = filter_text(config, dataset, chosen);
    result.split = config.split;
    result.checkpoint = fmt::format("{} (step {}, manifest xxh64 {})", checkpoint.folder().string(),
                                    state.step, hash_text(hash_file(checkpoint.folder() / "manifest.json")));
    return result;
}

}  // namespace

Evaluation evaluate(const std::string& run, const Config& given) {
    check_ready(given);
    Config config = given;
    if (config.filter == "auto" && !filters(data_set_name(config.data), config.like)) config.filter = "none";
    const Evaluation result =
        config.predictions.empty() ? evaluate_run(run, config) : evaluate_predictions(config);
    store(run, config, result);
    return result;
}

}  // namespace elmo
