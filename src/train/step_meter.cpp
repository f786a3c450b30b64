#include "train/step_meter.h"

#include <algorithm>

#include "engine/step_cost.h"

namespace elmo {

StepMeter::StepMeter(Engine& engine) : engine_(engine) {
    if (!engine.backend().host_memory())
        ceilings_ =
            engine.backend().measure_ceilings(engine.encoder().spec().dtype, engine.plan().arena_bytes);
}

void StepMeter::begin_step() {
    if (on() && steps_ < kTimed) engine_.backend().mark(2 * steps_);
}

void StepMeter::end_step(const Batch& batch, bool encodes) {
    if (!on() || steps_ == kTimed) return;
    engine_.backend().mark(2 * steps_ + 1);
    ++steps_;
    const auto tokens = static_cast<std::int64_t>(batch.tokens.size());
    std::int64_t squares = 0;  // attention works within each text
    for (std::size_t b = 0; b + 1 < batch.offsets.size(); ++b) {
        const std::int64_t length = batch.offsets[b + 1] - batch.offsets[b];
        squares += length * length;
    }
    const std::int64_t length = squares / std::max<std::int64_t>(tokens, 1);
    const Encoder& encoder = engine_.encoder();
    Cost cost = head_step_cost(engine_.head(), batch.size());
    const auto add = [&](const Cost& other) {
        cost.flops += other.flops;
        cost.bytes += other.bytes;
    };
    if (encodes) add(encoder_forward_cost(encoder, batch.size(), tokens, length));
    if (!encoder.spec().frozen) add(encoder_backward_cost(encoder, batch.size(), tokens, length));
    floor_ms_ += std::max(cost.flops / ceilings_.gflops, cost.bytes / ceilings_.gbytes) / 1e6;
}

DeviceUse StepMeter::take() {
    DeviceUse use;
    if (steps_ > 0) {
        Backend& backend = engine_.backend();
        double idle = 0;
        for (int i = 1; i < steps_; ++i) idle += backend.elapsed_ms(2 * i - 1, 2 * i);
        const double total = backend.elapsed_ms(0, 2 * steps_ - 1);
        use = {100 * idle / total, 100 * floor_ms_ / total};
    }
    steps_ = 0;
    floor_ms_ = 0;
    return use;
}

}  // namespace elmo
