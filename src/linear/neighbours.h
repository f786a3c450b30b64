// The nearest training texts: their rows by column (an inverted index) and their labels. A label's vote is
// the share of the nearest texts that carry it; near ones count more. A text that is almost a training text
// finds that one's labels, however rare they are, and no classifier can say so.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "linear/features/sparse_rows.h"
#include "linear/trees/label_rows.h"
#include "numerics/bf16.h"

namespace elmo {

struct VoteOptions {
    float share = 0;  // of the votes in a label's probability, below 1; 0: no neighbours
    float power = 1;  // a text votes with its likeness to this power
};

// Column c is in rows[row_begin[c], row_begin[c + 1]), ascending, with as many values; text i of the index
// has the labels [label_begin[i], label_begin[i + 1]). All are empty where there are no neighbours.
struct Neighbours {
    VoteOptions votes;
    std::vector<std::int64_t> row_begin;
    std::vector<std::int32_t> rows;
    std::vector<Bf16> values;
    std::vector<std::int64_t> label_begin;
    std::vector<std::int32_t> labels;

    std::int64_t texts() const {
        return label_begin.empty() ? 0 : static_cast<std::int64_t>(label_begin.size()) - 1;
    }
    std::span<const std::int32_t> labels_of(std::int64_t text) const {
        const auto i = static_cast<std::size_t>(text);
        return std::span(labels).subspan(static_cast<std::size_t>(label_begin[i]),
                                         static_cast<std::size_t>(label_begin[i + 1] - label_begin[i]));
    }
    std::int64_t bytes() const;
};

// Without the rows that `left_out` marks by 1. Columns that very many texts have are left out: they tell no
// texts apart and would be most of the work.
Neighbours index_rows(const SparseRows& rows, const LabelsOfRows& labels, std::int64_t num_columns,
                      const VoteOptions& votes, std::span<const std::uint8_t> left_out = {});

// The texts that are most like one, best first, with their likeness from 0 to 1.
using Nearest = std::vector<std::pair<float, std::int32_t>>;
void find_nearest(const Neighbours& index, std::span<const std::int32_t> columns,
                  std::span<const float> values, std::vector<float>& likeness, Nearest& nearest);

// Labels with their votes, by label.
void count_votes(const Neighbours& index, const Nearest& nearest, float power,
                 std::vector<std::pair<std::int32_t, float>>& votes);

// Mixes votes into probabilities; both by label, ascending.
void mix_votes(std::span<const std::pair<std::int32_t, float>> votes, float share,
               std::vector<std::pair<std::int32_t, float>>& probabilities);

}  // namespace elmo
