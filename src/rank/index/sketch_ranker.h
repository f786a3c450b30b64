// The best labels of text vectors by an index: candidates by the sketch, then the head's own scores of them.
#pragma once

#include <cstdint>
#include <vector>

#include "config/views.h"
#include "elmo/context.h"
#include "engine/engine.h"
#include "model/head/head_shards.h"
#include "rank/index/label_sketch.h"
#include "run/checkpoint.h"
#include "tensor/topk.h"

namespace elmo {

class SketchRanker {
  public:
    // `candidates`: for answers of up to five labels; of longer ones as many times more. `most`: labels of an
    // answer.
    SketchRanker(const Context& context, const EngineOptions& options, const Checkpoint& checkpoint,
                 LabelSketch sketch, std::int64_t candidates, std::int64_t most);

    // Of each row of `texts`, bf16 vectors one after another. Scores have the bits of exact search.
    std::vector<std::vector<ScoredLabel>> rank(std::span<const Bf16> texts, std::int64_t k);
    // With another number of candidates.
    std::vector<std::vector<ScoredLabel>> rank(std::span<const Bf16> texts, std::int64_t k,
                                               std::int64_t candidates);

  private:
    Context context_;
    LabelSketch sketch_;
    std::int64_t candidates_;
    InputFolder content_;
    std::vector<Shard> shards_;
    Engine engine_;  // a head with room for the candidates of a text
};

// Candidates for an answer of k labels, where `candidates` are taken for five.
std::int64_t candidates_for(std::int64_t candidates, std::int64_t k, std::int64_t labels);

}  // namespace elmo
