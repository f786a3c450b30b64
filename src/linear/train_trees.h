// Trains a linear model: vocabulary, rows, label trees, and the classifiers of every node on the rows that
// carry a label below it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "elmo/context.h"
#include "linear/linear_model.h"
#include "sources/rows.h"

namespace elmo {

struct LinearTraining {
    FeatureOptions features;
    std::int64_t trees = 2;   // their probabilities are averaged
    std::int64_t leaf = 100;  // labels of a leaf at most
    float cost = 1;           // C of the classifiers
    std::uint64_t seed = 42;
};

// What suits the data. Letters help where texts are short; in long ones they cost more than they give. Bags
// of words have few features: they are fitted less closely, and where labels are few there is no tree.
LinearTraining choose_training(const Split& split, bool is_bag_of_words);

// Rows that train: tokens and labels of row i of `rows`. Nothing when the context asks to stop. Results do
// not depend on the number of threads.
std::optional<LinearModel> train_linear_model(const Context& context, const Tokenizer& tokenizer,
                                              const Split& split, std::span<const std::int64_t> rows,
                                              std::int64_t num_labels, const LinearTraining& training);

}  // namespace elmo
