// Confidence intervals of scores, by the Poisson bootstrap: each row enters each replicate a Poisson(1)
// number of times, so rows can stream by and memory is one set of sums per replicate. The number depends only
// on (row, replicate): intervals are the same on every machine, and two systems scored on the same rows are
// resampled in the same way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/metrics.h"

namespace elmo {

inline constexpr std::uint32_t kStreamBootstrap = 0x8e00;  // of addressed noise; the metrics' own

// How often row `row` is in replicate `replicate`: Poisson(1) to the 16 bits of its noise, 8 at most.
int bootstrap_weight(std::int64_t row, std::int64_t replicate);

struct Interval {
    double low = 0, high = 0;
};

// The central `confidence` of the values.
Interval central_interval(std::vector<double> values, double confidence);

class Bootstrap {
  public:
    // 0 replicates: add() does nothing and intervals() is empty.
    Bootstrap(std::int64_t replicates, std::vector<std::int64_t> ks, bool with_propensities);

    // The next row: what it adds at each k (RankingMetrics::last_row).
    void add(std::span<const MetricSums> row);

    std::int64_t replicates() const { return static_cast<std::int64_t>(rows_.size()); }
    // The values of each score in all replicates that have rows; scores in the order of scores_of.
    std::vector<std::vector<double>> replicate_scores() const;
    // The central `confidence` of each.
    std::vector<Interval> intervals(double confidence) const;

  private:
    std::vector<std::int64_t> ks_;
    bool with_propensities_;
    std::int64_t next_row_ = 0;
    std::vector<double> rows_;      // weighted rows of each replicate
    std::vector<MetricSums> sums_;  // [replicate][k]
};

}  // namespace elmo
