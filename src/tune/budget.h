// The time that a search may take. The clock is looked at whenever work reports how far it has come: no
// thread waits for it.
#pragma once

#include <atomic>
#include <chrono>

#include "elmo/context.h"

namespace elmo {

class Budget {
  public:
    // `seconds` from now; 0: no limit.
    Budget(const Context& context, double seconds) : given_(context), seconds_(seconds) {}
    Budget(const Budget&) = delete;
    Budget& operator=(const Budget&) = delete;

    // The given context, whose work is asked to stop when the time is up, or when the given one is.
    Context context() {
        Sinks sinks = given_.sinks();
        sinks.progress = [this, show = sinks.progress](const ProgressReport& report) {
            spent();
            if (show) show(report);
        };
        return given_.with_sinks(std::move(sinks)).with_stop(stop_);
    }
    // Whether no more work is to begin.
    bool spent() {
        const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start_;
        if (given_.stop_requested() || (seconds_ > 0 && gone.count() >= seconds_)) stop_ = true;
        return stop_;
    }

  private:
    Context given_;
    double seconds_;
    std::atomic<bool> stop_ = false;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace elmo
