// elmo plan: the memory of a training run without running it.
#include "elmo/plan.h"

#include "base/parallel.h"
#include "elmo/resolve.h"
#include "engine/full_length.h"
#include "run/run_data.h"

namespace elmo {

MemoryReport plan_memory(const Context& given_context, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    const Config config = resolve_plan(context, given);
    if (!config.data.empty()) {
        const RunData data(context, config, nullptr);
        const EngineParts parts = training_parts(config, data.encoder_spec(), data.dataset().num_labels());
        return Engine(context, config, parts, data.shape(context, kRankedInTraining)).plan();
    }
    const EncoderSpec spec = spec_without_data(config);
    const RunShape shape = full_length_shape(context, config, spec);
    return Engine(context, config, training_parts(config, spec, config.labels), shape).plan();
}

}  // namespace elmo
