// Rows of a matrix that is made piece by piece over hours and read mapped: text vectors, refined head rows.
//
// FOLDER/NAME-<first row>.safetensors, each with one tensor "rows", appears whole or not at all; its metadata
// say whose rows they are and carry a checksum. After a kill the rows written so far are found again: work
// goes on behind them.
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

    // A matrix [rows, cols]. Opens the pieces that are there, and checks every byte of them: DataError names
    // the file and what is wrong: a damaged piece, another shape, or rows of something else than `identity`.
    RowStore(std::filesystem::path folder, std::string name, DType dtype, std::int64_t rows,
             std::int64_t cols, std::string identity);

    DType dtype() const { return dtype_; }
    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }
    std::int64_t row_bytes() const { return cols_ * size_of(dtype_); }
    // Rows [0, rows_done()) are there.
    std::int64_t rows_done() const { return done_; }
    bool complete() const { return done_ == rows_; }

    // The next rows: whole ones. On the disk when it returns.
    void append(std::span<const std::byte> bytes);
    // Row i and those behind it in its piece.
    std::span<const std::byte> rows_from(std::int64_t i) const;
    // Touched pages leave memory (not the disk's cache): who reads much calls it now and then.
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
