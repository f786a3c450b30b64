// `elmo calibrate`: probabilities fitted on the validation rows.
#pragma once

#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/run.h"

namespace elmo {

// Fits on the validation rows of the run's data and stores the result beside the checkpoint, where prediction
// finds it.
ELMO_API Calibration calibrate(const Context& context, const std::string& run, const Config& config);

}  // namespace elmo
