// What other programs call the flags of this one: their names lead people to ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elmo::cli {

// " (did you mean '--encoder-lr' or '--head-lr'?)" for "--lr"; only flags that are `known`; what stands for
// it where it needs no flag; "" for a flag that no other program has.
std::string meant_by(std::string_view flag, const std::vector<std::string>& known);

// " (did you mean 'train'?)" for "supervised" or "fit"; "" for a verb that no other program has.
std::string verb_meant_by(std::string_view verb);

}  // namespace elmo::cli
