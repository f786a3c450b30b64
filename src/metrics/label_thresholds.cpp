#include "metrics/label_thresholds.h"

#include <algorithm>

#include "metrics/platt.h"

namespace elmo {
namespace {

constexpr std::int64_t kFewest = 3;
constexpr double kPrior = 5;

struct OfLabel {
    std::vector<JudgedScore> judged;
    std::int64_t positives = 0;
};

}  // namespace

ScoreThresholds fit_label_thresholds(std::span<const JudgedRow> rows, HalfOfRows half) {
    std::unordered_map<std::int64_t, OfLabel> labels;
    std::vector<JudgedScore> all;
    std::int64_t positives = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!half.has(i)) continue;
        const JudgedRow& row = rows[i];
        positives += static_cast<std::int64_t>(row.truth.size());
        for (const std::uint32_t label : row.truth) ++labels[label].positives;
        for (const ScoredLabel& label : row.ranked) {
            const bool right = std::binary_search(row.truth.begin(), row.truth.end(), label.label,
                                                  std::less<std::int64_t>());
            all.push_back({label.score, right});
            labels[label.label].judged.push_back(all.back());
        }
    }
    ScoreThresholds thresholds;
    thresholds.common = best_f1_score(all, positives);
    for (const auto& [label, of_label] : labels) {
        if (of_label.positives < kFewest || of_label.judged.empty()) continue;
        const double own = best_f1_score(of_label.judged, of_label.positives);
        const auto weight = static_cast<double>(of_label.positives);
        thresholds.own[label] = (weight * own + kPrior * thresholds.common) / (weight + kPrior);
    }
    return thresholds;
}

ThresholdGain measure_label_thresholds(std::span<const JudgedRow> rows, std::int64_t labels) {
    ThresholdMetrics common(labels), own(labels);
    const ScoreThresholds fits[2] = {fit_label_thresholds(rows, {0}), fit_label_thresholds(rows, {1})};
    std::vector<ScoredLabel> answered;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const ScoreThresholds& other = fits[1 - i % 2];
        const auto judge = [&](ThresholdMetrics& metrics, const auto& threshold_of) {
            answered.clear();
            for (const ScoredLabel& label : rows[i].ranked)
                if (label.score >= threshold_of(label.label)) answered.push_back(label);
            metrics.add_row(answered, rows[i].truth);
        };
        judge(common, [&](std::int64_t) { return other.common; });
        judge(own, [&](std::int64_t label) { return other.of(label); });
    }
    return {common.micro(), own.micro(), common.macro(), own.macro()};
}

}  // namespace elmo
