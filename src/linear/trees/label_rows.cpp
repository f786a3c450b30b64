#include "linear/trees/label_rows.h"

namespace elmo {

RowsOfLabels rows_of_labels(const LabelsOfRows& labels, std::int64_t num_labels,
                            std::span<const std::uint8_t> left_out) {
    const auto is_in = [&](std::int64_t row) {
        return left_out.empty() || left_out[static_cast<std::size_t>(row)] == 0;
    };
    RowsOfLabels out;
    out.offsets.assign(static_cast<std::size_t>(num_labels) + 1, 0);
    for (std::int64_t row = 0; row < labels.size(); ++row) {
        if (!is_in(row)) continue;
        if (labels.of(row).empty()) out.unlabelled.push_back(static_cast<std::int32_t>(row));
        for (const std::uint32_t label : labels.of(row)) ++out.offsets[label + 1];
    }
    for (std::size_t l = 0; l < static_cast<std::size_t>(num_labels); ++l)
        out.offsets[l + 1] += out.offsets[l];
    out.rows.resize(static_cast<std::size_t>(out.offsets.back()));
    std::vector<std::int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
    for (std::int64_t row = 0; row < labels.size(); ++row)
        if (is_in(row))
            for (const std::uint32_t label : labels.of(row))
                out.rows[static_cast<std::size_t>(next[label]++)] = static_cast<std::int32_t>(row);
    return out;
}

}  // namespace elmo
