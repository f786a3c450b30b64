#include "metrics/bootstrap.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "numerics/philox.h"

namespace elmo {
namespace {

// kSteps[n] of 65536 words give n or less: the distribution function of Poisson(1), rounded to the nearest.
constexpr int kMost = 8;
const std::array<std::uint32_t, kMost> kSteps = [] {
    std::array<std::uint32_t, kMost> steps{};
    double term = std::exp(-1.0), sum = 0;
    for (int n = 0; n < kMost; ++n) {
        sum += term;
        term /= n + 1;
        steps[static_cast<std::size_t>(n)] = static_cast<std::uint32_t>(std::lround(65536 * sum));
    }
    return steps;
}();

int weight_of(std::uint32_t word) {
    int weight = 0;
    while (weight < kMost && word >= kSteps[static_cast<std::size_t>(weight)]) ++weight;
    return weight;
}

constexpr NoiseKey kKey{0, 0, kStreamBootstrap};

double quantile(const std::vector<double>& sorted, double share) {
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

int bootstrap_weight(std::int64_t row, std::int64_t replicate) {
    return weight_of(noise16(kKey, row, replicate));
}

Bootstrap::Bootstrap(std::int64_t replicates, std::vector<std::int64_t> ks, bool with_propensities)
    : ks_(std::move(ks)),
      with_propensities_(with_propensities),
      rows_(static_cast<std::size_t>(replicates)),
      sums_(static_cast<std::size_t>(replicates) * ks_.size()) {}

void Bootstrap::add(std::span<const MetricSums> row) {
    const std::int64_t count = replicates();
    for (std::int64_t first = 0; first < count; first += kNoiseColumns) {
        const PhiloxBlock block = noise_block(kKey, next_row_, first / kNoiseColumns);
        for (std::int64_t r = first; r < std::min(count, first + kNoiseColumns); ++r) {
            const int weight = weight_of(noise_word(block, static_cast<int>(r - first)));
            rows_[static_cast<std::size_t>(r)] += weight;
            MetricSums* const sums = sums_.data() + static_cast<std::size_t>(r) * ks_.size();
            for (int i = 0; i < weight; ++i)
                for (std::size_t j = 0; j < ks_.size(); ++j) sums[j] += row[j];
        }
    }
    ++next_row_;
}

std::vector<std::vector<double>> Bootstrap::replicate_scores() const {
    std::vector<std::vector<double>> values;  // of each score
    const bool any = std::ranges::any_of(rows_, [](double rows) { return rows > 0; });
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        if (any && rows_[r] == 0) continue;  // of few rows: a replicate without one has no scores
        const auto scores = scores_of(ks_, std::span(sums_).subspan(r * ks_.size(), ks_.size()), rows_[r],
                                      with_propensities_);
        values.resize(scores.size());
        for (std::size_t i = 0; i < scores.size(); ++i) values[i].push_back(scores[i].value);
    }
    return values;
}

std::vector<Interval> Bootstrap::intervals(double confidence) const {
    std::vector<Interval> result;
    for (auto& of_score : replicate_scores())
        result.push_back(central_interval(std::move(of_score), confidence));
    return result;
}

Interval central_interval(std::vector<double> values, double confidence) {
    std::sort(values.begin(), values.end());
    return {quantile(values, (1 - confidence) / 2), quantile(values, (1 + confidence) / 2)};
}

}  // namespace elmo
