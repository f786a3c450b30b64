// `elmo plan`: the memory of a training run, known before it starts.
#pragma once

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

// The memory of a training run of this configuration, without running it. Uses the data set's cache for
// labels and lengths if `data` is set, else `labels` and full-length texts.
ELMO_API MemoryReport plan_memory(const Context& context, const Config& config);

}  // namespace elmo
