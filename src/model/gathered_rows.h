// Rows of a tensor that lie on all ranks, one rank's after another's: the first rank writes them to a file in
// pieces, so that no rank ever holds more than its own and a piece.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "formats/safetensors_writer.h"
#include "ranks/collectives.h"

namespace elmo {

class GatheredRows {
  public:
    // A collective: every rank gives the rows that it has, perhaps none.
    GatheredRows(Ranks& ranks, Backend& backend, View mine);

    std::int64_t rows() const { return first_.back(); }  // of all ranks
    // Rows [first, last) of all, appended to the tensor: a collective. The writer is the first rank's; others
    // give null.
    void write(SafeTensorsWriter* writer, std::string_view tensor, std::int64_t first,
               std::int64_t last) const;

  private:
    Ranks& ranks_;
    Backend& backend_;
    View mine_;
    std::int64_t row_bytes_ = 0;
    std::vector<std::int64_t> first_;  // of each rank's rows, and the end
};

}  // namespace elmo
