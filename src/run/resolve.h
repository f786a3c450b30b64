// The steps of resolving a configuration that need a model or a plan; elmo/resolve.h has the verbs' own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/resolve.h"
#include "run/checkpoint.h"

namespace elmo {

// What is known before the data is open, of a new run or of one that is continued from `checkpoint`: RunData
// (run_data.h) chooses the rest. Without data, see resolve_without_data().
Config resolve_before_data(const Context& context, const Config& given, const Checkpoint* checkpoint);
// The complete configuration where no data is named.
Config resolve_without_data(const Context& context, const Config& given);

// A run that starts from another one (config.init) with what it takes from that run's recipe: its encoder and
// tokenizer, its data where none is given, and every option about reading and training that was not given.
// ConfigError for a linear model, or an option that contradicts it; DataError as Checkpoint.
Config with_init(Config config);

// With the cache that the run had, unless another was asked for. A run's recipe may name any folder: it is
// used only if the data was imported into it before.
Config with_cache_of_run(Config config, const Config& run, const Config& asked);

// With labels, batch_size, max_length and, where no data is named, the encoder of config.shape: what was
// given stays. The encoder is then `auto`, and spec_without_data() has it. ConfigError for an unknown name,
// or a vocabulary of another size than the encoder's.
Config with_shape(Config config);

struct PrecisionChoice {
    std::string precision;
    std::string why;  // a line for the log; "" if nothing was chosen
};
// What precision `auto` stands for, of a head of that many weights: bf16; 8 bits where bf16 does not fit in
// max_memory, and for a large head on a GPU. Any other precision is itself.
PrecisionChoice choose_precision(const Context& context, const Config& config, std::int64_t weights);
// With the precision chosen, and what follows from it.
Config with_precision(const Context& context, Config config, std::int64_t weights);
// What the log says of every option that was `auto`, a line each: "precision auto: bf16, which fits in
// max_memory".
std::vector<std::string> choice_notes(const Config& config);

}  // namespace elmo
