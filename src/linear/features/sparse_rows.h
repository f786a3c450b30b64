// Rows of a sparse matrix, one after another: what texts are to the linear model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace elmo {

struct SparseRows {
    std::vector<std::int64_t> offsets = {0};  // [rows + 1]
    std::vector<std::int32_t> columns;        // ascending within a row
    std::vector<float> values;

    std::int64_t rows() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
    std::span<const std::int32_t> columns_of(std::int64_t row) const {
        return std::span(columns).subspan(at(row), at(row + 1) - at(row));
    }
    std::span<const float> values_of(std::int64_t row) const {
        return std::span(values).subspan(at(row), at(row + 1) - at(row));
    }

  private:
    std::size_t at(std::int64_t row) const {
        return static_cast<std::size_t>(offsets[static_cast<std::size_t>(row)]);
    }
};

}  // namespace elmo
