// The linear model: a vocabulary, trees of labels with one sparse classifier per child of a node, and where
// it helps an index of the training texts. Everything lies in flat arrays, as in its file (model_file.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linear/features/analyser.h"
#include "linear/features/vocabulary.h"
#include "linear/neighbours.h"
#include "numerics/bf16.h"

namespace elmo {

// The trees, one after another; the first node of each is its root. Children of a node are nodes of the same
// tree that come after it, or labels where the node is a leaf. Node n has children [child_begin[n],
// child_begin[n + 1]) and knows the columns [column_begin[n], column_begin[n + 1]), ascending; column j has
// the weights [weight_begin[j], weight_begin[j + 1]), each of one child by its place among the node's.
struct LabelTrees {
    std::vector<std::int32_t> roots;
    std::vector<std::uint8_t> leaf;  // of each node: 1 where children are labels
    std::vector<std::int64_t> child_begin = {0}, column_begin = {0}, weight_begin = {0};
    std::vector<std::int32_t> children;
    std::vector<float> bias;  // of each child
    std::vector<std::int32_t> columns;
    std::vector<std::uint16_t> weight_child;
    std::vector<Bf16> weights;

    std::int64_t nodes() const { return static_cast<std::int64_t>(leaf.size()); }
    std::int64_t bytes() const;
};

struct LinearModel {
    FeatureOptions features;
    std::int64_t num_labels = 0;
    Vocabulary vocabulary;
    LabelTrees trees;
    Neighbours neighbours;

    std::int64_t bytes() const;
};

}  // namespace elmo
