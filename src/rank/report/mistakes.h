// What goes wrong at a threshold, for people: labels of low F1, labels that are taken for another, and texts
// with the worst answers. Memory is bounded: some texts and a table of confusions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/views.h"
#include "elmo/evaluation.h"
#include "metrics/threshold_metrics.h"
#include "rank/report/threshold.h"
#include "sources/rows.h"

namespace elmo {

AnswerScores in_percent(const SetScores& scores);

using LabelName = std::function<std::string(std::int64_t label)>;

class Mistakes {
  public:
    explicit Mistakes(std::int64_t limit) : limit_(static_cast<std::size_t>(limit)) {}

    // `answered`: best first. `f1`: of this row.
    void add(SplitName split, std::int64_t row, std::span<const ScoredLabel> answered,
             std::span<const std::uint32_t> truth, double f1);
    // The scores of every label that occurs, in order of number, one after another.
    void visit_labels(const ThresholdMetrics& metrics, const LabelName& name,
                      const std::function<void(const LabelScores&)>& take) const;
    // Reads the kept texts from the data set.
    void report(const ReadOptions& reading, const Threshold& threshold, const ThresholdMetrics& metrics,
                const LabelName& name, Evaluation& evaluation) const;

  private:
    struct Kept {
        double f1;
        float wrong_score;  // of the best wrong answer; the lowest number if there is none
        SplitName split;
        std::int64_t row;
        std::vector<std::uint32_t> truth;
        std::vector<ScoredLabel> answered;
    };
    static bool is_worse(const Kept& a, const Kept& b);

    // What was answered instead of each label that was missed, commonest first, up to a few.
    using Insteads = std::unordered_map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>;
    Insteads insteads() const;

    std::size_t limit_;
    std::vector<Kept> kept_;  // a heap, the least bad in front
    std::unordered_map<std::uint64_t, std::int64_t> confusions_;
};

// Precision, recall and F1 of every label that occurs, as CSV; or, where the name of the file ends in .jsonl,
// as lines of JSON after one with the protocol, with what was answered instead. `mistakes` may hold nothing.
void write_label_scores(const std::string& file, const ThresholdMetrics& metrics, const Mistakes& mistakes,
                        const LabelName& name, const Evaluation& protocol);

}  // namespace elmo
