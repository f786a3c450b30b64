// P, nDCG, PSP, PSnDCG and R at k of rankings from anywhere, as pyxclib and `elmo eval` compute them.
// docs/evaluation.md has the formulas.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "elmo/api.h"

namespace elmo {

struct MetricScore {
    std::string metric;  // "P", "nDCG", "PSP", "PSnDCG", "R"
    std::int64_t k = 0;
    double value = 0;                                                      // a fraction of 1
    std::string name() const { return metric + "@" + std::to_string(k); }  // "P@1"
};

// Labels of rows, one row after another: those of row i stand from offsets[i] to before offsets[i + 1].
struct LabelRows {
    std::span<const std::int64_t> offsets;  // one more than rows
    std::span<const std::int64_t> labels;
};

// predicted: best first; truth: in any order. PSP and PSnDCG only where there are inverse propensities, one
// per label. A row without true labels scores 0 and counts; missing predictions are misses. DataError for
// rows that do not match, a label twice in a row or one that is no label; ConfigError for a k below 1 or
// none.
ELMO_API std::vector<MetricScore> score_rankings(const LabelRows& predicted, const LabelRows& truth,
                                                 const std::vector<std::int64_t>& ks,
                                                 std::span<const double> inverse_propensity = {});

// Inverse propensities of labels (Jain et al., 2016): rare labels weigh more because they are more often
// missing. q_l = 1 + C (N_l + B)^-A with C = (ln N - 1)(B + 1)^A. label_counts[l] is N_l, the training rows
// that carry label l; num_rows is N, all training rows. ConfigError for N < 1 or values of A and B for which
// the formula has no value.
ELMO_API std::vector<double> inverse_propensities(std::span<const std::int64_t> label_counts,
                                                  std::int64_t num_rows, double a, double b);

}  // namespace elmo
