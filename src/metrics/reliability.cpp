#include "metrics/reliability.h"

#include <algorithm>

namespace elmo {

void Reliability::add(double probability, bool right) {
    const auto bins = static_cast<double>(sums_.size());
    Sum& sum = sums_[static_cast<std::size_t>(std::clamp(probability * bins, 0.0, bins - 1))];
    sum.probability += probability;
    sum.right += right ? 1 : 0;
    ++sum.pairs;
}

std::vector<ReliabilityBin> Reliability::bins() const {
    std::vector<ReliabilityBin> result;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
        const Sum& sum = sums_[i];
        if (sum.pairs == 0) continue;
        const auto pairs = static_cast<double>(sum.pairs), count = static_cast<double>(sums_.size());
        result.push_back({static_cast<double>(i) / count, static_cast<double>(i + 1) / count,
                          sum.probability / pairs, static_cast<double>(sum.right) / pairs, sum.pairs});
    }
    return result;
}

}  // namespace elmo
