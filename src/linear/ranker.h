// The best labels of texts by a linear model: a beam through each tree, the trees' probabilities averaged,
// and the votes of the nearest training texts where the model has them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "elmo/context.h"
#include "linear/linear_model.h"
#include "tensor/topk.h"

namespace elmo {

class LinearRanker {
  public:
    // `tokenizer` is used here only. With `allowed` (ascending), only these labels are ranked, all of them.
    LinearRanker(LinearModel model, const Tokenizer& tokenizer, std::vector<std::int64_t> allowed = {});

    const LinearModel& model() const { return model_; }
    // Ends the ranker's use.
    LinearModel take_model() { return std::move(model_); }
    // The k best labels of each text, best first. Scores are logits.
    std::vector<std::vector<ScoredLabel>> rank(const Context& context, const TokensOf& tokens,
                                               std::int64_t texts, std::int64_t k) const;

  private:
    struct Scratch;
    void rank_chunk(const SparseRows& rows, std::int64_t k, std::span<std::vector<ScoredLabel>> out,
                    Scratch& scratch) const;
    void score_node(const SparseRows& rows, std::int32_t node,
                    std::span<const std::pair<std::int32_t, float>> of_node, Scratch& scratch) const;

    void add_votes(const SparseRows& rows, std::int64_t text,
                   std::vector<std::pair<std::int32_t, float>>& labels, Scratch& scratch) const;

    LinearModel model_;
    Analyser analyser_;
    std::vector<std::uint8_t> open_;        // of each node: may lead to an allowed label
    std::vector<std::uint8_t> label_open_;  // of each label; empty where all are
};

}  // namespace elmo
