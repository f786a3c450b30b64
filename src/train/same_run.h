// Whether all ranks train the same run: a rank may have been started with other options, data or program.
#pragma once

#include "elmo/config.h"
#include "ranks/collectives.h"
#include "run/checkpoint.h"

namespace elmo {

// A collective. ConfigError, the same on all ranks, that names the first rank which differs from rank 0, and
// in what.
void require_same_run(Ranks& ranks, const Config& config, const RunState& state);

}  // namespace elmo
