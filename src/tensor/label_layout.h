// Maps the rows of a head in memory to labels: row r of W is label layout.label(r) of the run. A head of all
// labels is the range from 0; a part of it (a refined subset, later a rank's share) is another range;
// prediction among given labels has a list. Noise and ranking must not depend on the part, so they address
// labels; memory and kernels address rows.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

namespace elmo {

class LabelLayout {
  public:
    // Labels [first, last).
    static LabelLayout range(std::int64_t first, std::int64_t last) { return {first, last - first, {}}; }
    // Ascending labels, gathered from anywhere.
    static LabelLayout gathered(std::vector<std::int64_t> labels) {
        assert(std::is_sorted(labels.begin(), labels.end()));
        const auto rows = static_cast<std::int64_t>(labels.size());
        return {0, rows, std::move(labels)};
    }

    std::int64_t rows() const { return rows_; }
    bool is_range() const { return labels_.empty(); }
    // Whether rows are labels under the same numbers: a head of all labels.
    bool starts_at_0() const { return is_range() && first_ == 0; }
    std::int64_t label(std::int64_t row) const {
        return is_range() ? first_ + row : labels_[static_cast<std::size_t>(row)];
    }
    // The row of a label, or -1 if it is not here.
    std::int64_t row(std::int64_t label) const {
        if (is_range()) return label >= first_ && label < first_ + rows_ ? label - first_ : -1;
        const auto at = std::lower_bound(labels_.begin(), labels_.end(), label);
        return at != labels_.end() && *at == label ? at - labels_.begin() : -1;
    }

  private:
    LabelLayout(std::int64_t first, std::int64_t rows, std::vector<std::int64_t> labels)
        : first_(first), rows_(rows), labels_(std::move(labels)) {}

    std::int64_t first_, rows_;
    std::vector<std::int64_t> labels_;  // empty: a range
};

}  // namespace elmo
