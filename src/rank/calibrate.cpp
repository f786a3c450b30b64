// elmo calibrate: probabilities fitted on the validation rows of a run.
#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.h"
#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "elmo/calibrate.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "io/links.h"
#include "metrics/label_thresholds.h"
#include "metrics/platt.h"
#include "rank/report/threshold.h"
#include "rank/scored_rows.h"
#include "rank/scored_run.h"
#include "ranks/collectives.h"
#include "run/calibration_file.h"
#include "sources/foreign.h"

namespace elmo {
namespace {

constexpr std::int64_t kFewRows = 100;

LabelThresholds label_thresholds(std::span<const JudgedRow> rows, std::int64_t labels,
                                 std::int64_t labels_of_run, const Platt& platt) {
    const ScoreThresholds fitted = fit_label_thresholds(rows);
    LabelThresholds result;
    for (const auto& [label, score] : fitted.own)
        if (label < labels_of_run) result.labels.push_back(label);
    std::sort(result.labels.begin(), result.labels.end());
    for (const std::int64_t label : result.labels)
        result.thresholds.push_back(platt.probability(fitted.of(label)));
    const ThresholdGain gain = measure_label_thresholds(rows, labels);
    result.micro_f1_common = 100 * gain.micro_common.f1;
    result.micro_f1 = 100 * gain.micro_own.f1;
    result.macro_f1_common = 100 * gain.macro_common.f1;
    result.macro_f1 = 100 * gain.macro_own.f1;
    return result;
}

constexpr const char* kMoreRows =
    "give rows that did not train the run with --validation FILE, or train with a larger --validation";

// Where a run's right answers score no higher than its wrong ones. A linear model has no steps to add.
std::string learn_more(const Config& of_run) {
    if (of_run.encoder != kLinearEncoder) return "train longer";
    return fmt::format("the run learnt nothing that holds for its validation rows: train on more rows, or {}",
                       kMoreRows);
}

// DataError where a half of the rows cannot judge the fit on the other half.
void require_halves(const std::string& run, std::int64_t rows, const std::vector<JudgedScore> (&halves)[2]) {
    if (rows < 2)
        throw DataError(
            fmt::format("{}: calibration expected two halves of validation texts, of which each judges the "
                        "other, found {}, so one half is empty; {}",
                        run, counted(rows, "validation text"), kMoreRows));
    for (int half = 0; half < 2; ++half) {
        const auto right = std::ranges::count_if(halves[half], &JudgedScore::right);
        const auto wrong = std::ssize(halves[half]) - right;
        if (right > 0 && wrong > 0) continue;
        throw DataError(
            fmt::format("{}: calibration expected right and wrong answers in each half of the validation "
                        "texts, found {} right and {} wrong ones in a half of {}; {}",
                        run, right, wrong, counted((rows + 1 - half) / 2, "text"), kMoreRows));
    }
}

// Whether the calibration that is there has thresholds per label. One that cannot be used has nothing to
// lose.
bool has_label_thresholds(const Context& context, const Checkpoint& checkpoint) {
    try {
        const auto stored = read_calibration(context.with_sinks(silent()), checkpoint);
        return stored && stored->label_thresholds;
    } catch (const Error&) {
        return false;
    }
}

// The run's data, or where --validation names a file whose rows hold their labels, that file alone: all of
// its rows are taken, and none of those that trained the run. Data in several files numbers the labels of
// such a file.
Config with_rows_to_fit(const std::string& run, const Config& given) {
    Config of_run = resolve_for_run(run, given);
    of_run.split = "validation";
    const ReadOptions reading = of_run;
    if (reading.validation_of_run) return of_run;
    const std::filesystem::path file = parse_validation(reading).file;
    if (file.empty()) return of_run;
    refuse_foreign_validation(file, reading, Beside::kNothing);
    try {
        if (files_with_nothing_held_out(of_run).format < DataFormat::kFastText) return of_run;
    } catch (const Error&) {  // it is gone
    }
    if (!holds_labels(file)) return of_run;
    Config alone = given;
    set_option(alone, "data", file.string());
    set_option(alone, "test_share", "0");
    alone = resolve_for_run(run, alone);
    alone.split = "validation";
    return alone;
}

}  // namespace

Calibration calibrate(const Context& given_context, const std::string& run, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    if (!ranks_of(context).is_first()) {
        follow_rankings(context, run, given.checkpoint, given);
        return {};
    }
    const Config config = with_rows_to_fit(run, given);
    const ScoredRun scored(context, run, config);
    refuse_link(calibration_file(scored.checkpoint().folder()));  // before the work

    Calibration result;
    const std::int64_t labels = scored.checkpoint().state().labels;
    result.top = std::min(kJudgedLabels, labels);
    // Thresholds are sought among all labels that may be answered, probabilities fitted to the first ones.
    const std::int64_t depth = std::min(kMostAnswers, labels);
    std::vector<JudgedScore> deep, all, halves[2];
    std::vector<JudgedRow> rows;  // for thresholds of labels
    const std::int64_t pairs = scored.num_rows() * depth;
    deep.reserve(static_cast<std::size_t>(pairs));
    scored.rank(
        depth, "ranking validation",
        [&](const ScoredRow& row, std::vector<ScoredLabel>& ranked) {
            const auto truth = row.truth;
            result.positives += static_cast<std::int64_t>(truth.size());
            for (std::size_t i = 0; i < ranked.size(); ++i) {
                const bool right = std::binary_search(truth.begin(), truth.end(), ranked[i].label,
                                                      std::less<std::int64_t>());
                const JudgedScore judged = {ranked[i].score, right};
                deep.push_back(judged);
                if (static_cast<std::int64_t>(i) >= result.top) continue;
                all.push_back(judged);
                halves[result.rows % 2].push_back(judged);
                result.right += right ? 1 : 0;
            }
            ++result.rows;
            if (config.label_thresholds) rows.push_back({ranked, {truth.begin(), truth.end()}});
        },
        pairs * static_cast<std::int64_t>(sizeof(JudgedScore) +
                                          (config.label_thresholds ? sizeof(ScoredLabel) : 0)));
    result.pairs = static_cast<std::int64_t>(all.size());
    require_halves(run, result.rows, halves);
    if (result.rows < kFewRows)
        context.warning(fmt::format("probabilities are fitted to {} only: do not trust them much; {}",
                                    counted(result.rows, "validation text"), kMoreRows));
    const std::string advice = learn_more(scored.checkpoint().config());
    const Platt fitted = fit_platt(all, advice);
    result.a = fitted.a;
    result.b = fitted.b;
    result.f1_threshold = fitted.probability(best_f1_score(deep, result.positives));
    if (config.label_thresholds)
        result.label_thresholds = label_thresholds(rows, scored.num_labels(), labels, fitted);
    // Each half is judged by the fit on the other half, so the gain does not come from knowing the answers.
    for (int half = 0; half < 2; ++half) {
        const double share = static_cast<double>(halves[half].size()) / static_cast<double>(all.size());
        const CalibrationQuality raw = calibration_quality(Platt{}, halves[half]);
        const CalibrationQuality after =
            calibration_quality(fit_platt(halves[1 - half], advice), halves[half]);
        result.log_loss_raw += share * raw.log_loss;
        result.log_loss += share * after.log_loss;
        result.brier_raw += share * raw.brier;
        result.brier += share * after.brier;
        result.error_raw += share * raw.error;
        result.error += share * after.error;
    }
    if (!config.label_thresholds && has_label_thresholds(context, scored.checkpoint()))
        context.warning(
            "the thresholds per label of the last calibration are dropped; give --label-thresholds to fit "
            "them again");
    write_calibration(scored.checkpoint(), result);
    return result;
}

}  // namespace elmo
