// Rows of a split ranked by a linear model: what rank_rows (scoring.h) is to encoder and head.
#pragma once

#include <span>

#include "linear/ranker.h"
#include "rank/scoring.h"
#include "sources/rows.h"

namespace elmo {

// ConfigError where a linear model is to work elsewhere than on a CPU.
void refuse_other_device(const Config& config);

// Says that a limit of memory has no effect where a linear model ranks: it is mapped from its file.
void warn_of_unused_limit(const Context& context, const Config& config);

void rank_rows(const Context& context, const LinearRanker& ranker, const Split& split,
               std::span<const std::int64_t> rows, std::int64_t k, const std::string& title,
               const TakeRanked& take);

}  // namespace elmo
