// Trains the label trees of a linear model: the classifiers of every node on the rows that carry a label
// below it, those of the root also on rows that carry none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elmo/context.h"
#include "linear/linear_model.h"
#include "linear/trees/label_tree.h"

namespace elmo {

inline constexpr float kSmallWeight = 0.1f;  // weights below, times the cost, are left out

struct LinearTraining {
    FeatureOptions features;
    std::int64_t trees = 3;   // their probabilities are averaged
    std::int64_t leaf = 100;  // labels of a leaf at most
    float cost = 1;           // C of the classifiers
    std::uint64_t seed = 42;
    std::vector<float> label_weights;  // how many times a positive of each label counts; empty: once
    std::optional<float> neighbours;   // share of the nearest texts; nothing: what held-out rows ask for
    bool equal_texts_together = true;  // those rows are whole texts
};

// `column_weights`: of the vocabulary. False when the context asks to stop. Results do not depend on the
// number of threads.
bool train_trees(const Context& context, const SparseRows& rows, const RowsOfLabels& labels,
                 std::span<const float> column_weights, const LinearTraining& training,
                 const std::string& title, LabelTrees& out);

}  // namespace elmo
