// The compensation of some of the head's labels, which are updated by Kahan summation instead of stochastic
// rounding: BF16 [K, D], and marks of these labels among all (numerics/row_marks.h). It is training state:
// saved beside the head for resuming, never needed for prediction.
//
// File: one safetensors with "labels" (I64 [K], ascending) and "compensation" (BF16 [K, D], in their order).
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "io/mmap_file.h"
#include "ranks/collectives.h"
#include "tensor/label_layout.h"

namespace elmo {

class HeadCompensation {
  public:
    // For `rows` of a head's labels, chosen later; 0 for none, which takes no memory.
    HeadCompensation(const LabelLayout& layout, std::int64_t width, std::int64_t rows, Backend& backend);

    std::int64_t rows() const { return rows_; }
    // Plans or takes the memory: marks from `arena`, values from `large`.
    void allocate(Arena& arena, Arena& large);
    // Sets which labels have one (ascending; rows() of them are the head's, which may be a part of the
    // run's); it starts at zero. Before this or load() no label has one.
    void start(std::span<const std::int64_t> labels);

    // For HeadStep; empty while no label has one.
    View values() const { return chosen_.empty() ? View{} : values_KD_; }
    View marks() const { return chosen_.empty() ? View{} : marks_R2_; }
    std::span<const std::int64_t> chosen() const { return chosen_; }  // labels of the run

    void save(const std::filesystem::path& file) const;
    // The same file of what lies on all ranks: a collective, in which the first rank writes and the others
    // (file: null) send. Nothing where no rank has any.
    void save_shared(const std::filesystem::path* file, Ranks& ranks) const;
    // What the file has of the head's labels. DataError, naming the file, for another shape and for labels
    // that do not ascend or are beyond the run's, `all_labels` of them (0: the head's).
    void load(MappedFile file, std::int64_t all_labels = 0);

  private:
    void choose(std::span<const std::int64_t> labels);

    // Of ascending labels of the run, those of the head.
    std::span<const std::int64_t> own(std::span<const std::int64_t> labels) const;

    std::int64_t first_label_, labels_, width_, rows_;
    Backend& backend_;
    std::vector<std::int64_t> chosen_;  // labels of the run
    View values_KD_, marks_R2_;
};

}  // namespace elmo
