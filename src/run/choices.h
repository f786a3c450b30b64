// What every number that is `auto` becomes, by the encoder that a run starts from and the data that it trains
// on. docs/defaults.md has the figures that these rules come from.
#pragma once

#include <cstdint>

#include "data/augment.h"
#include "elmo/config.h"

namespace elmo {

inline constexpr std::string_view kAutoReason = "auto: ";  // opens the reason of a choice

// What an encoder starts from.
enum class EncoderStart { kBag, kScratch, kPretrained };
EncoderStart encoder_start(const Config& config);

// What is known of the training rows once they are imported.
struct DataFacts {
    std::int64_t rows = 0, labels = 0;
    std::int64_t ranks = 1;  // that the run starts on
    LabelTexts label_texts;
};

// By the encoder and the device only: what must be known before anything is read.
Config with_encoder_numbers(Config config);
// By the encoder and the data: every other number, and whether label texts are trained on. One that is not
// `auto` stays.
Config with_data_numbers(Config config, EncoderStart start, const DataFacts& facts);

// Epochs between validations of a training on so many rows, whose length and patience are known.
double usual_eval_every(const Config& config, std::int64_t rows);

// Whether positives of some labels count more than those of others (--objective, --label-weights).
inline bool weighs_positives(const Config& config) {
    return config.objective != "plain" || !config.label_weights.empty();
}

}  // namespace elmo
