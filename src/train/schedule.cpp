#include "train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {

Decay parse_decay(const std::string& name) {
    if (name == "cosine") return Decay::kCosine;
    if (name == "linear") return Decay::kLinear;
    if (name == "constant") return Decay::kConstant;
    throw ConfigError(fmt::format("schedule: expected cosine, linear or constant, found '{}'", quoted(name)));
}

double Schedule::factor(std::int64_t step) const {
    if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);
    if (decay == Decay::kConstant || total <= warmup) return 1.0;
    // The first step after the warm-up (or of a run without one) still has the full rate.
    const double gone = static_cast<double>(std::max<std::int64_t>(step - warmup - 1, 0)) /
                        static_cast<double>(total - warmup);
    if (decay == Decay::kLinear) return 1.0 - gone;
    return 0.5 * (1.0 + std::cos(std::numbers::pi * gone));
}

double score_noise(double percent, std::int64_t texts) {
    const double share = std::clamp(percent / 100, 0.0, 1.0);
    return texts == 0 ? 0 : 100 * std::sqrt(share * (1 - share) / static_cast<double>(texts));
}

Schedule make_schedule(const Config& config, std::int64_t total) {
    const std::int64_t automatic = std::min<std::int64_t>(500, total / 20);
    const std::int64_t warmup = config.warmup_steps < 0 ? automatic : std::min(config.warmup_steps, total);
    return {warmup, total, parse_decay(config.schedule)};
}

}  // namespace elmo
