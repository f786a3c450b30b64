#include "rank/report/threshold.h"

#include <algorithm>

#include "elmo/error.h"
#include "run/calibration_file.h"

namespace elmo {
namespace {

void refuse_without_threshold(const Config& config, const char* what_to_do) {
    for (const OptionKey key : {OptionKey("per_label"), OptionKey("errors")})
        if (get_option(config, key) != get_option(Config(), key))
            throw ConfigError(std::string(std::string_view(key)) +
                              ": needs the threshold above which labels are answered, found none; " +
                              what_to_do);
}

}  // namespace

Platt choose_probabilities(const Config& config, const std::optional<Calibration>& stored) {
    if (config.probabilities == "calibrated" && !stored)
        throw ConfigError("probabilities: the run is not calibrated; run 'elmo calibrate RUN' first");
    return stored && config.probabilities != "raw" ? Platt{stored->a, stored->b} : Platt{};
}

double choose_threshold(const Config& config, const std::optional<Calibration>& stored) {
    return choose_threshold(config.threshold, config.probabilities, stored);
}

double choose_threshold(double threshold, const std::string& probabilities,
                        const std::optional<Calibration>& stored) {
    if (threshold != -1) return threshold;
    if (!stored || probabilities == "raw")
        throw ConfigError(
            "threshold: -1 needs a calibrated run and its probabilities; run 'elmo calibrate RUN' first");
    return stored->f1_threshold;
}

std::span<const ScoredLabel> Threshold::answered(std::span<const ScoredLabel> ranked) const {
    const auto end = std::find_if(ranked.begin(), ranked.end(),
                                  [&](const ScoredLabel& label) { return probability(label) < value; });
    return ranked.first(static_cast<std::size_t>(end - ranked.begin()));
}

std::optional<Threshold> scoring_threshold(const Context& context, const Config& config,
                                           const Checkpoint& checkpoint) {
    const auto stored = config.probabilities == "raw" ? std::nullopt : read_calibration(context, checkpoint);
    const Platt platt = choose_probabilities(config, stored);
    const char* kind = stored ? "of calibrated probabilities" : "of raw probabilities";
    if (config.threshold > 0) return Threshold{config.threshold, platt, std::string("given, ") + kind};
    if (config.threshold == 0 && !stored) {
        refuse_without_threshold(config, "give --threshold, or run 'elmo calibrate RUN' first");
        return std::nullopt;
    }
    Config calibrated = config;
    calibrated.threshold = -1;
    return Threshold{choose_threshold(calibrated, stored), platt,
                     "calibrated: the largest F1 on the validation rows"};
}

std::optional<Threshold> scoring_threshold(const Config& config) {
    if (config.threshold > 0) return Threshold{config.threshold, std::nullopt, "given, of stored scores"};
    refuse_without_threshold(config, "give --threshold");
    return std::nullopt;
}

}  // namespace elmo
