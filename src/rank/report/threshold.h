// From scores to answers: which probability a score means, and above which threshold a label is answered.
// Prediction and evaluation decide alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/run.h"
#include "metrics/platt.h"
#include "run/checkpoint.h"
#include "tensor/topk.h"

namespace elmo {

// Labels per text that are ranked for a threshold where no number of labels is given, and among which the
// best threshold is sought.
inline constexpr std::int64_t kMostAnswers = 100;
// Labels per text whose probabilities are judged: enough to include everything that is shown.
inline constexpr std::int64_t kJudgedLabels = 20;

// ConfigError if probabilities or threshold need a calibration that is not there.
Platt choose_probabilities(const Config& config, const std::optional<Calibration>& stored);

// The probability above which each label is answered: one for all, and labels' own where they are used.
class LabelCuts {
  public:
    LabelCuts(double common) : common_(common), lowest_(common) {}  // NOLINT: a number is one for all
    LabelCuts(double common, const LabelThresholds& own);

    double common() const { return common_; }
    double lowest() const { return lowest_; }  // no label is answered below it
    std::int64_t own() const { return static_cast<std::int64_t>(own_.size()); }
    double of(std::int64_t label) const {
        if (own_.empty()) return common_;
        const auto found = own_.find(label);
        return found == own_.end() ? common_ : found->second;
    }

  private:
    double common_, lowest_;
    std::unordered_map<std::int64_t, double> own_;
};
// Whether labels beyond the `depth` best, which were ranked, may be answered too: the last of these is above
// the lowest threshold.
bool may_have_more(std::span<const ScoredLabel> ranked, std::int64_t depth, const Platt& platt,
                   const LabelCuts& cuts);
// Whether labels are to be answered down to a threshold: 0 is one where the call gives it. A recipe of all
// options has 0 for none.
bool has_threshold(const Config& config);
LabelCuts choose_cuts(const Config& config, const std::optional<Calibration>& stored);
// The same threshold by its number: -1 is that of the calibration.
double choose_threshold(double threshold, const Config& config, const std::optional<Calibration>& stored);

struct Threshold {
    LabelCuts cuts;
    std::optional<Platt> platt;  // absent: stored scores are compared as they are
    std::string source;          // for people

    double probability(const ScoredLabel& label) const {
        return platt ? platt->probability(label.score) : static_cast<double>(label.score);
    }
    // The labels of a ranking that are answered, in its order; `kept` may hold them.
    std::span<const ScoredLabel> answered(std::span<const ScoredLabel> ranked,
                                          std::vector<ScoredLabel>& kept) const;
};

// What evaluation uses: the given threshold, or the calibrated one; nothing without either. ConfigError if
// something was asked for that needs one.
std::optional<Threshold> scoring_threshold(const Context& context, const Config& config,
                                           const Checkpoint& checkpoint);
// The same for stored predictions, which have no calibration.
std::optional<Threshold> scoring_threshold(const Config& config);

}  // namespace elmo
