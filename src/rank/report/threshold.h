// From scores to answers: which probability a score means, and above which threshold a label is answered.
// Prediction and evaluation decide alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/run.h"
#include "metrics/platt.h"
#include "run/checkpoint.h"
#include "tensor/topk.h"

namespace elmo {

// Labels per text that are ranked for a threshold where no number of labels is given.
inline constexpr std::int64_t kMostAnswers = 100;

// ConfigError if probabilities or threshold need a calibration that is not there.
Platt choose_probabilities(const Config& config, const std::optional<Calibration>& stored);
double choose_threshold(const Config& config, const std::optional<Calibration>& stored);
double choose_threshold(double threshold, const std::string& probabilities,
                        const std::optional<Calibration>& stored);

struct Threshold {
    double value = 0;
    std::optional<Platt> platt;  // absent: stored scores are compared as they are
    std::string source;          // for people

    double probability(const ScoredLabel& label) const {
        return platt ? platt->probability(label.score) : static_cast<double>(label.score);
    }
    // The labels at the front of a ranking that are answered.
    std::span<const ScoredLabel> answered(std::span<const ScoredLabel> ranked) const;
};

// What evaluation uses: the given threshold, or the calibrated one; nothing without either. ConfigError if
// something was asked for that needs one.
std::optional<Threshold> scoring_threshold(const Context& context, const Config& config,
                                           const Checkpoint& checkpoint);
// The same for stored predictions, which have no calibration.
std::optional<Threshold> scoring_threshold(const Config& config);

}  // namespace elmo
