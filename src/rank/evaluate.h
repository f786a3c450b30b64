// Evaluation with what a comparison of two runs needs besides the scores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/evaluation.h"

namespace elmo {

struct DetailedEvaluation {
    Evaluation evaluation;
    std::vector<std::vector<double>> replicates;  // of each score; see Bootstrap::replicate_scores
    std::uint64_t rows_hash = 0;                  // of the rows and how many labels each has
};
// As evaluate(); the scores are kept in the same places.
DetailedEvaluation evaluate_in_detail(const Context& context, const std::string& run, const Config& config);

}  // namespace elmo
