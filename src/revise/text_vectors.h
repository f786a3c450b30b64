// The first stage of a refinement: the pooled vector of every training text, once, into a RowStore. The
// encoder works as at prediction (no dropout) and there is no head in memory.
#pragma once

#include <atomic>

#include "batches/batcher.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "engine/engine.h"
#include "formats/row_store.h"

namespace elmo {

class TextVectors {
  public:
    // `texts` are the rows in their order, unshuffled, in the batches that are encoded; it must live as long.
    TextVectors(const Context& context, const Config& config, const EncoderSpec& spec, const BatchPlan& texts,
                std::int64_t mapped_bytes);

    std::int64_t width() const { return engine_.workload().width; }
    const MemoryReport& plan() const { return engine_.plan(); }
    std::int64_t taken_bytes() const { return engine_.taken_bytes(); }
    // Takes the memory and encodes what `store` does not have yet: BF16, row i the vector of text i. Pieces
    // of about piece_bytes are kept as they are done. False when the context asked to stop first.
    bool write(RowStore& store, std::int64_t piece_bytes = RowStore::kPieceBytes);

    // Gives the memory back.
    void release() { engine_.release(); }

  private:
    Context context_;
    InputFolder weights_;
    const BatchPlan& texts_;
    Engine engine_;
};

}  // namespace elmo
