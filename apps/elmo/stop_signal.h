// Ctrl-C and SIGTERM: the first ends the work after its step, the second ends the program. SIGHUP, from a
// closed terminal, ends the work too.
#pragma once

#include <atomic>

namespace elmo::cli {

// Set by the first signal from now on.
const std::atomic<bool>& stop_on_signal();

}  // namespace elmo::cli
