// The memory that training a linear model takes: an estimate, as words and weights are known only afterwards.
#pragma once

#include "elmo/memory.h"
#include "run/run_data.h"

namespace elmo {

MemoryReport plan_linear(const Context& context, const RunData& data);

}  // namespace elmo
