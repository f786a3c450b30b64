#include "engine/shapes.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/messages.h"

namespace elmo {
const std::vector<NamedShape>& named_shapes() {
    static const std::vector<NamedShape> shapes = {
        {"lf-amazontitles-131k", 131'073, 512, 32, "distilbert"},
        {"lf-wikiseealso-320k", 312'330, 128, 256, "distilroberta"},
        {"wiki-500k", 501'070, 128, 128, "bert"},
        {"amazon-670k", 670'091, 64, 128, "bert"},
        {"amazontitles-670k", 670'091, 256, 32, "bert"},
        {"lf-amazontitles-1.3m", 1'305'265, 512, 32, "distilbert"},
        {"amazon-3m", 2'812'281, 128, 128, "bert"},
        {"lf-paper2keywords-8.6m", 8'623'847, 128, 128, "distilbert"}};
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
    const std::string encoder = shape.encoder;
    const bool roberta = encoder == "distilroberta";
    spec.family = roberta ? "roberta" : encoder;
    spec.vocab = roberta ? 50'265 : 30'522;
    spec.width = 768;
    spec.layers = encoder == "bert" ? 12 : 6;
    spec.heads = 12;
    spec.intermediate = 3072;
    spec.positions = roberta ? 514 : 512;
    spec.position_base = roberta ? 2 : 0;
    spec.types = encoder == "bert" ? 2 : roberta ? 1 : 0;
    spec.hidden_dropout = spec.attention_dropout =
        static_cast<float>(options.inner_dropout < 0 ? 0.1 : options.inner_dropout);
    spec.pooled_dropout = static_cast<float>(options.dropout);
    set_training(options, spec);
    return spec;
}

}  // namespace elmo
