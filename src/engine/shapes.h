// The eight training shapes that `elmo bench` and `elmo plan` know by name: the data sets of the ELMO paper
// with its encoders, BERT-base (12 layers), DistilBERT or DistilRoBERTa (6 layers) of width 768.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/views.h"
#include "model/encoder/encoder_spec.h"

namespace elmo {

struct NamedShape {
    const char* name;
    std::int64_t labels, batch, length;
    const char* encoder;  // bert, distilbert or distilroberta
};
const std::vector<NamedShape>& named_shapes();

// ConfigError for an unknown name.
const NamedShape& named_shape(const std::string& name);
EncoderSpec shape_encoder(const NamedShape& shape, const EncoderOptions& options);

}  // namespace elmo
