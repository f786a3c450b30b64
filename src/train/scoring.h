// Streaming evaluation: rows of a split through encoder and head, the best labels of each, filtered, into the
// metrics. Nothing grows with samples times labels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/batcher.h"
#include "elmo/elmo.h"
#include "metrics/metrics.h"
#include "train/session.h"

namespace elmo {

// "1,3,5" -> {1, 3, 5}. ConfigError.
std::vector<std::int64_t> parse_ks(const std::string& text);

// The most labels that a filter removes from one row.
std::int64_t longest_filter(const Split& split);

// Calls take(row, ranked) for every row of the plan in order: at least k of its best labels where there are
// as many, filter pairs removed. The session was planned for k + longest_filter labels.
using TakeRanked = std::function<void(std::int64_t row, std::vector<ScoredLabel>& ranked)>;
void rank_rows(Session& session, const BatchPlan& plan, const Split& split, std::int64_t k,
               const std::string& title, const TakeRanked& take);

// Metrics of ranked rows against a split's true labels.
class Scorer {
  public:
    // counts: training rows of each label; train_rows is the N of propensities. From the configuration: k or
    // `ks`, propensity_a and propensity_b.
    Scorer(const Config& config, std::vector<std::int64_t> ks, std::span<const std::int64_t> counts,
           std::int64_t train_rows);

    void add(std::span<const ScoredLabel> ranked, std::span<const std::uint32_t> truth);
    std::int64_t largest_k() const { return metrics_.largest_k(); }
    // Scores in percent with the protocol's fields that are known here.
    Evaluation result() const;

  private:
    double a_, b_;
    std::vector<double> inverse_propensity_;
    RankingMetrics metrics_;
    std::vector<std::int64_t> truth_;  // scratch of one row
};

}  // namespace elmo
