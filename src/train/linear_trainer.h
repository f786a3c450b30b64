// Training of a linear model: a run as any other on disk, without steps in between. Interrupted, it leaves
// nothing but its log, and begins again.
#pragma once

#include "elmo/train.h"
#include "run/run_folder.h"

namespace elmo {

// `config` is resolved, with encoder linear.
TrainResult train_linear(const Context& context, RunFolder& folder, const Config& config);

}  // namespace elmo
