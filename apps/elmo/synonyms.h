// What other programs call the verbs of this one.
#pragma once

#include <string>
#include <string_view>

namespace elmo::cli {

// " (did you mean 'train'?)" for "supervised" or "fit"; "" for a verb that no other program has.
std::string verb_meant_by(std::string_view verb);

}  // namespace elmo::cli
