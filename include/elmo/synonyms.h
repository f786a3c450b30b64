// What other programs call the options of this one: their names lead people to ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "elmo/api.h"

namespace elmo {

// " (did you mean '--encoder-lr' or '--head-lr'?)" for "--lr"; only flags that are `known`; what stands for
// it where it needs no flag; "" for a flag that no other program has.
ELMO_API std::string flag_meant_by(std::string_view flag, const std::vector<std::string>& known);

// The same of keys: "encoder_lr" or "head_lr" for "learning_rate".
ELMO_API std::string key_meant_by(std::string_view key, const std::vector<std::string>& known);

}  // namespace elmo
