#include "engine/shapes.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/messages.h"

namespace elmo {
const std::vector<NamedShape>& named_shapes() {
    static const std::vector<NamedShape> shapes = {{"lf-amazontitles-131k", 131'073, 512, 32, 6},
                                                   {"amazontitles-670k", 670'091, 256, 32, 12},
                                                   {"lf-amazontitles-1.3m", 1'305'265, 512, 32, 6},
                                                   {"amazon-3m", 2'812'281, 128, 128, 12},
                                                   {"lf-paper2keywords-8.6m", 8'623'847, 128, 128, 6}};
    return shapes;
}

const NamedShape& named_shape(const std::string& name) {
    std::vector<std::string> names;
    for (const NamedShape& shape : named_shapes()) {
        if (shape.name == name) return shape;
        names.push_back(shape.name);
    }
    throw ConfigError(fmt::format("shape: expected {}, found '{}'{}", fmt::join(names, ", "), quoted(name),
                                  did_you_mean(name, names)));
}

EncoderSpec shape_encoder(const NamedShape& shape, const EncoderOptions& options) {
    EncoderSpec spec;
    spec.family = shape.layers == 6 ? "distilbert" : "bert";
    spec.vocab = 30'522;
    spec.width = 768;
    spec.layers = shape.layers;
    spec.heads = 12;
    spec.intermediate = 3072;
    spec.positions = 512;
    spec.types = spec.family == "bert" ? 2 : 0;
    spec.hidden_dropout = spec.attention_dropout =
        static_cast<float>(options.inner_dropout < 0 ? 0.1 : options.inner_dropout);
    spec.pooled_dropout = static_cast<float>(options.dropout);
    spec.dtype = options.precision == EncoderPrecision::kFp32 ? DType::kF32 : DType::kBf16;
    spec.fp8 = options.precision == EncoderPrecision::kFp8;
    spec.frozen = options.frozen;
    spec.accumulate = options.accumulate;
    spec.consume_gradients = options.accumulate == 1;
    return spec;
}

}  // namespace elmo
