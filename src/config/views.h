// What single layers need of a configuration, as plain typed structs. Their headers do not depend on the list
// of options, so a new option compiles only what uses it. Made from a Config only here.
#pragma once

#include <cstdint>
#include <string>

namespace elmo {

struct Config;

// In the order of the names in options.def.
enum class EncoderPrecision { kBf16, kFp8, kFp32 };
enum class PoolingChoice { kMean, kCls };
enum class HeadRounding { kStochastic, kNearest };
enum class HeadNoise { kAuto, kIndependent, kPaired, kShared, kSteps, kSharedSteps };

struct EncoderOptions {
    std::string encoder = "bag";  // or a folder
    std::int64_t width = 0;       // of a bag
    EncoderPrecision precision = EncoderPrecision::kBf16;
    PoolingChoice pooling = PoolingChoice::kMean;
    double dropout = 0;         // of the pooled text vector
    double inner_dropout = -1;  // -1: the encoder's own
    bool frozen = false;
    std::int64_t accumulate = 1;  // steps per update
};
EncoderOptions encoder_options(const Config& config);

struct HeadOptions {
    std::string precision = "bf16";  // a name, or exmy:...
    HeadRounding rounding = HeadRounding::kStochastic;
    HeadNoise noise = HeadNoise::kAuto;
};
HeadOptions head_options(const Config& config);

}  // namespace elmo
