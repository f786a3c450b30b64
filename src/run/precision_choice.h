// --precision auto: which storage of the head a machine gets.
#pragma once

#include <string>

#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct PrecisionChoice {
    std::string precision;
    std::string why;  // a line for people; "" where nothing was to be chosen
};
// What `auto` stands for: 8 bits on a GPU; on a CPU bf16, or 8 bits where that does not fit in max_memory.
// Any other precision is itself.
PrecisionChoice choose_precision(const Context& context, const Config& config);
// The configuration with both chosen.
Config with_precision(const Context& context, Config config);
}  // namespace elmo
