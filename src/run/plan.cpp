// elmo plan: the memory of a training run without running it.
#include "elmo/plan.h"

#include "base/parallel.h"
#include "elmo/resolve.h"
#include "engine/full_length.h"
#include "run/run_data.h"

namespace elmo {

MemoryReport plan_memory(const Config& given) {
    program_start_bytes();
    validate(given);
    const Config config = resolve_plan(given);
    set_num_threads(static_cast<int>(config.threads));
    if (!config.data.empty()) {
        const RunData data(config, nullptr);
        return Session(config, data.encoder_spec(), data.shape(kRankedInTraining)).plan();
    }
    const EncoderSpec spec = spec_without_data(config);
    return Session(config, spec, full_length_shape(config, spec)).plan();
}

}  // namespace elmo
