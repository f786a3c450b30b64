// Scores of rankings that come from outside: checked, then fed to RankingMetrics row by row.
#include <fmt/format.h>

#include <algorithm>

#include "elmo/error.h"
#include "elmo/metrics.h"
#include "metrics/metrics.h"

namespace elmo {
namespace {

void check_offsets(const LabelRows& rows, const char* what) {
    const auto num_labels = static_cast<std::int64_t>(rows.labels.size());
    if (rows.offsets.empty() || rows.offsets.front() != 0 || rows.offsets.back() != num_labels ||
        !std::is_sorted(rows.offsets.begin(), rows.offsets.end()))
        throw DataError(fmt::format("{}: expected offsets that rise from 0 to {}, the number of labels", what,
                                    num_labels));
}

std::span<const std::int64_t> row_of(const LabelRows& rows, std::size_t row) {
    return rows.labels.subspan(static_cast<std::size_t>(rows.offsets[row]),
                               static_cast<std::size_t>(rows.offsets[row + 1] - rows.offsets[row]));
}

// The labels ascending, each from 0 on and there once.
void sort_checked(std::span<const std::int64_t> labels, std::vector<std::int64_t>& sorted, const char* what,
                  std::size_t row) {
    sorted.assign(labels.begin(), labels.end());
    std::sort(sorted.begin(), sorted.end());
    if (!sorted.empty() && sorted.front() < 0)
        throw DataError(
            fmt::format("{}, row {}: expected label numbers from 0 on, found {}", what, row, sorted.front()));
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end())
        throw DataError(
            fmt::format("{}, row {}: expected every label once, found {} more than once", what, row, *twice));
}

}  // namespace

std::vector<MetricScore> score_rankings(const LabelRows& predicted, const LabelRows& truth,
                                        const std::vector<std::int64_t>& ks,
                                        std::span<const double> inverse_propensity) {
    check_offsets(predicted, "predicted");
    check_offsets(truth, "truth");
    if (predicted.offsets.size() != truth.offsets.size())
        throw DataError(fmt::format("expected predictions for {} rows of true labels, found {}",
                                    truth.offsets.size() - 1, predicted.offsets.size() - 1));
    RankingMetrics metrics(ks, inverse_propensity);
    std::vector<std::int64_t> sorted, scratch;
    for (std::size_t row = 0; row + 1 < truth.offsets.size(); ++row) {
        sort_checked(row_of(truth, row), sorted, "truth", row);
        sort_checked(row_of(predicted, row), scratch, "predicted", row);
        metrics.add_row(row_of(predicted, row), std::span<const std::int64_t>(sorted));
    }
    return metrics.scores();
}

}  // namespace elmo
