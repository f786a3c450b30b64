#include "metrics/threshold_metrics.h"

#include <algorithm>
#include <functional>

namespace elmo {
namespace {

double ratio(double part, double whole) {
    return whole == 0 ? 0 : part / whole;
}

SetScores scores_of_counts(double positives, double answered, double right) {
    return {ratio(right, answered), ratio(right, positives), ratio(2 * right, positives + answered)};
}

SetScores mean(const SetScores& sum, double count) {
    return {ratio(sum.precision, count), ratio(sum.recall, count), ratio(sum.f1, count)};
}

void add(SetScores& sum, const SetScores& more) {
    sum.precision += more.precision;
    sum.recall += more.recall;
    sum.f1 += more.f1;
}

}  // namespace

SetScores scores_of(const LabelTally& tally) {
    return scores_of_counts(tally.positives, tally.answered, tally.right);
}

SetScores ThresholdMetrics::add_row(std::span<const ScoredLabel> answered,
                                    std::span<const std::uint32_t> truth) {
    std::int64_t right = 0;
    for (const std::uint32_t label : truth) ++tallies_[label].positives;
    for (const ScoredLabel& answer : answered) {
        const bool hit =
            std::binary_search(truth.begin(), truth.end(), answer.label, std::less<std::int64_t>());
        LabelTally& tally = tallies_[static_cast<std::size_t>(answer.label)];
        ++tally.answered;
        tally.right += hit ? 1 : 0;
        right += hit ? 1 : 0;
    }
    const SetScores scores = scores_of_counts(
        static_cast<double>(truth.size()), static_cast<double>(answered.size()), static_cast<double>(right));
    ++rows_;
    positives_ += static_cast<std::int64_t>(truth.size());
    answered_ += static_cast<std::int64_t>(answered.size());
    right_ += right;
    add(sum_, scores);
    return scores;
}

SetScores ThresholdMetrics::micro() const {
    return scores_of_counts(static_cast<double>(positives_), static_cast<double>(answered_),
                            static_cast<double>(right_));
}

SetScores ThresholdMetrics::macro() const {
    SetScores sum;
    double labels = 0;
    for (const LabelTally& tally : tallies_) {
        if (tally.positives == 0 && tally.answered == 0) continue;
        add(sum, scores_of(tally));
        ++labels;
    }
    return mean(sum, labels);
}

SetScores ThresholdMetrics::samples() const {
    return mean(sum_, static_cast<double>(rows_));
}

}  // namespace elmo
