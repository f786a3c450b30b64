#include "linear/train_trees.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/progress.h"
#include "linear/label_tree.h"
#include "linear/node_rows.h"
#include "linear/svm.h"

namespace elmo {
namespace {

constexpr float kSmallWeight = 0.1f;  // weights below, times the cost, are left out
constexpr float kBagCost = 0.2f;      // bibtex: P@1 65.0 with 0.3, 63.9 with 1
constexpr std::int64_t kBagLeaf = 1000;
constexpr float kCertain = 10;             // bias of a child that all rows of its node have, or none
constexpr std::int64_t kFewTexts = 15000;  // up to which a third tree costs seconds only
constexpr double kShortTexts = 40;         // tokens per text up to which letters are features too
constexpr std::int64_t kLetters = 5;       // in a row
constexpr std::int64_t kFewNodes = 16;     // of a level: then threads share the children of a node

struct Weight {
    std::int32_t column;
    std::uint16_t child;
    Bf16 value;
};

struct TrainedNode {
    std::vector<float> bias;
    std::vector<Weight> weights;  // by column, then child
};

class TreeTrainer {
  public:
    TreeTrainer(const Context& context, const SparseRows& rows, const LabelRows& labels,
                std::span<const float> column_weights, const LinearTraining& training)
        : context_(context),
          rows_(rows),
          labels_(labels),
          column_weights_(column_weights),
          training_(training) {
        scratch_.resize(static_cast<std::size_t>(context.num_threads()));
    }

    // False when asked to stop.
    bool train(const LabelTree& tree, std::uint64_t seed, Progress& progress, std::int64_t& done,
               LabelTrees& out) {
        const auto base = static_cast<std::int32_t>(out.nodes());
        out.roots.push_back(base);
        std::int32_t next = base;  // first node of the next level
        for (std::size_t depth = 0; depth < tree.levels.size(); ++depth) {
            const auto& level = tree.levels[depth];
            const bool leaves = depth + 1 == tree.levels.size();
            next += static_cast<std::int32_t>(level.size());
            const std::vector<std::vector<std::int32_t>> below = labels_below(tree, depth);
            std::vector<TrainedNode> trained(level.size());
            const auto one = [&](std::int64_t i) {
                if (context_.stop_requested()) return;
                const auto n = static_cast<std::size_t>(i);
                trained[n] = train_node(level[n], below, seed + 0x10001u * depth + 0x9e3779b9u * n);
            };
            if (static_cast<std::int64_t>(level.size()) < kFewNodes)
                for (std::size_t i = 0; i < level.size(); ++i) one(static_cast<std::int64_t>(i));
            else
                context_.threads().parallel_for(static_cast<std::int64_t>(level.size()), one);
            if (context_.stop_requested()) return false;
            for (std::size_t i = 0; i < level.size(); ++i) append(level[i], leaves, next, trained[i], out);
            progress.update(done += static_cast<std::int64_t>(level.size()));
        }
        return true;
    }

  private:
    // Labels below each child of the level's nodes: by node of the next level, or by label.
    std::vector<std::vector<std::int32_t>> labels_below(const LabelTree& tree, std::size_t depth) const {
        std::vector<std::vector<std::int32_t>> below(static_cast<std::size_t>(labels_.labels()));
        for (std::size_t label = 0; label < below.size(); ++label)
            below[label] = {static_cast<std::int32_t>(label)};
        for (std::size_t d = tree.levels.size() - 1; d > depth; --d) {
            std::vector<std::vector<std::int32_t>> above(tree.levels[d].size());
            for (std::size_t n = 0; n < above.size(); ++n)
                for (const std::int32_t child : tree.levels[d][n])
                    above[n].insert(above[n].end(), below[static_cast<std::size_t>(child)].begin(),
                                    below[static_cast<std::size_t>(child)].end());
            below = std::move(above);
        }
        return below;
    }

    // Rows of the node, ascending; and of each child, by their place among those.
    std::vector<std::int32_t> rows_of(const LabelTree::Node& node,
                                      const std::vector<std::vector<std::int32_t>>& below,
                                      std::vector<std::vector<std::int32_t>>& positives) const {
        std::vector<std::int32_t> rows;
        for (const std::int32_t child : node) {
            auto& of_child = positives.emplace_back();
            for (const std::int32_t label : below[static_cast<std::size_t>(child)]) {
                const auto of_label = labels_.of(label);
                of_child.insert(of_child.end(), of_label.begin(), of_label.end());
            }
            std::sort(of_child.begin(), of_child.end());
            of_child.erase(std::unique(of_child.begin(), of_child.end()), of_child.end());
            rows.insert(rows.end(), of_child.begin(), of_child.end());
        }
        std::sort(rows.begin(), rows.end());
        rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
        for (auto& of_child : positives) {
            std::size_t at = 0;
            for (std::int32_t& row : of_child) {
                while (rows[at] != row) ++at;
                row = static_cast<std::int32_t>(at);
            }
        }
        return rows;
    }

    // Children that need a classifier, those with about as many positives beside each other: they converge
    // together. Others are certain.
    static std::vector<std::size_t> order_of(const std::vector<std::vector<std::int32_t>>& positives,
                                             std::int64_t rows, std::vector<float>& bias) {
        std::vector<std::size_t> order;
        for (std::size_t k = 0; k < positives.size(); ++k) {
            const auto count = static_cast<std::int64_t>(positives[k].size());
            if (count == 0 || count == rows)
                bias[k] = count == 0 ? -kCertain : kCertain;
            else
                order.push_back(k);
        }
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return positives[a].size() > positives[b].size();
        });
        return order;
    }

    TrainedNode train_node(const LabelTree::Node& node, const std::vector<std::vector<std::int32_t>>& below,
                           std::uint64_t seed) {
        std::vector<std::vector<std::int32_t>> positives;
        const std::vector<std::int32_t> rows = rows_of(node, below, positives);
        const NodeRows own = gather_rows(rows_, rows, column_weights_,
                                         scratch_[static_cast<std::size_t>(thread_index())].gather);
        TrainedNode trained;
        trained.bias.resize(node.size());
        const std::vector<std::size_t> order = order_of(positives, own.rows.size(), trained.bias);
        const std::size_t blocks = (order.size() + kSvmLanes - 1) / kSvmLanes;
        std::vector<std::vector<Weight>> found(blocks);
        context_.threads().parallel_for(static_cast<std::int64_t>(blocks), [&](std::int64_t block) {
            if (context_.stop_requested()) return;
            const auto b = static_cast<std::size_t>(block);
            const auto children =
                std::span(order).subspan(b * kSvmLanes, std::min(kSvmLanes, order.size() - b * kSvmLanes));
            std::vector<std::span<const std::int32_t>> lanes;
            for (const std::size_t child : children) lanes.push_back(positives[child]);
            SvmScratch& scratch = scratch_[static_cast<std::size_t>(thread_index())].svm;
            SvmOptions options;
            options.cost = training_.cost;
            solve_svms(own.rows, lanes, options, seed + 0x5851f42du * b, scratch);
            for (std::size_t l = 0; l < lanes.size(); ++l) trained.bias[children[l]] = scratch.bias.of[l];
            visit_weights(
                own, scratch, lanes.size(), kSmallWeight * training_.cost,
                [&](std::int32_t column, std::size_t lane, float weight) {
                    found[b].push_back({column, static_cast<std::uint16_t>(children[lane]), to_bf16(weight)});
                });
        });
        std::size_t size = 0;
        for (const auto& of_block : found) size += of_block.size();
        trained.weights.reserve(size);
        for (auto& of_block : found) {
            trained.weights.insert(trained.weights.end(), of_block.begin(), of_block.end());
            of_block = {};
        }
        std::sort(trained.weights.begin(), trained.weights.end(), [](const Weight& a, const Weight& b) {
            return a.column != b.column ? a.column < b.column : a.child < b.child;
        });
        return trained;
    }

    static void append(const LabelTree::Node& node, bool leaves, std::int32_t next, TrainedNode& trained,
                       LabelTrees& out) {
        out.leaf.push_back(leaves ? 1 : 0);
        for (const std::int32_t child : node) out.children.push_back(leaves ? child : next + child);
        out.bias.insert(out.bias.end(), trained.bias.begin(), trained.bias.end());
        out.child_begin.push_back(static_cast<std::int64_t>(out.children.size()));
        std::int32_t column = -1;
        for (const Weight& weight : trained.weights) {
            if (weight.column != column) {
                if (column >= 0) out.weight_begin.push_back(static_cast<std::int64_t>(out.weights.size()));
                out.columns.push_back(column = weight.column);
            }
            out.weight_child.push_back(weight.child);
            out.weights.push_back(weight.value);
        }
        if (column >= 0) out.weight_begin.push_back(static_cast<std::int64_t>(out.weights.size()));
        out.column_begin.push_back(static_cast<std::int64_t>(out.columns.size()));
        trained = {};
    }

    struct Scratch {
        GatherScratch gather;
        SvmScratch svm;
    };

    const Context& context_;
    const SparseRows& rows_;
    const LabelRows& labels_;
    std::span<const float> column_weights_;
    const LinearTraining& training_;
    std::vector<Scratch> scratch_;  // of each thread
};

LabelRows rows_of_labels(const LabelMatrix& labels, std::span<const std::int64_t> rows,
                         std::int64_t num_labels) {
    LabelRows out;
    out.offsets.assign(static_cast<std::size_t>(num_labels) + 1, 0);
    for (const std::int64_t row : rows)
        for (const std::uint32_t label : labels.row(row)) ++out.offsets[label + 1];
    for (std::size_t l = 0; l < static_cast<std::size_t>(num_labels); ++l)
        out.offsets[l + 1] += out.offsets[l];
    out.rows.resize(static_cast<std::size_t>(out.offsets.back()));
    std::vector<std::int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
    for (std::size_t i = 0; i < rows.size(); ++i)
        for (const std::uint32_t label : labels.row(rows[i]))
            out.rows[static_cast<std::size_t>(next[label]++)] = static_cast<std::int32_t>(i);
    return out;
}

}  // namespace

std::int64_t LabelTrees::bytes() const {
    return static_cast<std::int64_t>(
        roots.size() * 4 + leaf.size() + 8 * (child_begin.size() + column_begin.size()) +
        8 * weight_begin.size() + 8 * children.size() + 4 * columns.size() + 4 * weights.size());
}
std::int64_t LinearModel::bytes() const {
    return 12 * vocabulary.size() + trees.bytes();
}

LinearTraining choose_training(const Split& split, bool is_bag_of_words) {
    LinearTraining training;
    if (split.rows() <= kFewTexts) training.trees = 3;
    if (is_bag_of_words) {
        training.features.tokens_only = true;
        training.cost = kBagCost;
        training.leaf = kBagLeaf;
    }
    const double tokens = static_cast<double>(split.tokens.values.size()) /
                          static_cast<double>(std::max<std::int64_t>(split.tokens.rows(), 1));
    if (!is_bag_of_words && tokens <= kShortTexts) training.features.letters = kLetters;
    return training;
}

std::optional<LinearModel> train_linear_model(const Context& context, const Tokenizer& tokenizer,
                                              const Split& split, std::span<const std::int64_t> rows,
                                              std::int64_t num_labels, const LinearTraining& training) {
    LinearModel model;
    model.features = training.features;
    model.num_labels = num_labels;
    const Analyser analyser(tokenizer, training.features);
    const TokensOf tokens = [&](std::int64_t i) {
        return split.tokens.row(rows[static_cast<std::size_t>(i)]);
    };
    const auto count = static_cast<std::int64_t>(rows.size());
    model.vocabulary = learn_vocabulary(context, analyser, tokens, count);
    const std::int64_t columns = model.vocabulary.size();
    const SparseRows features = make_rows(context, analyser, model.vocabulary, tokens, count);
    const LabelRows labels = rows_of_labels(split.labels, rows, num_labels);
    TreeTrainer trainer(context, features, labels, model.vocabulary.weights(), training);
    std::vector<LabelTree> trees;
    std::int64_t nodes = 0, done = 0;
    {
        const SparseRows vectors =
            num_labels <= training.leaf ? SparseRows() : label_vectors(context, features, labels, columns);
        for (std::int64_t t = 0; t < (num_labels <= training.leaf ? 1 : training.trees); ++t) {
            if (context.stop_requested()) return std::nullopt;
            if (num_labels <= training.leaf) {
                LabelTree::Node all;
                for (std::int64_t label = 0; label < num_labels; ++label)
                    all.push_back(static_cast<std::int32_t>(label));
                trees.push_back({{{all}}});
            } else {
                trees.push_back(build_label_tree(context, vectors, columns, training.leaf,
                                                 training.seed + static_cast<std::uint64_t>(t)));
            }
            for (const auto& level : trees.back().levels) nodes += static_cast<std::int64_t>(level.size());
        }
    }
    Progress progress(context, "training", nodes, "nodes of label trees");
    for (std::size_t t = 0; t < trees.size(); ++t)
        if (!trainer.train(trees[t], training.seed + 7919 * t, progress, done, model.trees))
            return std::nullopt;
    progress.finish();
    return model;
}

}  // namespace elmo
