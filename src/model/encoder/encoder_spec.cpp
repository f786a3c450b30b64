#include "model/encoder/encoder_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "formats/safetensors.h"
#include "model/encoder/hf_config.h"

namespace elmo {
namespace {

EncoderSpec bag_spec(const EncoderOptions& options, std::int64_t vocab) {
    EncoderSpec spec;
    spec.family = "bag";
    spec.vocab = vocab;
    spec.width = options.width;
    spec.intermediate = options.width;
    spec.norm_epsilon = 1e-6f;
    return spec;
}

EncoderSpec folder_spec(const InputFolder& folder, std::int64_t vocab) {
    if (!folder.has("config.json"))
        throw ConfigError(fmt::format("encoder '{}': expected bag, or a folder with a config.json",
                                      quoted(folder.path().string())));
    EncoderSpec spec = parse_model_config(folder.read("config.json"), folder / "config.json");
    if (vocab > spec.vocab)
        throw ConfigError(
            fmt::format("encoder '{}' has room for {} tokens, but the tokenizer has {}: use the encoder's "
                        "own tokenizer, or a smaller vocab_size",
                        quoted(folder.path().string()), with_commas(spec.vocab), with_commas(vocab)));
    if (has_weights(folder)) spec.weights_folder = folder;
    return spec;
}

void set_window(const EncoderOptions& options, EncoderSpec& spec) {
    spec.window = 0;
    if (options.windows == 1) return;
    if (spec.is_bag() || spec.pooling != Pooling::kMean)
        throw ConfigError(fmt::format("windows: expected 1 with {}, found {}",
                                      spec.is_bag() ? "encoder bag, which takes texts of any max_length"
                                                    : "pooling cls: windows are joined by pooling mean",
                                      options.windows));
    spec.window = std::min(options.max_length, spec.longest_text());
}

}  // namespace

void set_training(const EncoderOptions& options, EncoderSpec& spec) {
    const bool fp16 = options.precision == EncoderPrecision::kFp16;
    spec.dtype = fp16 || options.precision == EncoderPrecision::kFp32 ? DType::kF32 : DType::kBf16;
    spec.fp8 = options.precision == EncoderPrecision::kFp8;
    spec.fp16 = fp16 && !options.frozen;
    spec.compensated = options.compensated;
    spec.state_in_bytes = options.state_in_bytes;
    spec.accumulate = options.accumulate;
    // FP16 products: whether any gradient overflowed decides about all.
    spec.consume_gradients = options.accumulate == 1 && !spec.fp16;
    spec.frozen = options.frozen;
}

EncoderSpec make_encoder_spec(const EncoderOptions& options, std::int64_t vocab, const InputFolder& encoder) {
    EncoderSpec spec = options.encoder == "bag"
                           ? bag_spec(options, vocab)
                           : folder_spec(encoder.empty() ? InputFolder(options.encoder) : encoder, vocab);
    spec.pooling = options.pooling == PoolingChoice::kCls ? Pooling::kCls : Pooling::kMean;
    set_window(options, spec);
    spec.pooled_dropout = static_cast<float>(options.dropout);
    if (options.inner_dropout >= 0)
        spec.hidden_dropout = spec.attention_dropout = static_cast<float>(options.inner_dropout);
    set_training(options, spec);
    return spec;
}

EncoderSpec read_encoder_spec(const InputFolder& folder) {
    EncoderSpec spec = parse_model_config(folder.read("config.json"), folder / "config.json");
    spec.weights_folder = folder;
    return spec;
}

std::int64_t cut_length(const Context& context, std::int64_t max_length, const EncoderSpec& spec) {
    const std::int64_t positions = spec.longest_text();
    if (positions <= 0 || max_length <= positions) return max_length;
    context.info(fmt::format("texts are cut at {} tokens, the encoder's positions, not at max_length {}",
                             positions, max_length));
    return positions;
}

}  // namespace elmo
