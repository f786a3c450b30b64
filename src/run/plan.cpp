// elmo plan: the memory of a training run without running it, and the precision that --precision auto takes
// where memory decides.
#include "elmo/plan.h"

#include <fmt/format.h>

#include "base/parallel.h"
#include "base/text_util.h"
#include "engine/full_length.h"
#include "engine/precision.h"
#include "engine/shapes.h"
#include "model/encoder_folder.h"
#include "run/precision_choice.h"
#include "run/run_data.h"

namespace elmo {

PrecisionChoice choose_precision(const Context& context, const Config& config) {
    if (config.precision != "auto") return {config.precision, ""};
    const auto chosen = [](const char* precision, const std::string& why) {
        return PrecisionChoice{precision, fmt::format("precision auto: {}, {}", precision, why)};
    };
    if (config.device == "cuda")
        return chosen(kAuto8Bit, "8 bits a weight: half the memory of bf16 and about its quality");
    if (config.max_memory.empty()) return chosen("bf16", "as no max_memory asks for less");
    Config wide = config;
    wide.precision = "bf16";
    const std::int64_t needs = plan_memory(context, wide).total_bytes(), has = parse_bytes(config.max_memory);
    if (needs <= has) return chosen("bf16", "which fits in max_memory");
    return chosen(kAuto8Bit, fmt::format("as bf16 would need {}, more than max_memory of {}",
                                         human_bytes(needs), human_bytes(has)));
}

Config with_precision(const Context& context, Config config) {
    config.precision = choose_precision(context, config).precision;
    config.head_kahan = choose_head_kahan(config);
    return config;
}

MemoryReport plan_memory(const Context& given_context, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    Config config = with_precision(context, with_shape(given));
    config.encoder = encoder_folder(config.encoder);
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
