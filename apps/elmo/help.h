// --help and docs/cli.md, both made from the verbs and the option list.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"

namespace elmo::cli {

enum class HelpDepth {
    kCommon,  // what most people need: the options that options.def marks, and the verb's own flags
    kAll,
};
std::string help_text(const Verb& verb, HelpDepth depth);
std::string overview_text(const std::vector<Verb>& verbs);
// The whole of docs/cli.md.
std::string markdown(const std::vector<Verb>& verbs);

}  // namespace elmo::cli
