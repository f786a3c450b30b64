// Long calls into the library, as Python wants them: the work runs on a thread of its own without the GIL,
// while the calling thread delivers what it reports (messages, progress, lines of the log) to a listener and
// looks for Ctrl-C. So callbacks run where their caller is, exceptions of theirs end the call, and other
// Python threads go on.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

#include "elmo/context.h"

namespace elmo::python {

// What Ctrl-C, or a listener that raises, does to the work. The call ends with that exception in both cases.
enum class OnInterrupt {
    kStop,     // it ends after its step and keeps what it has: Context::stop_requested
    kAbandon,  // it is given up at its next report
};

// Runs work(context). `listener` is None or has message(severity, text), progress(title, unit, note, done,
// total, first, state), has_callbacks, and log_line(line), which is called if these are there: it returns
// whether the work shall stop, and the work waits for it.
void attend(nanobind::object listener, OnInterrupt on_interrupt,
            const std::function<void(const Context&)>& work);

}  // namespace elmo::python
