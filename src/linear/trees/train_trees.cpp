#include "linear/trees/train_trees.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "base/progress.h"
#include "linear/trees/label_tree.h"
#include "linear/trees/node_rows.h"
#include "linear/trees/svm.h"

namespace elmo {
namespace {

constexpr float kCertain = 10;          // bias of a child that all rows of its node have, or none
constexpr std::int64_t kFewNodes = 16;  // of a level: then threads share the children of a node

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
    TreeTrainer(const Context& context, const SparseRows& rows, const RowsOfLabels& labels,
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
        const std::vector<std::int32_t> none;
        for (std::size_t depth = 0; depth < tree.levels.size(); ++depth) {
            const auto& level = tree.levels[depth];
            const bool leaves = depth + 1 == tree.levels.size();
            next += static_cast<std::int32_t>(level.size());
            const std::vector<std::vector<std::int32_t>> below = labels_below(tree, depth);
            std::vector<TrainedNode> trained(level.size());
            const auto one = [&](std::int64_t i) {
                if (context_.stop_requested()) return;
                const auto n = static_cast<std::size_t>(i);
                trained[n] = train_node(level[n], below, depth == 0 ? labels_.unlabelled : none,
                                        seed + 0x10001u * depth + 0x9e3779b9u * n);
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

    // Rows of the node, of which `rows` are negative for all, ascending; and of each child, by their place
    // among those.
    std::vector<std::int32_t> rows_of(const LabelTree::Node& node,
                                      const std::vector<std::vector<std::int32_t>>& below,
                                      std::vector<std::int32_t> rows,
                                      std::vector<std::vector<std::int32_t>>& positives) const {
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

    // How many times a positive counts among labels: their mean, by rows.
    float positive_weight(const std::vector<std::int32_t>& labels) const {
        if (training_.label_weights.empty()) return 1;
        double sum = 0, rows = 0;
        for (const std::int32_t label : labels) {
            const auto count = static_cast<double>(labels_.of(label).size());
            sum += count * training_.label_weights[static_cast<std::size_t>(label)];
            rows += count;
        }
        return static_cast<float>(sum / rows);
    }

    TrainedNode train_node(const LabelTree::Node& node, const std::vector<std::vector<std::int32_t>>& below,
                           const std::vector<std::int32_t>& negatives, std::uint64_t seed) {
        std::vector<std::vector<std::int32_t>> positives;
        const std::vector<std::int32_t> rows = rows_of(node, below, negatives, positives);
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
            std::vector<SvmLane> lanes;
            for (const std::size_t child : children)
                lanes.push_back(
                    {positives[child], positive_weight(below[static_cast<std::size_t>(node[child])])});
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
    const RowsOfLabels& labels_;
    std::span<const float> column_weights_;
    const LinearTraining& training_;
    std::vector<Scratch> scratch_;  // of each thread
};

// All labels below one node.
LabelTree without_levels(std::int64_t labels) {
    LabelTree::Node all(static_cast<std::size_t>(labels));
    std::iota(all.begin(), all.end(), 0);
    return {{{all}}};
}

}  // namespace

bool train_trees(const Context& context, const SparseRows& rows, const RowsOfLabels& labels,
                 std::span<const float> column_weights, const LinearTraining& training,
                 const std::string& title, LabelTrees& out) {
    const auto columns = static_cast<std::int64_t>(column_weights.size());
    std::vector<LabelTree> trees;
    if (labels.labels() <= training.leaf) {
        trees.push_back(without_levels(labels.labels()));
    } else {
        const SparseRows vectors = label_vectors(context, rows, labels, columns);
        Progress progress(context, title + ", grouping labels", training.trees, "label trees");
        for (std::int64_t t = 0; t < training.trees; ++t) {
            if (context.stop_requested()) return false;
            trees.push_back(build_label_tree(context, vectors, columns, training.leaf,
                                             training.seed + static_cast<std::uint64_t>(t)));
            progress.update(t + 1);
        }
        progress.finish();
    }
    std::int64_t nodes = 0, done = 0;
    for (const LabelTree& tree : trees)
        for (const auto& level : tree.levels) nodes += static_cast<std::int64_t>(level.size());
    TreeTrainer trainer(context, rows, labels, column_weights, training);
    Progress progress(context, title, nodes, "nodes of label trees");
    for (std::size_t t = 0; t < trees.size(); ++t)
        if (!trainer.train(trees[t], training.seed + 7919 * t, progress, done, out)) return false;
    progress.finish();
    return true;
}

}  // namespace elmo
