// config.json of a model: reading the BERT family's and the bag's, and the text to save.
#pragma once

#include <filesystem>
#include <string>

#include "model/encoder/encoder_spec.h"

namespace elmo {

// Everything in the text about the shape (DataError names `file`, key, expected and found). `spec.hf_config`
// keeps the text.
EncoderSpec parse_model_config(const std::string& text, const std::filesystem::path& file);

// What to save for `spec`: its hf_config with the dtype and pooling of this encoder, or the bag's own.
std::string model_config_text(const EncoderSpec& spec);

}  // namespace elmo
