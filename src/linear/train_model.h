// Trains a linear model: vocabulary, rows, label trees, and the index of the nearest texts where it helps.
#pragma once

#include <optional>

#include "linear/trees/train_trees.h"
#include "sources/rows.h"

namespace elmo {

// What suits the data. Letters help where texts are short; in long ones they cost more than they give. Texts
// of one word or a few have little else: a new word has no feature of its own. Bags of words have few
// features: they are fitted less closely, and where labels are few there is no tree.
LinearTraining choose_training(const Split& split, const Tokenizer& tokenizer, bool is_bag_of_words);

// Rows that train: tokens and labels of row i of `rows`. Nothing when the context asks to stop. Results do
// not depend on the number of threads.
std::optional<LinearModel> train_linear_model(const Context& context, const Tokenizer& tokenizer,
                                              const Split& split, std::span<const std::int64_t> rows,
                                              std::int64_t num_labels, const LinearTraining& training);

}  // namespace elmo
