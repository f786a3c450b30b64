// Any bytes as the config.json of an encoder: a shape within its limits that is saved and read back as the
// same, or an elmo::Error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "elmo/error.h"
#include "model/encoder/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        const elmo::EncoderSpec spec = elmo::parse_model_config(text, "fuzz");
        if (spec.width < 1 || spec.vocab < 1 || spec.width > 1 << 16) std::abort();
        if (!spec.is_bag() && (spec.layers < 1 || spec.heads < 1 || spec.width % spec.heads != 0))
            std::abort();
        if (!spec.is_bag() && spec.longest_text() < 1) std::abort();
        const elmo::EncoderSpec saved = elmo::parse_model_config(elmo::model_config_text(spec), "saved");
        if (saved.family != spec.family || saved.width != spec.width || saved.layers != spec.layers ||
            saved.heads != spec.heads || saved.vocab != spec.vocab || saved.positions != spec.positions ||
            saved.window != spec.window || saved.pooling != spec.pooling || saved.dtype != spec.dtype)
            std::abort();
    } catch (const elmo::Error&) {
    }
    return 0;
}
