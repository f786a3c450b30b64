// How well a device is used while training: the share of time in which it waited for the host, and the share
// of the speed of light (the least time that its measured product and copy rates allow, divided by the
// measured time).
#pragma once

#include <cstdint>

#include "batches/batcher.h"
#include "engine/engine.h"

namespace elmo {

struct DeviceUse {
    double idle_percent = 0, sol_percent = 0;
};

class StepMeter {
  public:
    // Measures the ceilings of a device, before the engine has taken its memory and within it; on a host
    // backend nothing is measured and the meter stays off.
    explicit StepMeter(Engine& engine);
    bool on() const { return ceilings_.gflops > 0; }

    void begin_step();
    // `encodes`: the encoder ran.
    void end_step(const Batch& batch, bool encodes);
    // Of the steps since the last call; waits for the last of them.
    DeviceUse take();

  private:
    // Steps that are timed between two reports: the first of them.
    static constexpr int kTimed = 200;

    Engine& engine_;
    Ceilings ceilings_;
    int steps_ = 0;  // timed so far
    double floor_ms_ = 0;
};

}  // namespace elmo
