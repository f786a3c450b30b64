// Which elmo this is.
#pragma once

#include <string>

namespace elmo {

std::string version();

}  // namespace elmo
