// Evaluation with what a comparison of two runs needs besides the scores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/evaluation.h"
#include "rank/scored_run.h"

namespace elmo {

struct DetailedEvaluation {
    Evaluation evaluation;
    std::vector<std::vector<double>> replicates;  // of each score; see Bootstrap::replicate_scores
    std::uint64_t rows_hash = 0;                  // of the rows and how many labels each has
};
// As evaluate(), but keeps nothing. Messages call the run `called`. `least_depth`: so many labels of each
// text are ranked at least, which a linear model answers a little better.
DetailedEvaluation evaluate_in_detail(const Context& context, const std::string& run, const Config& config,
                                      const RowsName& rows = {}, const std::string& called = kThisRun,
                                      std::int64_t least_depth = 0);
// Appends the scores to the file that keeps those of the run.
void keep_scores(const Context& context, const std::string& run, const Config& config, Evaluation evaluation);

}  // namespace elmo
