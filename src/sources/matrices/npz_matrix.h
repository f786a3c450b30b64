// A label matrix as scipy.sparse.save_npz writes it: a zip of NumPy arrays (indices, indptr, format, shape,
// data), compressed or not, numbers of any width. Rows are streamed; of the matrix only the row bounds are
// held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "formats/zip_file.h"
#include "sources/matrices/sparse_matrix.h"
#include "sources/records/record.h"

namespace elmo {

class NpzMatrix {
  public:
    // Reads format, shape and row bounds. DataError for anything but a sound CSR matrix.
    explicit NpzMatrix(const std::filesystem::path& file);

    std::int64_t rows() const { return header_.rows; }
    std::int64_t columns() const { return header_.columns; }

    // take(row) for every row in order, under the rules of the text form. Errors name the row, from 0.
    using Take = std::function<void(const SparseRow&)>;
    void read(const SparseRules& rules, ImportCounts& counts, const Take& take) const;

  private:
    [[noreturn]] void fail(std::string_view expected, std::string_view found) const;

    std::filesystem::path file_;
    ZipFile zip_;
    SparseHeader header_;
    std::vector<std::int64_t> bounds_;  // [rows + 1]
};

}  // namespace elmo
