#include "rank/report/threshold.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "config/resolve.h"
#include "elmo/error.h"
#include "run/calibration_file.h"

namespace elmo {
namespace {

void refuse_without_threshold(const Config& config, const std::string& what_to_do) {
    for (const OptionKey key : {OptionKey("per_label"), OptionKey("errors")})
        if (get_option(config, key) != get_option(Config(), key))
            throw ConfigError(std::string(std::string_view(key)) +
                              ": needs the threshold above which labels are answered, found none; " +
                              what_to_do);
}

bool has_threshold_of_all(const Config& config) {
    if (config.threshold != 0) return true;
    const auto found = config.sources.find("threshold");
    return found != config.sources.end() && found->second.origin == Origin::kGiven &&
           found->second.value == get_option(config, "threshold");
}

// The command that gives a run what is missing.
std::string calibrate_first(const Config& config, const char* flags = "") {
    return fmt::format("run 'elmo calibrate RUN{}{}' first", flags,
                       config.checkpoint == Config().checkpoint ? "" : " --checkpoint " + config.checkpoint);
}

}  // namespace

Platt choose_probabilities(const Config& config, const std::optional<Calibration>& stored) {
    if (config.probabilities == "calibrated" && !stored)
        throw ConfigError("probabilities: the run is not calibrated; " + calibrate_first(config));
    return stored && config.probabilities != "raw" ? Platt{stored->a, stored->b} : Platt{};
}

LabelCuts::LabelCuts(double common, const LabelThresholds& own) : LabelCuts(common) {
    for (std::size_t i = 0; i < own.labels.size(); ++i) {
        own_[own.labels[i]] = own.thresholds[i];
        lowest_ = std::min(lowest_, own.thresholds[i]);
    }
}

bool may_have_more(std::span<const ScoredLabel> ranked, std::int64_t depth, const Platt& platt,
                   const LabelCuts& cuts) {
    return std::ssize(ranked) == depth && platt.probability(ranked.back().score) >= cuts.lowest();
}

bool has_threshold(const Config& config) {
    return config.label_thresholds || has_threshold_of_all(config);
}

LabelCuts choose_cuts(const Config& config, const std::optional<Calibration>& stored) {
    if (config.label_thresholds) {
        if (config.threshold != -1 && has_threshold_of_all(config))
            throw ConfigError(
                "label_thresholds: expected no threshold beside them, found one; leave --threshold out");
        if (config.probabilities == "raw")
            throw ConfigError(
                "label_thresholds: thresholds per label are of calibrated probabilities, found "
                "--probabilities raw; leave one of the two out");
        if (!stored || !stored->label_thresholds)
            throw ConfigError("label_thresholds: the run has none; " +
                              calibrate_first(config, " --label-thresholds"));
        return {stored->f1_threshold, *stored->label_thresholds};
    }
    return choose_threshold(config.threshold, config, stored);
}

double choose_threshold(double threshold, const Config& config, const std::optional<Calibration>& stored) {
    if (threshold != -1) return threshold;
    refuse_best_of_raw(threshold, config.probabilities);
    if (!stored)
        throw ConfigError("threshold: -1 needs a calibrated run and its probabilities; " +
                          calibrate_first(config));
    return stored->f1_threshold;
}

std::span<const ScoredLabel> Threshold::answered(std::span<const ScoredLabel> ranked,
                                                 std::vector<ScoredLabel>& kept) const {
    const auto end = std::find_if(ranked.begin(), ranked.end(), [&](const ScoredLabel& label) {
        return probability(label) < cuts.lowest();
    });
    const auto above = ranked.first(static_cast<std::size_t>(end - ranked.begin()));
    if (cuts.own() == 0) return above;
    kept.clear();
    for (const ScoredLabel& label : above)
        if (probability(label) >= cuts.of(label.label)) kept.push_back(label);
    return kept;
}

namespace {

// A report chooses one where nobody does.
std::string source_of_threshold(const Config& config, const char* kind) {
    return fmt::format("{}, {}", given(config, "threshold") ? "given" : reason_of(config, "threshold"), kind);
}

}  // namespace

std::optional<Threshold> scoring_threshold(const Context& context, const Config& config,
                                           const Checkpoint& checkpoint) {
    const auto stored = config.probabilities == "raw" ? std::nullopt : read_calibration(context, checkpoint);
    const Platt platt = choose_probabilities(config, stored);
    const char* kind = stored ? "of calibrated probabilities" : "of raw probabilities";
    if (config.label_thresholds) {
        const LabelCuts cuts = choose_cuts(config, stored);
        return Threshold{cuts, platt,
                         fmt::format("calibrated: {} own, the others the common one",
                                     cuts.own() == 1 ? std::string("1 label has its")
                                                     : with_commas(cuts.own()) + " labels have their")};
    }
    if (has_threshold(config) && config.threshold != -1)
        return Threshold{config.threshold, platt, source_of_threshold(config, kind)};
    if (config.threshold == 0 && !stored) {
        refuse_without_threshold(
            config, "give --threshold" +
                        (config.probabilities == "raw" ? std::string() : ", or " + calibrate_first(config)));
        return std::nullopt;
    }
    Config calibrated = config;
    calibrated.threshold = -1;
    return Threshold{choose_cuts(calibrated, stored), platt,
                     "calibrated: the largest F1 on the validation rows"};
}

std::optional<Threshold> scoring_threshold(const Config& config) {
    if (config.label_thresholds)
        throw ConfigError("label_thresholds: stored predictions have none; give --threshold");
    if (config.threshold == -1)
        throw ConfigError(
            "threshold: -1 needs a calibrated run, and stored predictions have none; give a number from 0 to "
            "1");
    if (has_threshold(config))
        return Threshold{config.threshold, std::nullopt, source_of_threshold(config, "of stored scores")};
    refuse_without_threshold(config, "give --threshold");
    return std::nullopt;
}

}  // namespace elmo
