#include "engine/full_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "elmo/error.h"
#include "engine/shapes.h"

namespace elmo {

EncoderSpec spec_without_data(const SizeOptions& options) {
    if (!options.shape.empty() && options.encoder.encoder == "auto")
        return shape_encoder(named_shape(options.shape), options.encoder);
    return make_encoder_spec(options.encoder, options.encoder.encoder == "bag" ? options.vocab_size : 0);
}

RunShape full_length_shape(const Context& context, const SizeOptions& options, const EncoderSpec& spec) {
    if (options.labels < 1)
        throw ConfigError(
            "labels: expected the number of labels where there is no data set, found none; give --labels");
    RunShape shape;
    shape.batch = options.batch_size;
    shape.longest = cut_length(context, options.max_length, spec) * options.encoder.windows;
    shape.tokens = shape.batch * shape.longest;
    if (shape.tokens > std::numeric_limits<std::int32_t>::max())
        throw ConfigError(fmt::format(
            "batch_size and max_length: expected fewer than 2^31 tokens in a batch, found {}", shape.tokens));
    shape.positives = shape.batch * kPositivesPerText;
    shape.top_k = std::min(kRankedInTraining, options.labels);
    shape.table_bytes = 16 * options.labels;
    return shape;
}

RunShape shared_shape(RunShape shape, const RankShare& share, std::int64_t labels) {
    if (share.is_whole()) return shape;
    shape.share = share;
    if (share.rank > 0) shape.table_bytes = 0;  // the first rank scores and saves
    shape.labels = labels;
    shape.texts = shape.batch;
    shape.batch = (shape.texts + share.shards - 1) / share.shards;
    shape.tokens = shape.batch * shape.longest;
    for (std::int64_t r = 0; r < share.ranks; ++r)
        shape.rank_texts =
            std::max(shape.rank_texts, std::min(shape.texts, share.own_shards(r).size() * shape.batch));
    return shape;
}

}  // namespace elmo
