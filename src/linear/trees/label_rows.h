// Which rows carry which labels, in both directions. Rows are those that train, numbered from 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sources/rows.h"

namespace elmo {

// A view: row i is rows[i] of the split.
struct LabelsOfRows {
    const LabelMatrix& labels;
    std::span<const std::int64_t> rows;

    std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
    std::span<const std::uint32_t> of(std::int64_t row) const {
        return labels.row(rows[static_cast<std::size_t>(row)]);
    }
};

// Rows of each label, and those that carry none, ascending.
struct RowsOfLabels {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> rows;
    std::vector<std::int32_t> unlabelled;

    std::int64_t labels() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
    std::span<const std::int32_t> of(std::int64_t label) const {
        const auto begin = static_cast<std::size_t>(offsets[static_cast<std::size_t>(label)]);
        return std::span(rows).subspan(
            begin, static_cast<std::size_t>(offsets[static_cast<std::size_t>(label) + 1]) - begin);
    }
};

// `left_out`: rows that do not count, marked by 1; empty where there are none.
RowsOfLabels rows_of_labels(const LabelsOfRows& labels, std::int64_t num_labels,
                            std::span<const std::uint8_t> left_out = {});

}  // namespace elmo
