// A context for tests: all cores, no messages.
#pragma once

#include <atomic>
#include <string_view>

#include "elmo/context.h"

namespace elmo {

inline const Context& quiet() {
    static const Context context({.threads = 0, .sinks = silent()});
    return context;
}

// A quiet context that asks to stop, by `stop`, once training reports its planned memory: the data are read,
// and no step is done.
inline Context stopping_before_the_first_step(std::atomic<bool>& stop) {
    Sinks sinks = silent();
    sinks.message = [&stop](Severity, std::string_view message) {
        if (message.find("of memory planned") != message.npos) stop = true;
    };
    return quiet().with_sinks(sinks).with_stop(stop);
}

}  // namespace elmo
