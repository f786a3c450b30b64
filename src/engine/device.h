// Which device `auto` stands for.
#pragma once

#include <string>

#include "config/views.h"
#include "elmo/context.h"

namespace elmo {

struct ChosenDevice {
    DeviceChoice device;
    std::string name;  // "cuda"
    std::string why;   // for people
};

// What the environment's ELMO_DEVICE names; else cuda if libelmo_cuda.so opens and a GPU answers; else cpu.
// ConfigError if ELMO_DEVICE is no device.
ChosenDevice choose_device(const Context& context);

}  // namespace elmo
