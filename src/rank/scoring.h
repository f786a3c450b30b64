// Streaming evaluation: rows of a split through encoder and head, the best labels of each, filtered, into the
// metrics. Nothing grows with samples times labels.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "batches/batcher.h"
#include "config/views.h"
#include "elmo/context.h"
#include "elmo/evaluation.h"
#include "engine/engine.h"
#include "metrics/bootstrap.h"
#include "metrics/conventions.h"
#include "metrics/frequency_groups.h"
#include "metrics/metrics.h"
#include "rank/shared_ranking.h"

namespace elmo {

// "1,3,5" -> {1, 3, 5}. ConfigError.
std::vector<std::int64_t> parse_ks(const std::string& text);

// Calls take(row, ranked) for every row of the plan in order: at least k of its best labels (if there are
// that many), filter pairs removed. The engine was planned for k + longest_filter labels.
using TakeRanked = std::function<void(std::int64_t row, std::vector<ScoredLabel>& ranked)>;
void rank_rows(const Context& context, Engine& engine, const BatchPlan& plan, const Split& split,
               std::int64_t k, const std::string& title, const TakeRanked& take);
// The same with another way to rank, `at_once` batches at a time.
using RankBatches = std::function<std::vector<std::vector<TopK>>(std::span<const RankedBatch> batches)>;
void rank_rows(const Context& context, const RankBatches& rank, std::int64_t at_once, const BatchPlan& plan,
               const Split& split, std::int64_t k, const std::string& title, const TakeRanked& take);

// The name by which a data set is known: its folder's or its file's, without endings. A copy is called as its
// original (original_value).
std::string data_set_name(const std::string& data);

// The inverse propensity of each label, as scores take it; empty without counts.
std::vector<double> propensities_of(const PropensityRule& rule, std::span<const std::int64_t> counts,
                                    std::int64_t train_rows);
// The rule that the options ask for.
PropensityRule propensity_rule(const ScoreOptions& options);

// Of intervals.
inline constexpr double kConfidence = 0.95;

// Metrics of ranked rows against a split's true labels.
class Scorer {
  public:
    // What is computed besides the scores themselves: nothing during training.
    enum class Detail { kScores, kIntervalsAndGroups };

    // counts: training rows of each label, viewed and not copied; empty: no propensities and no groups.
    // train_rows is the N of propensities. Labels from `trained` on have no training rows: their counts are
    // for propensities only.
    Scorer(const ScoreOptions& options, std::vector<std::int64_t> ks, std::int64_t labels,
           std::span<const std::int64_t> counts, std::int64_t train_rows, Detail detail = Detail::kScores,
           std::int64_t trained = std::numeric_limits<std::int64_t>::max());

    void add(std::span<const ScoredLabel> ranked, std::span<const std::uint32_t> truth);
    std::int64_t largest_k() const { return metrics_.largest_k(); }
    // Scores in percent with the protocol's fields that are known here.
    Evaluation result() const;
    const Bootstrap& bootstrap() const { return bootstrap_; }

  private:
    std::string data_, like_;
    std::int64_t labels_, propensity_rows_;
    PropensityRule rule_;
    std::vector<double> inverse_propensity_;
    RankingMetrics metrics_;
    Bootstrap bootstrap_;
    std::optional<GroupMetrics> groups_;
    std::int64_t unlabelled_ = 0;      // rows without a true label
    std::vector<std::int64_t> truth_;  // scratch of one row
};

}  // namespace elmo
