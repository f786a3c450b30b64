// How much the nearest texts should say: fitted on texts that a smaller model, of one tree, was not trained
// on.
#pragma once

#include "linear/trees/train_trees.h"

namespace elmo {

// Half of the held-out rows are from everywhere, half from the end. Where a file has an order, texts beside
// each other are more alike than new ones will be, and the texts at the end may be of one kind: neighbours
// must gain by more than twice the standard error on both halves, else their share is 0. `model` lends its
// vocabulary.
VoteOptions fit_neighbours(const Context& context, const Tokenizer& tokenizer, const TokensOf& tokens,
                           const SparseRows& rows, const LabelsOfRows& labels, const LinearTraining& training,
                           LinearModel& model);

}  // namespace elmo
