#include "config/views.h"

#include <algorithm>

#include "config/option_table.h"
#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

// The number of the option's name among its choices. `last` is the enumeration's: the two lists are of one
// length.
template <class Enum>
Enum choice(const Config& config, OptionKey key, Enum last) {
    const std::vector<std::string>& names = options()[option_index(key, {})].choices;
    const auto found = std::find(names.begin(), names.end(), get_option(config, key));
    if (found == names.end() || names.size() != static_cast<std::size_t>(last) + 1) {
        validate(config);  // says what is wrong with the name
        throw std::logic_error("an enumeration has other names than its option");
    }
    return static_cast<Enum>(found - names.begin());
}

}  // namespace

EncoderOptions encoder_options(const Config& config) {
    EncoderOptions options;
    options.encoder = config.encoder;
    options.width = config.width;
    options.precision = choice(config, "encoder_precision", EncoderPrecision::kFp32);
    options.pooling = choice(config, "pooling", PoolingChoice::kCls);
    options.dropout = config.dropout;
    options.inner_dropout = config.encoder_dropout;
    options.frozen = config.freeze_encoder;
    options.accumulate = config.accumulate;
    return options;
}

HeadOptions head_options(const Config& config) {
    return {config.precision, choice(config, "head_rounding", HeadRounding::kNearest),
            choice(config, "head_noise", HeadNoise::kSharedSteps)};
}

}  // namespace elmo
