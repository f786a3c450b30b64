// The labels of tokenized texts, ranked by the model of a checkpoint: a linear model, or an encoder with a
// head. A call may rank fewer labels than the checkpoint has; then only the head's rows of these are
// multiplied.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "config/views.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/predictor.h"
#include "engine/engine.h"
#include "linear/ranker.h"
#include "rank/index/index_file.h"
#include "rank/index/sketch_ranker.h"
#include "rank/question/answer_scope.h"
#include "rank/shared_ranking.h"
#include "run/checkpoint.h"

namespace elmo {

class LabelRanker {
  public:
    using Ranking = std::vector<std::vector<ScoredLabel>>;  // of each text, best first

    // Loads the model; of a gathered scope, only its rows of the head. `longest`: tokens of a text.
    // `tokenizer`: null of a head on vectors.
    LabelRanker(const Context& context, const Checkpoint& checkpoint, const Config& config,
                const EncoderSpec& spec, const Tokenizer* tokenizer, const AnswerScope& scope,
                std::int64_t longest);

    bool is_linear() const { return linear_.has_value(); }
    // Labels of a text that can be ranked at once.
    std::int64_t most_ranked() const { return most_ranked_; }
    const MemoryReport& plan() const { return linear_ ? linear_plan_ : engine().plan(); }

    // The k best labels of the scope it was made with.
    Ranking rank(const TokenizedTexts& texts, std::int64_t k);
    // The same of other labels, which ascend.
    Ranking rank_among(const TokenizedTexts& texts, std::int64_t k, const std::vector<std::int64_t>& labels);

    // The index by which it searches; null where search is exact.
    const SearchIndex* index() const { return sketch_ ? &index_ : nullptr; }

    // The same of vectors in the place of texts, row after row, at most a batch. Not of a linear model.
    Ranking rank(std::span<const Bf16> vectors, std::int64_t k);
    Ranking rank_among(std::span<const Bf16> vectors, std::int64_t k,
                       const std::vector<std::int64_t>& labels);

    // The text vectors, row after row. Not of a linear model, nor of a head on vectors.
    std::vector<Bf16> vectors(const TokenizedTexts& texts);

    // See Predictor::nearest_labels.
    std::vector<std::pair<std::int64_t, double>> nearest(std::int64_t label, std::int64_t limit);

    // Of a linear model: the training texts that are most like the first of these, best first, and the labels
    // of such a text. Empty where the model has no index of them.
    bool has_neighbours() const;
    Nearest nearest_texts(const TokenizedTexts& texts, std::int64_t limit) const;
    std::span<const std::int32_t> labels_of_text(std::int64_t text) const;

  private:
    Engine& engine() const { return leader_ ? leader_->engine() : *own_engine_; }
    View encode(const TokenizedTexts& texts);
    // Stages the encoder, and the index in the place of a head.
    void stage_index(const Checkpoint& checkpoint, const EncoderSpec& spec, RunShape shape);
    // An engine of the scope's head whose input is vectors.
    Engine& vector_engine();
    Ranking rank_by(Engine& head, std::span<const Bf16> vectors, std::int64_t k);
    Engine& engine_of(const std::vector<std::int64_t>& labels);

    Context context_;
    InputFolder content_;
    EngineOptions options_;
    bool takes_vectors_;
    std::int64_t batch_, width_, most_ranked_;
    // One of these.
    mutable std::optional<Engine> own_engine_;
    mutable std::optional<RankingLeader> leader_;  // of several ranks
    std::optional<LinearRanker> linear_;
    // Approximate search: beside an engine that has no head.
    std::optional<SketchRanker> sketch_;
    SearchIndex index_;
    std::optional<Engine> head_only_;  // of a run with an encoder, once vectors are given
    AnswerScope scope_;
    LabelGate gate_;  // of the scope
    MemoryReport linear_plan_;
    // Heads of labels that were asked for lately, the last one in front: questions repeat.
    std::list<std::pair<std::vector<std::int64_t>, Engine>> gathered_;
};

}  // namespace elmo
