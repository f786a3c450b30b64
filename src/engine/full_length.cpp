// elmo plan: the memory of a training run without running it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "elmo/elmo.h"
#include "train/encoder_folder.h"
#include "train/plan.h"
#include "train/precision.h"
#include "train/run_data.h"
#include "train/shapes.h"

namespace elmo {

EncoderSpec spec_without_data(const Config& config) {
    if (!config.shape.empty()) return shape_encoder(config);
    return make_encoder_spec(config, config.encoder == "bag" ? config.vocab_size : 0);
}

RunShape full_length_shape(const Config& config, const EncoderSpec& spec) {
    if (config.labels < 1)
        throw ConfigError(
            "labels: expected the number of labels where there is no data set, found none; give --labels");
    RunShape shape;
    shape.labels = config.labels;
    shape.batch = config.batch_size;
    shape.longest = cut_length(config, spec);
    shape.tokens = shape.batch * shape.longest;
    if (shape.tokens > std::numeric_limits<std::int32_t>::max())
        throw ConfigError(fmt::format(
            "batch_size and max_length: expected fewer than 2^31 tokens in a batch, found {}", shape.tokens));
    shape.positives = shape.batch * kPositivesPerText;
    shape.top_k = std::min(kRankedInTraining, shape.labels);
    shape.table_bytes = 16 * shape.labels;
    return shape;
}

MemoryReport plan_memory(const Config& given) {
    program_start_bytes();
    validate(given);
    Config config = with_precision(with_shape(given));
    config.encoder = encoder_folder(config.encoder);
    set_num_threads(static_cast<int>(config.threads));
    if (!config.data.empty()) {
        const RunData data(config, nullptr);
        return Session(config, data.encoder_spec(), data.shape(kRankedInTraining)).plan();
    }
    const EncoderSpec spec = spec_without_data(config);
    return Session(config, spec, full_length_shape(config, spec)).plan();
}

}  // namespace elmo
