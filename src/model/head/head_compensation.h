// The compensation of some of the head's rows, which are updated by Kahan summation instead of stochastic
// rounding: BF16 [K, D], and marks of these labels among all (numerics/row_marks.h). It is training state:
// saved beside the head for resuming, never needed for prediction.
//
// File: one safetensors with "labels" (I64 [K], ascending) and "compensation" (BF16 [K, D], in their order).
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace elmo {

class HeadCompensation {
  public:
    // For `rows` of a head's labels, chosen later; 0 for none, which takes no memory.
    HeadCompensation(std::int64_t labels, std::int64_t width, std::int64_t rows, Backend& backend);

    std::int64_t rows() const { return rows_; }
    // Plans or takes the memory.
    void allocate(Arena& arena);
    // Sets which labels have one (ascending, rows() of them); it starts at zero. Before this or load() no
    // label has one.
    void start(std::span<const std::int64_t> labels);

    // For HeadStep; empty while no label has one.
    View values() const { return chosen_.empty() ? View{} : values_KD_; }
    View marks() const { return chosen_.empty() ? View{} : marks_R2_; }

    void save(const std::filesystem::path& file) const;
    // DataError, naming the file, for another shape and for labels that do not ascend or are beyond the head.
    void load(const std::filesystem::path& file);

  private:
    void choose(std::span<const std::int64_t> labels);

    std::int64_t labels_, width_, rows_;
    Backend& backend_;
    std::vector<std::int64_t> chosen_;
    View values_KD_, marks_R2_;
};

}  // namespace elmo
