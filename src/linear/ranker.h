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

// The labels that are ranked, and the nodes that lead to them. Empty: all.
struct LabelGate {
    std::vector<std::uint8_t> nodes, labels;
};

class LinearRanker {
  public:
    // `tokenizer` is used here only.
    LinearRanker(LinearModel model, const Tokenizer& tokenizer);

    const LinearModel& model() const { return model_; }
    // Ends the ranker's use.
    LinearModel take_model() { return std::move(model_); }
    LabelGate gate(std::span<const std::int64_t> labels) const;
    // The k best labels of each text, best first. Scores are logits. With a gate, all labels behind it are
    // scored.
    std::vector<std::vector<ScoredLabel>> rank(const Context& context, const TokensOf& tokens,
                                               std::int64_t texts, std::int64_t k,
                                               const LabelGate& gate = {}) const;

    // The training texts that are most like a text, best first; none where the model has no index of them.
    Nearest nearest_texts(std::span<const std::int32_t> tokens) const;

  private:
    struct Scratch;
    void rank_chunk(const SparseRows& rows, std::int64_t k, const LabelGate& gate,
                    std::span<std::vector<ScoredLabel>> out, Scratch& scratch) const;
    void score_node(const SparseRows& rows, std::int32_t node,
                    std::span<const std::pair<std::int32_t, float>> of_node, std::int64_t most,
                    const LabelGate& gate, Scratch& scratch) const;

    void add_votes(const SparseRows& rows, std::int64_t text,
                   std::vector<std::pair<std::int32_t, float>>& labels, const LabelGate& gate,
                   Scratch& scratch) const;

    LinearModel model_;
    Analyser analyser_;
};

}  // namespace elmo
