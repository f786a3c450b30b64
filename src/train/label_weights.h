// How many times a positive of each label counts in the loss: by propensity (--objective psp), and by the
// root of its rows or the file of --label-weights.
#pragma once

#include <cstdint>
#include <vector>

#include "elmo/config.h"
#include "run/checkpoint.h"

namespace elmo {

// Of each label; empty where all count once. DataError with file and line for a label or a weight that is
// none.
std::vector<float> label_weights(const Config& config, const LabelTable& labels, std::int64_t train_rows);

}  // namespace elmo
