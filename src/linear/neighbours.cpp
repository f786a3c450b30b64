#include "linear/neighbours.h"

#include <algorithm>
#include <cmath>

namespace elmo {
namespace {

constexpr std::size_t kNearest = 100;        // texts that vote
constexpr std::int64_t kFrequentPart = 8;    // columns in more than this part of the texts are left out
constexpr std::int64_t kFewColumns = 10000;  // of a bag of words, say: then all count

bool nearer(const std::pair<float, std::int32_t>& a, const std::pair<float, std::int32_t>& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

std::int64_t Neighbours::bytes() const {
    return static_cast<std::int64_t>(8 * (row_begin.size() + label_begin.size()) + 4 * rows.size() +
                                     2 * values.size() + 4 * labels.size());
}

Neighbours index_rows(const SparseRows& rows, const LabelsOfRows& labels, std::int64_t num_columns,
                      const VoteOptions& votes, std::span<const std::uint8_t> left_out) {
    const auto is_in = [&](std::int64_t row) {
        return left_out.empty() || left_out[static_cast<std::size_t>(row)] == 0;
    };
    Neighbours out;
    out.votes = votes;
    out.label_begin = {0};
    std::vector<std::int64_t> counts(static_cast<std::size_t>(num_columns));
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
        if (!is_in(row)) continue;
        for (const std::int32_t column : rows.columns_of(row)) ++counts[static_cast<std::size_t>(column)];
        for (const std::uint32_t label : labels.of(row))
            out.labels.push_back(static_cast<std::int32_t>(label));
        out.label_begin.push_back(static_cast<std::int64_t>(out.labels.size()));
    }
    const std::int64_t most = num_columns <= kFewColumns ? out.texts() : out.texts() / kFrequentPart;
    out.row_begin.assign(static_cast<std::size_t>(num_columns) + 1, 0);
    for (std::size_t c = 0; c < counts.size(); ++c)
        out.row_begin[c + 1] = out.row_begin[c] + (counts[c] <= most ? counts[c] : 0);
    out.rows.resize(static_cast<std::size_t>(out.row_begin.back()));
    out.values.resize(out.rows.size());
    std::vector<std::int64_t> next(out.row_begin.begin(), out.row_begin.end() - 1);
    std::int32_t text = 0;
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
        if (!is_in(row)) continue;
        const auto columns = rows.columns_of(row);
        const auto values = rows.values_of(row);
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const auto c = static_cast<std::size_t>(columns[i]);
            if (counts[c] > most) continue;
            const auto at = static_cast<std::size_t>(next[c]++);
            out.rows[at] = text;
            out.values[at] = to_bf16(values[i]);
        }
        ++text;
    }
    return out;
}

void find_nearest(const Neighbours& index, std::span<const std::int32_t> columns,
                  std::span<const float> values, std::vector<float>& likeness, Nearest& nearest) {
    likeness.assign(static_cast<std::size_t>(index.texts()), 0);
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const auto c = static_cast<std::size_t>(columns[i]);
        for (auto at = static_cast<std::size_t>(index.row_begin[c]);
             at < static_cast<std::size_t>(index.row_begin[c + 1]); ++at)
            likeness[static_cast<std::size_t>(index.rows[at])] += values[i] * to_float(index.values[at]);
    }
    nearest.clear();
    float least = 0;  // what a text must surpass
    for (std::size_t text = 0; text < likeness.size(); ++text) {
        if (!(likeness[text] > least)) continue;
        nearest.push_back({likeness[text], static_cast<std::int32_t>(text)});
        if (nearest.size() < 4 * kNearest) continue;
        std::nth_element(nearest.begin(), nearest.begin() + kNearest, nearest.end(), nearer);
        nearest.resize(kNearest);
        least = std::min_element(nearest.begin(), nearest.end())->first;
    }
    std::sort(nearest.begin(), nearest.end(), nearer);
    if (nearest.size() > kNearest) nearest.resize(kNearest);
}

void count_votes(const Neighbours& index, const Nearest& nearest, float power,
                 std::vector<std::pair<std::int32_t, float>>& votes) {
    votes.clear();
    if (nearest.empty()) return;
    double sum = 0;
    std::vector<float> weights;
    for (const auto& [likeness, text] : nearest)  // of the nearest 1: no power leaves the range of a float
        sum += weights.emplace_back(std::pow(likeness / nearest.front().first, power));
    for (std::size_t i = 0; i < nearest.size(); ++i) {
        for (const std::int32_t label : index.labels_of(nearest[i].second))
            votes.push_back({label, weights[i] / static_cast<float>(sum)});
    }
    // Equal labels in the order of their texts: sums have one order.
    std::stable_sort(votes.begin(), votes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < votes.size(); ++i) {
        if (kept > 0 && votes[kept - 1].first == votes[i].first)
            votes[kept - 1].second += votes[i].second;
        else
            votes[kept++] = votes[i];
    }
    votes.resize(kept);
}

void mix_votes(std::span<const std::pair<std::int32_t, float>> votes, float share,
               std::vector<std::pair<std::int32_t, float>>& probabilities) {
    std::vector<std::pair<std::int32_t, float>> mixed;
    mixed.reserve(votes.size() + probabilities.size());
    std::size_t v = 0;
    for (const auto& [label, probability] : probabilities) {
        for (; v < votes.size() && votes[v].first < label; ++v)
            mixed.push_back({votes[v].first, share * votes[v].second});
        const bool both = v < votes.size() && votes[v].first == label;
        mixed.push_back({label, (1 - share) * probability + (both ? share * votes[v++].second : 0)});
    }
    for (; v < votes.size(); ++v) mixed.push_back({votes[v].first, share * votes[v].second});
    probabilities = std::move(mixed);
}

}  // namespace elmo
