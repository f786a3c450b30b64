// Detects a run that has stopped learning, from numbers that cost almost nothing: text vectors that are all
// alike, the same ranking for every text, a loss far above its earlier level. Verdicts depend only on the
// weights and on what a checkpoint holds, so a resumed run comes to the same ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/ops/embedding.h"
#include "elmo/error.h"
#include "run/run_state.h"

namespace elmo {

// Thrown when training has collapsed; the message gives the sign.
class Collapse : public NumericError {
    using NumericError::NumericError;
};

// Steps before the first check (early steps may do anything) and between two checks, of vectors and of
// losses.
inline constexpr std::int64_t kFirstLook = 200, kLookEvery = 100, kLossEvery = 50;

// Up to `most` different texts of a batch, none of them empty: their tokens one after another.
struct ProbeTexts {
    std::vector<std::int32_t> tokens, offsets;
    std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};
ProbeTexts choose_probe(std::span<const std::int32_t> tokens, std::span<const std::int32_t> offsets,
                        std::int64_t most = 32);

// The mean cosine of all pairs of rows of x, [rows, width]; rows of zeros are equal to everything.
double mean_cosine(std::span<const float> x, std::int64_t rows);
// What is wrong with the vectors of different texts, or nothing. Fewer than eight are not judged.
std::optional<std::string> judge_vectors(std::span<const float> x, std::int64_t rows);

// Of texts with scores of one label, and whether they have it: the share of pairs of one that has it and one
// that has not in which the former has the higher score. A half where there are no such pairs.
double ordered_share(std::vector<std::pair<float, bool>> scores);

// The best labels of the rows of a validation.
class TopLabels {
  public:
    // Of a row: its best label, that one's score, and whether it and the most frequent label of training are
    // right.
    void add(std::int64_t best, float score, bool is_right, bool frequent_is_right) {
        scores_[best].emplace_back(std::isnan(score) ? 0 : score, is_right);
        frequent_right_ += frequent_is_right ? 1 : 0;
    }
    // What is wrong when nearly every row has the same best label, P@1 (percent) is no better than that of
    // always answering the most frequent label, and scores do not tell which rows have it; or nothing.
    std::optional<std::string> judge(double precision_at_1) const;

  private:
    using Scores = std::vector<std::pair<float, bool>>;
    std::int64_t frequent_right_ = 0;
    std::unordered_map<std::int64_t, Scores> scores_;
};

// The loss of a text by a model that knows only how frequent the labels are, which is the best that is left
// where all texts look alike. `counts`: rows of each label among `rows`; `weights`: what a positive of each
// counts, once where there are none.
double blind_loss(std::span<const std::int64_t> counts, std::int64_t rows, std::span<const float> weights);

// Takes the loss of a batch after every kLossEvery steps. It is noisy, most of all on little data: only the
// median of the last few is judged. What is wrong if the median is several times its smallest and most of the
// way back to `blind`, the blind loss, or nothing.
std::optional<std::string> judge_loss(RunState& state, double loss, double blind);

}  // namespace elmo
