#include "train/collapse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace elmo {
namespace {

// A working encoder has a mean cosine far below; a collapsed one gives the same vector for every text, up to
// the rounding of BF16.
constexpr double kSameCosine = 0.9995;
constexpr std::int64_t kFewestTexts = 8;

constexpr std::int64_t kFewestRows = 100;
constexpr double kSameShare = 0.99;  // of the rows have one best label
constexpr double kRightAnyway =
    90;  // percent: if one label is nearly always right, always answering it is not an error
constexpr double kNoBetter = 0.5;  // percent
// The best label of all texts may be a usual one, as of labels inside each other. It is an answer where its
// scores tell the texts that have it from the others: the share of pairs of both that they order right.
constexpr double kTells = 0.6;

constexpr double kFarAbove = 4;    // times the smallest median of losses
constexpr double kMostLost = 0.5;  // of the blind loss
constexpr std::size_t kLosses = 5;

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

}  // namespace

ProbeTexts choose_probe(std::span<const std::int32_t> tokens, std::span<const std::int32_t> offsets,
                        std::int64_t most) {
    ProbeTexts probe;
    probe.offsets.push_back(0);
    std::set<std::vector<std::int32_t>> seen;
    for (std::size_t i = 0; i + 1 < offsets.size() && probe.size() < most; ++i) {
        const auto text = tokens.subspan(static_cast<std::size_t>(offsets[i]),
                                         static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
        if (text.empty() || !seen.emplace(text.begin(), text.end()).second) continue;
        probe.tokens.insert(probe.tokens.end(), text.begin(), text.end());
        probe.offsets.push_back(static_cast<std::int32_t>(probe.tokens.size()));
    }
    return probe;
}

double mean_cosine(std::span<const float> x, std::int64_t rows) {
    // The sum over all pairs of unit vectors is (|sum of all|^2 - rows) / 2.
    const std::size_t width = x.size() / static_cast<std::size_t>(rows);
    std::vector<double> sum(width);
    double units = 0, zeros = 0;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        double square = 0;
        for (std::size_t i = 0; i < width; ++i)
            square += static_cast<double>(x[row * width + i]) * x[row * width + i];
        if (square == 0) {
            ++zeros;
            continue;
        }
        ++units;
        for (std::size_t i = 0; i < width; ++i) sum[i] += x[row * width + i] / std::sqrt(square);
    }
    double square = 0;
    for (const double s : sum) square += s * s;
    const double pairs = static_cast<double>(rows) * static_cast<double>(rows - 1);
    const double with_zeros = pairs - units * (units - 1);
    return (square - units + with_zeros) / pairs;
}

std::optional<std::string> judge_vectors(std::span<const float> x, std::int64_t rows) {
    if (rows < kFewestTexts) return std::nullopt;
    const double cosine = mean_cosine(x, rows);
    if (!(cosine > kSameCosine)) return std::nullopt;
    return fmt::format("the vectors of {} different texts are the same (mean cosine {:.5f})", rows, cosine);
}

double ordered_share(std::vector<std::pair<float, bool>> scores) {
    std::ranges::sort(scores);
    // Pairs of a text with the label and one without it below: those of equal scores count half.
    double pairs = 0, without = 0, with = 0;
    for (std::size_t begin = 0, end = 0; begin < scores.size(); begin = end) {
        double with_here = 0;
        for (end = begin; end < scores.size() && scores[end].first == scores[begin].first; ++end)
            with_here += scores[end].second;
        const double without_here = static_cast<double>(end - begin) - with_here;
        pairs += with_here * (without + 0.5 * without_here);
        with += with_here;
        without += without_here;
    }
    return with > 0 && without > 0 ? pairs / (with * without) : 0.5;
}

std::optional<std::string> TopLabels::judge(double precision_at_1) const {
    std::int64_t rows = 0;
    const Scores* most = nullptr;
    for (const auto& [label, scores] : scores_) {
        rows += std::ssize(scores);
        if (most == nullptr || scores.size() > most->size()) most = &scores;
    }
    if (rows < kFewestRows) return std::nullopt;
    const double of_most_frequent = 100 * static_cast<double>(frequent_right_) / static_cast<double>(rows),
                 same = static_cast<double>(most->size()) / static_cast<double>(rows);
    if (same < kSameShare || of_most_frequent > kRightAnyway ||
        precision_at_1 > of_most_frequent + kNoBetter || ordered_share(*most) > kTells)
        return std::nullopt;
    return fmt::format(
        "{:.1f} % of the validation texts have the same best label, and P@1 is {:.2f}, where always "
        "answering the most frequent label gives {:.2f}",
        100 * same, precision_at_1, of_most_frequent);
}

double blind_loss(std::span<const std::int64_t> counts, std::int64_t rows, std::span<const float> weights) {
    double loss = 0;
    for (std::size_t label = 0; label < counts.size(); ++label) {
        const double share =
            std::clamp(static_cast<double>(counts[label]) / static_cast<double>(rows), 0.0, 1.0);
        const double yes = share * (weights.empty() ? 1 : static_cast<double>(weights[label])),
                     no = 1 - share;
        if (yes > 0 && no > 0) loss += yes * std::log((yes + no) / yes) + no * std::log((yes + no) / no);
    }
    return loss;
}

std::optional<std::string> judge_loss(RunState& state, double loss, double blind) {
    std::vector<double>& last = state.recent_losses;
    last.push_back(loss);
    if (last.size() > kLosses) last.erase(last.begin(), last.end() - kLosses);
    if (last.size() < kLosses) return std::nullopt;
    const double now = median(last);
    state.smallest_loss = state.smallest_loss > 0 ? std::min(state.smallest_loss, now) : now;
    if (state.step < kFirstLook || now <= kFarAbove * state.smallest_loss || now <= kMostLost * blind)
        return std::nullopt;
    return fmt::format("the loss is {:.4g}, after it had been {:.4g}", now, state.smallest_loss);
}

}  // namespace elmo
