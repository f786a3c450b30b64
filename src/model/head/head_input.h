// What one step of a head takes besides its weights.
#pragma once

#include <cstdint>

#include "tensor/positives.h"
#include "tensor/view.h"

namespace elmo {

struct HeadInput {
    View x_BD;            // vectors of the texts
    Positives positives;  // of the head's rows
    float lr = 0, weight_decay = 0;
    std::uint64_t seed = 0, step = 0;  // address the noise
    bool want_loss = false;            // see HeadStepResult
    View dx_BD = {};                   // set; empty: not wanted
    View report_to = {};               // see HeadStep
    bool keeps_scale = false;          // see ReneeHead::step
};

}  // namespace elmo
