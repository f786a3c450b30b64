#include <fmt/format.h>

#include <cmath>

#include "elmo/error.h"
#include "elmo/metrics.h"

namespace elmo {

std::vector<double> inverse_propensities(std::span<const std::int64_t> label_counts, std::int64_t num_rows,
                                         double a, double b) {
    if (num_rows < 1) throw ConfigError("propensities: expected at least one training row, found none");
    if (!std::isfinite(a) || !std::isfinite(b) || b <= 0)
        throw ConfigError(
            fmt::format("propensities: expected a finite A and B > 0, found A = {}, B = {}", a, b));
    const double c = (std::log(static_cast<double>(num_rows)) - 1) * std::pow(b + 1, a);
    std::vector<double> result;
    result.reserve(label_counts.size());
    for (const std::int64_t count : label_counts)
        result.push_back(1 + c * std::pow(static_cast<double>(count) + b, -a));
    return result;
}

}  // namespace elmo
