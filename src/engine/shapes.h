// The five training shapes that `elmo bench` and `elmo plan` know by name: data sets of the field with a
// BERT-base (12 layers) or DistilBERT (6 layers) encoder of width 768.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/config.h"
#include "model/encoder/encoder_spec.h"

namespace elmo {

struct NamedShape {
    const char* name;
    std::int64_t labels, batch, length, layers;
};
const std::vector<NamedShape>& named_shapes();

// config with labels, batch_size and max_length of config.shape; given values stay.
// ConfigError for an unknown name.
Config with_shape(Config config);
// The encoder of config.shape, which is set.
EncoderSpec shape_encoder(const Config& config);

}  // namespace elmo
