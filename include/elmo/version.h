// The version of elmo. CMake, packages and `elmo --version` take their numbers from here.
#pragma once

#include <string>

#include "elmo/api.h"

namespace elmo {

// Of these headers.
inline constexpr int kVersionMajor = 0;
inline constexpr int kVersionMinor = 1;
inline constexpr int kVersionPatch = 0;

// Of the library that is linked: "0.1.0".
ELMO_API std::string version();

}  // namespace elmo
