// Inverse propensities of labels (Jain et al., 2016): rare labels weigh more because they are more often
// missing. q_l = 1 + C (N_l + B)^-A with C = (ln N - 1)(B + 1)^A.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace elmo {

// label_counts[l] is N_l, the training rows that carry label l; num_rows is N, all training rows.
// ConfigError for N < 1 or values of A and B for which the formula has no value.
std::vector<double> inverse_propensities(std::span<const std::int64_t> label_counts, std::int64_t num_rows,
                                         double a, double b);

}  // namespace elmo
