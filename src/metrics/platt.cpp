#include "metrics/platt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "elmo/error.h"

namespace elmo {
namespace {

constexpr int kBins = 15;

// ln(1 + e^x) without overflow.
double softplus(double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

struct Targets {
    double right, wrong;
};

// Minus the log-likelihood: for target t and u = a z + b, t softplus(-u) + (1 - t) softplus(u).
double loss_of(const Platt& platt, std::span<const JudgedScore> judged, const Targets& targets) {
    double loss = 0;
    for (const JudgedScore& j : judged) {
        const double u = platt.a * j.score + platt.b, t = j.right ? targets.right : targets.wrong;
        loss += t * softplus(-u) + (1 - t) * softplus(u);
    }
    return loss;
}

std::vector<JudgedScore> by_falling_score(std::span<const JudgedScore> judged) {
    std::vector<JudgedScore> sorted(judged.begin(), judged.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const JudgedScore& x, const JudgedScore& y) { return x.score > y.score; });
    return sorted;
}

}  // namespace

double Platt::probability(double score) const {
    const double u = a * score + b;
    return u >= 0 ? 1 / (1 + std::exp(-u)) : std::exp(u) / (1 + std::exp(u));
}

Platt fit_platt(std::span<const JudgedScore> judged, std::string_view advice) {
    std::int64_t right = 0, wrong = 0;
    for (const JudgedScore& j : judged) {
        if (!std::isfinite(j.score))
            throw DataError(fmt::format("calibration: expected finite scores, found {}", j.score));
        ++(j.right ? right : wrong);
    }
    if (right == 0 || wrong == 0)
        throw DataError(fmt::format(
            "calibration: expected right and wrong predictions, found {} and {}; more validation rows help",
            right, wrong));
    const Targets targets{(static_cast<double>(right) + 1) / (static_cast<double>(right) + 2),
                          1 / (static_cast<double>(wrong) + 2)};
    // Starts flat at the base rate: convex, so the start does not matter to where it ends.
    Platt platt{0, std::log((static_cast<double>(right) + 1) / (static_cast<double>(wrong) + 1))};
    double loss = loss_of(platt, judged, targets);
    for (int iteration = 0; iteration < 200; ++iteration) {
        double ga = 0, gb = 0, haa = 1e-12, hab = 0, hbb = 1e-12;
        for (const JudgedScore& j : judged) {
            const double p = platt.probability(j.score), d = p - (j.right ? targets.right : targets.wrong);
            const double h = p * (1 - p), z = j.score;
            ga += d * z;
            gb += d;
            haa += h * z * z;
            hab += h * z;
            hbb += h;
        }
        const double determinant = haa * hbb - hab * hab;
        if (!(determinant > 0)) break;
        const double da = -(hbb * ga - hab * gb) / determinant, db = -(haa * gb - hab * ga) / determinant;
        const double slope = ga * da + gb * db;
        // The loss is a sum of many terms: an expected gain below its rounding error does not count.
        if (!(-slope > 1e-13 * (1 + loss))) break;
        double step = 1;
        Platt next = platt;
        double next_loss = loss;
        for (; step > 1e-10; step /= 2) {
            next = {platt.a + step * da, platt.b + step * db};
            next_loss = loss_of(next, judged, targets);
            if (next_loss < loss + 1e-4 * step * slope) break;
        }
        if (!(next_loss < loss)) break;
        platt = next;
        loss = next_loss;
    }
    if (!(platt.a > 0))
        throw DataError(fmt::format(
            "calibration: right predictions do not score higher than wrong ones, so there is nothing to "
            "calibrate; {}",
            advice));
    return platt;
}

CalibrationQuality calibration_quality(const Platt& platt, std::span<const JudgedScore> judged) {
    CalibrationQuality quality;
    if (judged.empty()) return quality;
    const auto count = static_cast<double>(judged.size());
    for (const JudgedScore& j : judged) {
        const double u = platt.a * j.score + platt.b, p = platt.probability(j.score), y = j.right ? 1 : 0;
        quality.log_loss += (j.right ? softplus(-u) : softplus(u)) / count;
        quality.brier += (p - y) * (p - y) / count;
    }
    const auto sorted = by_falling_score(judged);
    const std::size_t n = sorted.size();
    for (std::size_t bin = 0; bin < kBins; ++bin) {
        double gap = 0;
        for (std::size_t i = n * bin / kBins; i < n * (bin + 1) / kBins; ++i)
            gap += platt.probability(sorted[i].score) - (sorted[i].right ? 1 : 0);
        quality.error += std::abs(gap) / count;
    }
    return quality;
}

double best_f1_score(std::span<const JudgedScore> judged, std::int64_t positives) {
    const auto sorted = by_falling_score(judged);
    double best = -1, best_score = 0;
    std::int64_t hits = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        hits += sorted[i].right ? 1 : 0;
        // Equal scores are kept or left together.
        if (i + 1 < sorted.size() && sorted[i + 1].score == sorted[i].score) continue;
        const double f1 =
            2 * static_cast<double>(hits) / static_cast<double>(static_cast<std::int64_t>(i) + 1 + positives);
        if (f1 <= best) continue;
        best = f1;
        best_score = i + 1 < sorted.size() ? (static_cast<double>(sorted[i].score) + sorted[i + 1].score) / 2
                                           : static_cast<double>(sorted[i].score) - 1;
    }
    return best_score;
}

}  // namespace elmo
