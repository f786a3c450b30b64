// Rows of a matrix that is made piece by piece over hours and read mapped: text vectors, refined head rows.
//
// FOLDER/NAME-<first row>.safetensors, each with one tensor "rows", appears complete or not at all; its
// metadata identify the rows and carry a checksum. After a kill the rows written so far are found again, and
// work continues after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "tensor/view.h"

namespace elmo {

class RowStore {
  public:
    static constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;  // a good size of append()

    // A matrix [rows, cols]. Opens the existing pieces and checks every byte of them. DataError names the
    // file and the problem: a damaged piece, another shape, or rows that do not belong to `identity`.
    RowStore(std::filesystem::path folder, std::string name, DType dtype, std::int64_t rows,
             std::int64_t cols, std::string identity);

    DType dtype() const { return dtype_; }
    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }
    std::int64_t row_bytes() const { return cols_ * size_of(dtype_); }
    // Rows [0, rows_done()) exist.
    std::int64_t rows_done() const { return done_; }
    bool complete() const { return done_ == rows_; }

    // The next rows, complete ones. They are on disk when it returns.
    void append(std::span<const std::byte> bytes);
    // Row i and those behind it in its piece.
    std::span<const std::byte> rows_from(std::int64_t i) const;
    // Touched pages leave memory (not the page cache): call it from time to time when reading much.
    void release_pages() const;

  private:
    struct Piece {
        std::int64_t first_row = 0;
        SafeTensors file;
        std::span<const std::byte> bytes;
    };
    std::filesystem::path path_of(std::int64_t first_row) const;
    // The piece that begins at done_, where there is one.
    bool open_next(bool check);

    std::filesystem::path folder_;
    std::string name_;
    DType dtype_;
    std::int64_t rows_, cols_;
    std::string identity_;
    std::vector<Piece> pieces_;
    std::int64_t done_ = 0;
};

}  // namespace elmo
