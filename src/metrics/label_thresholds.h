// A threshold for each label, fitted to judged rankings: labels differ in how many texts they take, and one
// threshold for all leaves rare labels out. A label's own threshold is the one with its largest F1, drawn
// towards the common threshold as if by kPrior texts more: few texts say little. Labels with fewer than
// kFewest true texts have none.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "metrics/threshold_metrics.h"
#include "tensor/topk.h"

namespace elmo {

// The best labels of a text and its true ones, ascending.
struct JudgedRow {
    std::vector<ScoredLabel> ranked;
    std::vector<std::uint32_t> truth;
};

// Scores above which labels are answered.
struct ScoreThresholds {
    double common = 0;
    std::unordered_map<std::int64_t, double> own;

    double of(std::int64_t label) const {
        const auto found = own.find(label);
        return found == own.end() ? common : found->second;
    }
};

// Which rows a fit takes: all, or every other one from row `part` on.
struct HalfOfRows {
    int part = -1;
    bool has(std::size_t row) const { return part < 0 || static_cast<int>(row % 2) == part; }
};
ScoreThresholds fit_label_thresholds(std::span<const JudgedRow> rows, HalfOfRows half = {});

// How good answers are: each half of the rows is judged by what a fit on the other half gave.
struct ThresholdGain {
    SetScores micro_common, micro_own, macro_common, macro_own;
};
ThresholdGain measure_label_thresholds(std::span<const JudgedRow> rows, std::int64_t labels);

}  // namespace elmo
