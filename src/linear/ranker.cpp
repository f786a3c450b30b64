#include "linear/ranker.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace elmo {
namespace {

// Texts that one thread takes at once: many share what a node's table costs, but every thread wants some.
// Answers do not depend on it: a text has its own.
constexpr std::int64_t kMostAtOnce = 2048, kLeastAtOnce = 128;
constexpr std::int64_t kBeam = 10;

// As std::clamp; NaN, which weights that overflow give, is the least: an order has no place for it.
template <class T>
T clamped(T value, T least, T most) {
    return value > least ? std::min(value, most) : least;
}

// The logarithm of a child's probability given its parent: the cube of the hinge, as PECOS has it, and a
// small part that tells scores beyond the margin apart.
float log_probability(float score) {
    const float z = clamped(score, -10.0f, 20.0f), missing = std::max(1 - z, 0.0f);
    return -missing * missing * missing - 0.02f * std::exp(-2 * z);
}

float logit(double probability) {
    const double p = clamped(probability, 1e-30, 1 - 1e-9);
    return static_cast<float>(std::log(p) - std::log1p(-p));
}

// A place of the beam, or a label with its share of the probability.
using Scored = std::pair<std::int32_t, float>;

bool better(const Scored& a, const Scored& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
}

void keep_best(std::vector<Scored>& scored, std::int64_t count) {
    if (static_cast<std::int64_t>(scored.size()) <= count) return;
    std::nth_element(scored.begin(), scored.begin() + count, scored.end(), better);
    scored.resize(static_cast<std::size_t>(count));
}

}  // namespace

struct LinearRanker::Scratch {
    std::vector<std::int32_t> place;  // of each column among the node's; -1 elsewhere. Empty until it is used
    std::vector<float> scores;
    std::vector<std::vector<Scored>> next;  // of each text
    std::vector<float> likeness;            // of each text of the index
    Nearest nearest;
    std::vector<Scored> votes;
};

LinearRanker::LinearRanker(LinearModel model, const Tokenizer& tokenizer)
    : model_(std::move(model)), analyser_(tokenizer, model_.features) {}

LabelGate LinearRanker::gate(std::span<const std::int64_t> labels) const {
    const LabelTrees& trees = model_.trees;
    LabelGate gate;
    gate.labels.assign(static_cast<std::size_t>(model_.num_labels), 0);
    for (const std::int64_t label : labels) gate.labels[static_cast<std::size_t>(label)] = 1;
    gate.nodes.assign(static_cast<std::size_t>(trees.nodes()), 0);
    for (std::size_t n = gate.nodes.size(); n-- > 0;)  // children come after their parents
        for (std::int64_t c = trees.child_begin[n]; c < trees.child_begin[n + 1]; ++c) {
            const auto child = static_cast<std::size_t>(trees.children[static_cast<std::size_t>(c)]);
            gate.nodes[n] |= (trees.leaf[n] != 0 ? gate.labels : gate.nodes)[child];
        }
    return gate;
}

// Scores the node's children for each of its texts, into scratch.next, of which the best `most` are wanted.
void LinearRanker::score_node(const SparseRows& rows, std::int32_t node, std::span<const Scored> of_node,
                              std::int64_t most, const LabelGate& gate, Scratch& scratch) const {
    const LabelTrees& trees = model_.trees;
    const auto n = static_cast<std::size_t>(node);
    const auto first = static_cast<std::size_t>(trees.column_begin[n]),
               end = static_cast<std::size_t>(trees.column_begin[n + 1]);
    const auto children = static_cast<std::size_t>(trees.child_begin[n]);
    const std::size_t count = static_cast<std::size_t>(trees.child_begin[n + 1]) - children;
    const std::span columns = std::span(trees.columns).subspan(first, end - first);
    // A table of the columns pays off where many texts are looked up in it.
    std::size_t lookups = 0;
    for (const Scored& text : of_node) lookups += rows.columns_of(text.first).size();
    const bool table = of_node.size() > 1 && 8 * lookups > columns.size();
    if (table && scratch.place.empty())
        scratch.place.assign(static_cast<std::size_t>(model_.vocabulary.size()), -1);
    if (table)
        for (std::size_t i = 0; i < columns.size(); ++i)
            scratch.place[static_cast<std::size_t>(columns[i])] = static_cast<std::int32_t>(i);
    for (const auto& [text, above] : of_node) {
        scratch.scores.assign(trees.bias.begin() + static_cast<std::ptrdiff_t>(children),
                              trees.bias.begin() + static_cast<std::ptrdiff_t>(children + count));
        const auto row = rows.columns_of(text);
        const auto values = rows.values_of(text);
        for (std::size_t i = 0; i < row.size(); ++i) {
            std::int64_t at = -1;
            if (table) {
                at = scratch.place[static_cast<std::size_t>(row[i])];
            } else {
                const auto found = std::lower_bound(columns.begin(), columns.end(), row[i]);
                if (found != columns.end() && *found == row[i]) at = found - columns.begin();
            }
            if (at < 0) continue;
            const auto j = first + static_cast<std::size_t>(at);
            for (auto e = static_cast<std::size_t>(trees.weight_begin[j]);
                 e < static_cast<std::size_t>(trees.weight_begin[j + 1]); ++e)
                scratch.scores[trees.weight_child[e]] += to_float(trees.weights[e]) * values[i];
        }
        auto& out = scratch.next[static_cast<std::size_t>(text)];
        for (std::size_t c = 0; c < count; ++c) {
            const std::int32_t child = trees.children[children + c];
            if (!gate.nodes.empty() &&
                (trees.leaf[n] != 0 ? gate.labels : gate.nodes)[static_cast<std::size_t>(child)] == 0)
                continue;
            out.push_back({child, above + log_probability(scratch.scores[c])});
        }
        if (std::ssize(out) > 4 * most)
            keep_best(out, most);  // of thousands of texts they would be megabytes
    }
    if (table)
        for (const std::int32_t column : columns) scratch.place[static_cast<std::size_t>(column)] = -1;
}

// `labels`: by label, ascending.
void LinearRanker::add_votes(const SparseRows& rows, std::int64_t text, std::vector<Scored>& labels,
                             const LabelGate& gate, Scratch& scratch) const {
    const Neighbours& index = model_.neighbours;
    find_nearest(index, rows.columns_of(text), rows.values_of(text), scratch.likeness, scratch.nearest);
    count_votes(index, scratch.nearest, index.votes.power, scratch.votes);
    if (!gate.labels.empty())
        std::erase_if(scratch.votes, [&](const Scored& vote) {
            return gate.labels[static_cast<std::size_t>(vote.first)] == 0;
        });
    mix_votes(scratch.votes, index.votes.share, labels);
}

void LinearRanker::rank_chunk(const SparseRows& rows, std::int64_t k, const LabelGate& gate,
                              std::span<std::vector<ScoredLabel>> out, Scratch& scratch) const {
    const LabelTrees& trees = model_.trees;
    scratch.next.resize(static_cast<std::size_t>(rows.rows()));
    // Labels that a beam reaches are many more than asked for.
    const std::int64_t wanted = std::max<std::int64_t>(50, 2 * k);
    const std::int64_t beam = gate.nodes.empty() ? std::max(kBeam, k / 4) : model_.num_labels;
    std::vector<std::vector<Scored>> found(out.size());
    for (const std::int32_t root : trees.roots) {
        std::vector<std::pair<std::int32_t, Scored>> beams;  // node, text and score
        for (std::int32_t text = 0; text < rows.rows(); ++text) beams.push_back({root, {text, 0.0f}});
        while (!beams.empty()) {
            std::sort(beams.begin(), beams.end());
            const bool leaves = trees.leaf[static_cast<std::size_t>(beams.front().first)] != 0;
            const std::int64_t most = leaves ? wanted : beam;
            std::vector<Scored> of_node;
            for (std::size_t i = 0; i < beams.size();) {
                const std::int32_t node = beams[i].first;
                of_node.clear();
                for (; i < beams.size() && beams[i].first == node; ++i) of_node.push_back(beams[i].second);
                score_node(rows, node, of_node, most, gate, scratch);
            }
            beams.clear();
            for (std::int32_t text = 0; text < rows.rows(); ++text) {
                auto& next = scratch.next[static_cast<std::size_t>(text)];
                keep_best(next, most);
                for (const auto& [child, score] : next) {
                    if (leaves)
                        found[static_cast<std::size_t>(text)].push_back({child, std::exp(score)});
                    else
                        beams.push_back({child, {text, score}});
                }
                next.clear();
            }
        }
    }
    for (std::size_t text = 0; text < found.size(); ++text) {
        auto& labels = found[text];
        std::sort(labels.begin(), labels.end());
        std::size_t kept = 0;
        for (std::size_t i = 0; i < labels.size();) {
            double sum = 0;
            const std::int32_t label = labels[i].first;
            for (; i < labels.size() && labels[i].first == label; ++i) sum += labels[i].second;
            labels[kept++] = {label, static_cast<float>(sum / static_cast<double>(trees.roots.size()))};
        }
        labels.resize(kept);
        if (model_.neighbours.texts() > 0)
            add_votes(rows, static_cast<std::int64_t>(text), labels, gate, scratch);
        std::vector<ScoredLabel>& ranked = out[text];
        ranked.clear();
        for (const auto& [label, probability] : labels) ranked.push_back({logit(probability), label});
        std::sort(ranked.begin(), ranked.end(), ranks_before);
        if (static_cast<std::int64_t>(ranked.size()) > k) ranked.resize(static_cast<std::size_t>(k));
    }
}

std::vector<std::vector<ScoredLabel>> LinearRanker::rank(const Context& context, const TokensOf& tokens,
                                                         std::int64_t texts, std::int64_t k,
                                                         const LabelGate& gate) const {
    std::vector<std::vector<ScoredLabel>> result(static_cast<std::size_t>(texts));
    std::vector<Scratch> scratch(static_cast<std::size_t>(context.num_threads()));
    const std::int64_t threads = context.num_threads(),
                       at_once = std::clamp((texts + threads - 1) / threads, kLeastAtOnce, kMostAtOnce);
    context.threads().parallel_ranges(texts, at_once, [&](std::int64_t begin, std::int64_t end) {
        SparseRows rows;
        std::vector<std::uint64_t> features;
        for (std::int64_t i = begin; i < end; ++i) {
            analyser_.analyse(tokens(i), features);
            model_.vocabulary.append_row(features, rows);
        }
        rank_chunk(
            rows, k, gate,
            std::span(result).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
            scratch[static_cast<std::size_t>(thread_index())]);
    });
    return result;
}

Nearest LinearRanker::nearest_texts(std::span<const std::int32_t> tokens) const {
    Nearest nearest;
    if (model_.neighbours.texts() == 0) return nearest;
    SparseRows rows;
    std::vector<std::uint64_t> features;
    std::vector<float> likeness;
    analyser_.analyse(tokens, features);
    model_.vocabulary.append_row(features, rows);
    find_nearest(model_.neighbours, rows.columns_of(0), rows.values_of(0), likeness, nearest);
    for (auto& [cosine, text] : nearest) cosine = std::min(cosine, 1.0F);  // stored weights are rounded
    return nearest;
}

}  // namespace elmo
