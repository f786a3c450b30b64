// How much the nearest texts should say: fitted on rows that a smaller model, of one tree, was not trained
// on.
#pragma once

#include "linear/train_trees.h"

namespace elmo {

// The last rows are held out: where a file has an order, texts beside each other are more alike than new ones
// will be, and neighbours would seem to help. Share 0 where they do not help for sure: by less than twice the
// standard error of the gain. `model` lends its vocabulary.
VoteOptions fit_neighbours(const Context& context, const Tokenizer& tokenizer, const TokensOf& tokens,
                           const SparseRows& rows, const LabelsOfRows& labels, const LinearTraining& training,
                           LinearModel& model);

}  // namespace elmo
