// The five training shapes that `elmo bench` and `elmo plan` know by name: data sets of the field with a
// BERT-base (12 layers) or DistilBERT (6 layers) encoder of width 768.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/views.h"
#include "model/encoder/encoder_spec.h"

namespace elmo {

struct NamedShape {
    const char* name;
    std::int64_t labels, batch, length, layers;
};
const std::vector<NamedShape>& named_shapes();

// ConfigError for an unknown name.
const NamedShape& named_shape(const std::string& name);
EncoderSpec shape_encoder(const NamedShape& shape, const EncoderOptions& options);

}  // namespace elmo
