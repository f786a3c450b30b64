// --explain: the options of a verb with their values and reasons.
#pragma once

#include "command_line.h"

namespace elmo::cli {

// One line per option: key, value and reason; with --json one object by key.
void print_explanation(const Verb& verb, const Invocation& invocation);

}  // namespace elmo::cli
