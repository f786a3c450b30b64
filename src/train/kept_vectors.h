// With a frozen encoder a text has the same vector in every epoch: the first time it is computed and kept in
// main memory, later it is taken from there. Dropout comes after, at its own noise, so training has the same
// bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "batches/batcher.h"
#include "engine/engine.h"
#include "numerics/bf16.h"

namespace elmo {

class KeptVectors {
  public:
    // Memory for the vectors of bytes / (2 width) rows. It is touched as rows come.
    KeptVectors(std::int64_t bytes, std::int64_t width);

    // Whether the encoder need not run for this batch.
    bool has(const Batch& batch) const;
    // What the encoder's training forward of this batch gives, where that forward leaves it.
    View vectors(Engine& engine, const Batch& batch, std::uint64_t seed, std::uint64_t step);

  private:
    Bf16* row(std::int64_t number) { return values_.get() + number * width_; }

    std::int64_t width_;
    std::unique_ptr<Bf16[]> values_;
    std::vector<bool> known_;
    std::vector<Bf16> batch_;  // on the way to the encoder's memory or from there
};

}  // namespace elmo
