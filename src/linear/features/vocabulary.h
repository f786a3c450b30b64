// Which features a linear model knows, and how a text becomes a row of them: counts damped by a logarithm,
// features of few texts weighted up (IDF), every row of length 1.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "elmo/context.h"
#include "linear/features/analyser.h"
#include "linear/features/sparse_rows.h"

namespace elmo {

class Vocabulary {
  public:
    Vocabulary() = default;
    // Ascending hashes, and as many weights.
    Vocabulary(std::vector<std::uint64_t> hashes, std::vector<float> weights);

    std::int64_t size() const { return static_cast<std::int64_t>(hashes_.size()); }
    std::span<const std::uint64_t> hashes() const { return hashes_; }
    std::span<const float> weights() const { return weights_; }
    // Gives other weights, as many, and takes those in use.
    void swap_weights(std::vector<float>& weights) { weights_.swap(weights); }
    // -1 when it is not known.
    std::int64_t find(std::uint64_t hash) const;

    // Appends a text's row. `features` is sorted in passing.
    void append_row(std::vector<std::uint64_t>& features, SparseRows& rows) const;

  private:
    std::vector<std::uint64_t> hashes_;
    std::vector<float> weights_;
    std::vector<std::int64_t> buckets_;  // where the hashes of each value of the upper bits begin
    int shift_ = 64;
};

// Token ids of row i.
using TokensOf = std::function<std::span<const std::int32_t>(std::int64_t i)>;

// The features of `rows` texts, also those of a single text: without them P@1 fell by 1 on short texts and on
// docstrings.
Vocabulary learn_vocabulary(const Context& context, const Analyser& analyser, const TokensOf& tokens,
                            std::int64_t rows);

// The texts as rows.
SparseRows make_rows(const Context& context, const Analyser& analyser, const Vocabulary& vocabulary,
                     const TokensOf& tokens, std::int64_t rows);

}  // namespace elmo
