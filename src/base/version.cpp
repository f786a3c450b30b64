#include "elmo/version.h"

namespace elmo {

std::string version() {
    return ELMO_VERSION;
}

}  // namespace elmo
