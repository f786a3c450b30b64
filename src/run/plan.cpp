// elmo plan: the memory of a training run without running it.
#include "elmo/plan.h"

#include "base/parallel.h"
#include "config/encoder_folder.h"
#include "elmo/error.h"
#include "engine/full_length.h"
#include "engine/shapes.h"
#include "run/linear_plan.h"
#include "run/resolve.h"
#include "run/run_data.h"

namespace elmo {

MemoryReport plan_memory(const Context& given_context, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    const Config shaped = with_shape(given);
    if (!given.data.empty()) {
        const RunData data(context, resolve_before_data(context, shaped, nullptr), nullptr);
        const Config& config = data.config();
        if (config.encoder == kLinearEncoder) return plan_linear(data);
        return Engine(context, config, data.parts(context), data.shape(context, kRankedInTraining)).plan();
    }
    const Config config = resolve_without_data(context, shaped);
    if (config.encoder == kLinearEncoder)
        throw ConfigError(
            "encoder: the memory of linear depends on the texts; give --data, or --encoder bag");
    const EncoderSpec spec = spec_without_data(config);
    RankShare share{0, config.ranks, config.label_groups, config.batch_shards};
    share.rank = fullest_rank(share, config.labels);
    const RunShape shape = shared_shape(full_length_shape(context, config, spec), share, config.labels);
    return Engine(context, config, training_parts(config, spec, config.labels, share), shape).plan();
}

}  // namespace elmo
