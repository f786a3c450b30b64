// A context for tests: all cores, no messages.
#pragma once

#include "elmo/context.h"
#include "quiet.h"

namespace elmo {

inline const Context& quiet() {
    static const Context context({.threads = 0, .sinks = silent()});
    return context;
}

}  // namespace elmo
