// P, nDCG, PSP, PSnDCG and R at k, fed row by row, as pyxclib (the standard of the field) computes them.
//
// With y the true labels of a row, r_i = 1 when the i-th prediction is one of them, q the inverse propensity:
//   P@k      mean of (1/k) sum_{i<=k} r_i
//   R@k      mean of sum_{i<=k} r_i / max(|y|, 1)
//   nDCG@k   mean of sum_{i<=k} r_i / log2(i+1)  /  sum_{i<=min(k,|y|)} 1 / log2(i+1)
//   PSP@k    mean of (1/k) sum_{i<=k} q r_i  /  mean of (1/k) sum of the k largest q of y
//   PSnDCG@k the nDCG with q r_i, divided by the same of the best order of y
// A row without true labels scores 0 and counts; missing predictions are misses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "elmo/metrics.h"
#include "tensor/topk.h"

namespace elmo {

// What rows add up to at one k; every score is made of these.
struct MetricSums {
    double hits = 0, recall = 0, ndcg = 0;
    double ps_hits = 0, ps_best = 0, ps_ndcg = 0, ps_best_ndcg = 0;

    MetricSums& operator+=(const MetricSums& more);
};

// Metric by metric in the order P, nDCG, PSP, PSnDCG (where there are propensities), R, each at every k.
// `rows` may be fractional (weighted rows). No rows: zeros.
std::vector<MetricScore> scores_of(std::span<const std::int64_t> ks, std::span<const MetricSums> sums,
                                   double rows, bool with_propensities);

class RankingMetrics {
  public:
    // ks: from 1, in the order wanted. inverse_propensity[l] for every label, viewed and not copied; empty:
    // no PSP and PSnDCG. ConfigError for a k below 1 or none.
    explicit RankingMetrics(std::vector<std::int64_t> ks, std::span<const double> inverse_propensity = {});

    // predicted: distinct labels, best first, already filtered; those beyond the largest k are ignored.
    // truth: ascending, distinct. DataError for a true label without an inverse propensity.
    void add_row(std::span<const std::int64_t> predicted, std::span<const std::int64_t> truth);
    void add_row(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth);
    void add_row(std::span<const ScoredLabel> predicted, std::span<const std::int64_t> truth);
    void add_row(std::span<const ScoredLabel> predicted, std::span<const std::int32_t> truth);

    // Adds the rows of another with the same ks and propensities. Sums are doubles: for equal bits, equal
    // cuts.
    void merge(const RankingMetrics& other);

    std::int64_t num_rows() const { return num_rows_; }
    std::int64_t largest_k() const { return largest_k_; }
    const std::vector<std::int64_t>& ks() const { return ks_; }
    bool with_propensities() const { return !inverse_propensity_.empty(); }
    // What the last added row has added, one per k.
    std::span<const MetricSums> last_row() const { return row_; }
    std::vector<MetricScore> scores() const;

  private:
    struct Hit {
        bool hit;
        double weight;  // the inverse propensity of a hit
    };
    template <class Predicted, class Label>
    void add(std::span<const Predicted> predicted, std::span<const Label> truth);

    std::vector<std::int64_t> ks_;
    std::int64_t largest_k_ = 0;
    std::span<const double> inverse_propensity_;
    std::vector<MetricSums> sums_, row_;    // one a k
    std::vector<double> discount_, ideal_;  // 1 / log2(i+2), and its sums: ideal_[n] of the first n
    std::vector<Hit> hit_;                  // scratch of one row: its predictions
    std::vector<double> best_;              // scratch of one row: the q of its true labels, largest first
    std::int64_t num_rows_ = 0;
};

// Filtered evaluation: removes the labels in `filtered` (ascending) and keeps the order, then cuts to k.
// Rank k + filtered.size() labels of the row to be sure of k that remain.
void remove_filtered(std::vector<ScoredLabel>& ranked, std::span<const std::int64_t> filtered,
                     std::int64_t k);
void remove_filtered(std::vector<ScoredLabel>& ranked, std::span<const std::int32_t> filtered,
                     std::int64_t k);

}  // namespace elmo
