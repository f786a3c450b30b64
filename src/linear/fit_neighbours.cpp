#include "linear/fit_neighbours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "linear/ranker.h"
#include "sources/equal_rows.h"

namespace elmo {
namespace {

constexpr std::int64_t kHeldOut = 2000, kHeldPart = 5;  // rows at most, and at most one of so many
constexpr std::int64_t kLeastTexts = 1000;              // with fewer nothing can be said
constexpr std::int64_t kRanked = 50;                    // labels of the classifiers
constexpr std::array kPowers = {1.0f, 3.0f, 6.0f};
constexpr std::array kShares = {0.1f, 0.2f, 0.3f, 0.5f};
constexpr std::size_t kChoices = kPowers.size() * kShares.size();
constexpr double kErrors = 2;  // standard errors that a gain must surpass

using Scored = std::pair<std::int32_t, float>;

// The mean of P@1, P@3 and P@5.
double precision(std::vector<Scored>& scored, std::span<const std::uint32_t> truth) {
    const std::size_t count = std::min<std::size_t>(scored.size(), 5);
    std::partial_sort(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(count), scored.end(),
                      [](const Scored& a, const Scored& b) {
                          return a.second != b.second ? a.second > b.second : a.first < b.first;
                      });
    double sum = 0, hits = 0;
    for (std::size_t i = 0; i < count; ++i) {
        hits += std::binary_search(truth.begin(), truth.end(), static_cast<std::uint32_t>(scored[i].first));
        if (i == 0 || i == 2 || i == 4) sum += hits / static_cast<double>(i + 1);
    }
    return sum / 3;
}

// What each choice gains on one text.
using Gains = std::array<double, kChoices>;

Gains gains_of(const Neighbours& index, const Nearest& nearest, std::vector<Scored> plain,
               std::span<const std::uint32_t> truth) {
    Gains gains{};
    std::sort(plain.begin(), plain.end());
    std::vector<Scored> votes, mixed = plain;
    const double before = precision(mixed, truth);
    for (std::size_t p = 0; p < kPowers.size(); ++p) {
        count_votes(index, nearest, kPowers[p], votes);
        for (std::size_t s = 0; s < kShares.size(); ++s) {
            mixed = plain;
            mix_votes(votes, kShares[s], mixed);
            gains[p * kShares.size() + s] = precision(mixed, truth) - before;
        }
    }
    return gains;
}

// What a choice gains on some texts, in standard errors of that; and in itself.
struct Gain {
    double mean = 0, errors = 0;
};

Gain gain_of(std::span<const Gains> gains, std::size_t choice) {
    const auto count = static_cast<double>(gains.size());
    double sum = 0, squares = 0;
    for (const Gains& of_text : gains) {
        sum += of_text[choice];
        squares += of_text[choice] * of_text[choice];
    }
    const double mean = sum / count, variance = std::max(squares / count - mean * mean, 0.0);
    return {mean, mean > 0 ? mean / std::sqrt(std::max(variance / count, 1e-20)) : 0};
}

// The choice that gains most where it gains least: on the texts before `middle`, or on those from there on.
VoteOptions choose(std::span<const Gains> gains, std::size_t middle) {
    VoteOptions best;
    double most = 0;
    for (std::size_t c = 0; c < kChoices; ++c) {
        const Gain first = gain_of(gains.first(middle), c), second = gain_of(gains.subspan(middle), c);
        const double least = std::min(first.mean, second.mean);
        if (std::min(first.errors, second.errors) < kErrors || least <= most) continue;
        most = least;
        best = {kShares[c % kShares.size()], kPowers[c / kShares.size()]};
    }
    return best;
}

struct HeldOut {
    std::vector<std::int64_t> rows;   // none: nothing can be said
    std::size_t middle = 0;           // of them are from everywhere, the rest from the end
    std::vector<std::uint8_t> marks;  // of every row: 1 if it is held out
};

// Whole texts: a row in the index whose text is equal would answer for a held-out one.
HeldOut hold_out(const TokensOf& tokens, std::int64_t rows, bool equal_texts_together) {
    std::vector<std::int64_t> text_of(static_cast<std::size_t>(rows));  // numbers in order of first rows
    std::int64_t texts = rows;
    std::iota(text_of.begin(), text_of.end(), 0);
    if (equal_texts_together) {
        const std::vector<std::int64_t> first = first_of_equal(rows, tokens);
        texts = 0;
        for (std::size_t row = 0; row < first.size(); ++row)
            text_of[row] = first[row] == static_cast<std::int64_t>(row)
                               ? texts++
                               : text_of[static_cast<std::size_t>(first[row])];
    }
    if (texts < kLeastTexts) return {};
    const std::int64_t half = std::min(kHeldOut * texts / rows, texts / kHeldPart) / 2, before = texts - half;
    enum Part : std::uint8_t { kNone, kEverywhere, kEnd };
    std::vector<Part> parts(static_cast<std::size_t>(texts), kNone);
    for (std::int64_t i = 0; i < half; ++i) parts[static_cast<std::size_t>(i * before / half)] = kEverywhere;
    std::fill(parts.begin() + static_cast<std::ptrdiff_t>(before), parts.end(), kEnd);
    HeldOut held;
    held.marks.resize(static_cast<std::size_t>(rows));
    for (const Part part : {kEverywhere, kEnd}) {
        held.middle = held.rows.size();
        for (std::int64_t row = 0; row < rows; ++row) {
            if (parts[static_cast<std::size_t>(text_of[static_cast<std::size_t>(row)])] != part) continue;
            held.rows.push_back(row);
            held.marks[static_cast<std::size_t>(row)] = 1;
        }
    }
    if (2 * std::ssize(held.rows) > rows) return {};  // a text that most rows have is among them
    return held;
}

// The weights of the vocabulary, 0 for features that only held-out texts have: a new text's unknown features
// do not count in its length either. With them the trees know less of a held-out text than of a new one, and
// neighbours seem to help.
std::vector<float> weights_without(std::span<const std::uint8_t> held_out, const SparseRows& rows,
                                   std::span<const float> weights) {
    std::vector<float> kept(weights.size());
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
        if (held_out[static_cast<std::size_t>(row)] != 0) continue;
        for (const std::int32_t column : rows.columns_of(row))
            kept[static_cast<std::size_t>(column)] = weights[static_cast<std::size_t>(column)];
    }
    return kept;
}

}  // namespace

VoteOptions fit_neighbours(const Context& context, const Tokenizer& tokenizer, const TokensOf& tokens,
                           const SparseRows& rows, const LabelsOfRows& labels, const LinearTraining& training,
                           LinearModel& model) {
    const HeldOut held_out = hold_out(tokens, rows.rows(), training.equal_texts_together);
    const std::vector<std::int64_t>& held = held_out.rows;
    if (held.empty()) return {};
    LinearModel part;
    part.features = model.features;
    part.num_labels = model.num_labels;
    LinearTraining one_tree = training;
    one_tree.trees = 1;
    if (!train_trees(context, rows, rows_of_labels(labels, model.num_labels, held_out.marks),
                     model.vocabulary.weights(), one_tree, "fitting neighbours", part.trees))
        return {};
    const Neighbours index = index_rows(rows, labels, model.vocabulary.size(), {}, held_out.marks);
    std::vector<float> weights = weights_without(held_out.marks, rows, model.vocabulary.weights());
    part.vocabulary = std::move(model.vocabulary);
    part.vocabulary.swap_weights(weights);
    LinearRanker ranker(std::move(part), tokenizer);
    const auto count = static_cast<std::int64_t>(held.size());
    const auto ranked = ranker.rank(
        context, [&](std::int64_t i) { return tokens(held[static_cast<std::size_t>(i)]); }, count, kRanked);
    model.vocabulary = ranker.take_model().vocabulary;
    model.vocabulary.swap_weights(weights);
    std::vector<Gains> gains(held.size());
    std::vector<std::vector<float>> likeness(static_cast<std::size_t>(context.num_threads()));
    context.threads().parallel_for(count, [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        Nearest nearest;
        find_nearest(index, rows.columns_of(held[at]), rows.values_of(held[at]),
                     likeness[static_cast<std::size_t>(thread_index())], nearest);
        std::vector<Scored> plain;
        for (const ScoredLabel& label : ranked[at])
            plain.push_back({static_cast<std::int32_t>(label.label), 1 / (1 + std::exp(-label.score))});
        gains[at] = gains_of(index, nearest, std::move(plain), labels.of(held[at]));
    });
    return choose(gains, held_out.middle);
}

}  // namespace elmo
