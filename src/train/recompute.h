// What the backward of each encoder layer computes again: the choices that a configuration leaves to the
// planner, and their names.
#pragma once

#include <string>
#include <vector>

#include "elmo/config.h"
#include "model/encoder.h"

namespace elmo {

// The choices to try, one entry a layer each, from the least to compute again to the most. One alone where
// the configuration names it, where no memory is given to fit in, or where nothing is kept for a backward.
std::vector<std::vector<Recompute>> recompute_choices(const Config& config, const EncoderSpec& spec,
                                                      bool training, bool host_memory);

// "none", "cheap", "layers", or "layers for the first 3 of 12, cheap for the others".
std::string describe_recompute(const std::vector<Recompute>& layers);

}  // namespace elmo
