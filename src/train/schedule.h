// Learning rates over a run: a linear warm-up, then a decay. Steps count from 1, and no step has a rate of 0.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/config.h"

namespace elmo {

enum class Decay { kCosine, kLinear, kConstant };
Decay parse_decay(const std::string& name);  // ConfigError for anything else

// The factor on a learning rate at each step of [1, total].
struct Schedule {
    std::int64_t warmup = 0;  // step `warmup` is the first with factor 1
    std::int64_t total = 1;
    Decay decay = Decay::kCosine;

    // step / warmup while warming up; then from 1 towards 0, which step total + 1 would reach.
    double factor(std::int64_t step) const;
};

// The standard error of a validation score (percent, over so many texts): the largest that a mean of numbers
// from 0 to 1 can have.
double score_noise(double percent, std::int64_t texts);

// The schedule of a configuration for a run of `total` steps.
Schedule make_schedule(const Config& config, std::int64_t total);

}  // namespace elmo
