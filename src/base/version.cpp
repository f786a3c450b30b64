#include "elmo/version.h"

#include <fmt/format.h>

namespace elmo {

std::string version() {
    return fmt::format("{}.{}.{}", kVersionMajor, kVersionMinor, kVersionPatch);
}

}  // namespace elmo
