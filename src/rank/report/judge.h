// Scores at a threshold with what is reported about them: averages, a table of all labels, mistakes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "metrics/reliability.h"
#include "rank/report/mistakes.h"
#include "rank/report/threshold.h"

namespace elmo {

class Judge {
  public:
    // `depth`: labels per text that are ranked; 0 if it is not known, as of stored scores.
    Judge(Threshold threshold, const Config& config, std::int64_t labels, std::int64_t depth);

    void add(SplitName split, std::int64_t row, std::span<const ScoredLabel> ranked,
             std::span<const std::uint32_t> truth);
    // Completes the evaluation and writes config.per_label. Reports texts whose ranking was too short.
    void finish(const Context& context, const Config& config, const LabelName& name,
                Evaluation& evaluation) const;

  private:
    Threshold threshold_;
    std::int64_t depth_, cut_ = 0;
    ThresholdMetrics metrics_;
    std::vector<ScoredLabel> kept_;  // of the running row
    std::optional<Mistakes> mistakes_;
    Reliability reliability_;  // of the best labels of each text, where mistakes are reported
};

}  // namespace elmo
