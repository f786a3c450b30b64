// The steps of resolving a configuration that need a model or a plan; elmo/resolve.h has the verbs' own.
#pragma once

#include <string>

#include "elmo/resolve.h"
#include "run/checkpoint.h"

namespace elmo {

// As resolve_training(), of a run that is continued from `checkpoint`; null for a new one.
Config resolve_training(const Context& context, const Config& given, const Checkpoint* checkpoint);

// Chooses every number that is `auto`, by the encoder that the run starts from. Choices that depend on the
// data belong here too: add the data's summary as an argument and call it when the data is open.
Config with_chosen_numbers(Config config);

// With labels, batch_size and max_length of config.shape; one that was given stays. ConfigError for an
// unknown name.
Config with_shape(Config config);

struct PrecisionChoice {
    std::string precision;
    std::string why;  // a line for the log; "" if nothing was chosen
};
// What precision `auto` stands for: 8 bits on a GPU; on a CPU bf16, or 8 bits where that does not fit in
// max_memory. Any other precision is itself.
PrecisionChoice choose_precision(const Context& context, const Config& config);
// The log line for a chosen precision; "" if it was given.
std::string precision_note(const Config& config);

}  // namespace elmo
