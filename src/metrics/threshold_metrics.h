// Precision, recall and F1 of answers that are sets of labels: what a threshold leaves of a ranking.
//
// Micro: over all pairs of text and label. Macro: the mean over labels that occur, as true labels or as
// answers. Samples: the mean over texts. A quotient 0/0 is 0, as scikit-learn has it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/topk.h"

namespace elmo {

// Fractions of 1.
struct SetScores {
    double precision = 0, recall = 0, f1 = 0;
};

// Counts of texts.
struct LabelTally {
    std::int32_t positives = 0, answered = 0, right = 0;
};
SetScores scores_of(const LabelTally& tally);

class ThresholdMetrics {
  public:
    explicit ThresholdMetrics(std::int64_t labels) : tallies_(static_cast<std::size_t>(labels)) {}

    // answered: distinct labels. truth: ascending, distinct. Returns the scores of the row.
    SetScores add_row(std::span<const ScoredLabel> answered, std::span<const std::uint32_t> truth);

    SetScores micro() const;
    SetScores macro() const;
    SetScores samples() const;
    std::span<const LabelTally> labels() const { return tallies_; }
    std::int64_t positives() const { return positives_; }
    std::int64_t answered() const { return answered_; }
    std::int64_t right() const { return right_; }

  private:
    std::vector<LabelTally> tallies_;
    std::int64_t rows_ = 0, positives_ = 0, answered_ = 0, right_ = 0;
    SetScores sum_;  // over rows
};

}  // namespace elmo
