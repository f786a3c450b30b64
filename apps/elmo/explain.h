// --explain: the options of a verb, what they are and why.
#pragma once

#include "command_line.h"

namespace elmo::cli {

// One line per option: key, value and reason; with --json one object by key.
void print_explanation(const Verb& verb, const Invocation& invocation);

}  // namespace elmo::cli
