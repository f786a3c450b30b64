// Ranking on several ranks: each encodes other batches, all rank their own labels of every batch, and the
// best of all are the best of each. (score, lower label) is a total order, so the result has the bits of one
// rank.
//
// In training all ranks walk the same rows. Elsewhere only the first one knows the texts: it leads, and the
// others follow with the run's encoder and their part of the head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/views.h"
#include "elmo/context.h"
#include "engine/engine.h"
#include "run/checkpoint.h"

namespace elmo {

// A batch of texts, and how many labels to rank for each.
struct RankedBatch {
    TextBatch texts;
    std::int64_t k = 0;
};

// At most as many batches as there are ranks, the same on all: batch i is encoded by rank i. All ranks call
// it and have the result.
std::vector<std::vector<TopK>> rank_together(const Context& context, Engine& engine,
                                             std::span<const RankedBatch> batches);

// The first rank: the engine of a run whose head lies on all ranks, and the batches that they rank together.
// Gathered labels are ascending; without any the head has all.
class RankingLeader {
  public:
    // Tells the others what to stage, and stages it here.
    RankingLeader(const Context& context, const EngineOptions& options, const Checkpoint& checkpoint,
                  const EncoderSpec& encoder, const std::vector<std::int64_t>& gathered, RunShape shape);
    // Sends the others home.
    ~RankingLeader();
    RankingLeader(const RankingLeader&) = delete;
    RankingLeader& operator=(const RankingLeader&) = delete;

    Engine& engine() { return *engine_; }
    std::vector<std::vector<TopK>> rank(std::span<const RankedBatch> batches);

  private:
    Context context_;
    std::unique_ptr<Engine> engine_;
};

// The first rank, where there is nothing to rank: the others need not wait.
void lead_nothing(const Context& context);

// The other ranks: works for the leader's rankings of this run until it ends. Returns at once for a linear
// model, which the first rank ranks with alone.
void follow_rankings(const Context& context, const std::string& run, const std::string& checkpoint,
                     const EngineOptions& options);

}  // namespace elmo
