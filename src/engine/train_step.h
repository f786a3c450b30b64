// One training step: forward, head, backward, update. All training runs this: a run, the rows of new labels,
// a refinement of the head, and bench, which measures it.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/engine.h"

namespace elmo {

// How a step treats the encoder's gradients.
struct EncoderUpdate {
    AdamWSettings adamw = {};
    bool adds = false;                  // to the gradients of the steps before (gradient accumulation)
    bool updates = true;                // else they wait for a later step
    Encoder::GradientCheck check = {};  // sees every gradient before it is used
};

struct StepInput {
    TextBatch texts;
    View x_BD = {};  // without an encoder, or with a frozen one that need not run: the vectors of the texts
    Positives positives;
    std::uint64_t seed = 0, step = 0;  // address the noise
    float head_lr = 0, head_weight_decay = 0;
    bool new_head = false;  // the first step of weights that Head::initialise made
    bool want_loss = false;
    View report_to = {};  // see HeadStep
    EncoderUpdate encoder = {};
    // Called while the step runs: before the head starts, and when it is done.
    std::function<void(View x_BD)> before_head = {};
    std::function<void(const HeadStepResult&)> after_head = {};
};

struct StepResult {
    HeadStepResult head;
    bool updated = false;  // the encoder
};

// On what the engine has staged: without an encoder, or with a frozen one, only the head learns; without a
// head the encoder's backward takes the gradient that is there.
StepResult train_step(Engine& engine, const StepInput& in);

}  // namespace elmo
