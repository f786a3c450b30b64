// Stored predictions: a header `rows labels`, then one row per line of `label:score`, as the XMC repository
// stores sparse matrices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "io/atomic_file.h"
#include "tensor/topk.h"

namespace elmo {

class PredictionsWriter {
  public:
    PredictionsWriter(const std::filesystem::path& file, std::int64_t rows, std::int64_t labels);
    // The next row; scores are written so that they read back exactly.
    void add(std::span<const ScoredLabel> ranked);
    void commit();

  private:
    AtomicFile file_;
    std::int64_t rows_, written_ = 0;
};

// DataError with what such a file holds and how to make one, if this is none: to ask before the data are
// read.
void require_predictions(const std::filesystem::path& file);

// Every row of the file, sorted by falling score (equal scores by lower label), through take(row, ranked).
// DataError with file and line when the header does not say `rows` and `labels`, a label is out of range or
// repeated, a score is not a number, or rows are missing.
void read_predictions(const std::filesystem::path& file, std::int64_t rows, std::int64_t labels,
                      const std::function<void(std::int64_t row, std::vector<ScoredLabel>& ranked)>& take);

}  // namespace elmo
