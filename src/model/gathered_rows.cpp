#include "model/gathered_rows.h"

#include <algorithm>

#include "model/tensor_transfer.h"

namespace elmo {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{32} << 20;

}  // namespace

GatheredRows::GatheredRows(Ranks& ranks, Backend& backend, View mine)
    : ranks_(ranks), backend_(backend), mine_(mine) {
    struct Shape {
        std::int64_t rows, row_bytes;
    };
    first_.push_back(0);
    for (const Shape& shape : gather_values(ranks, Shape{mine.rows, mine.cols * size_of(mine.dtype)})) {
        first_.push_back(first_.back() + shape.rows);
        row_bytes_ = std::max(row_bytes_, shape.row_bytes);
    }
}

void GatheredRows::write(SafeTensorsWriter* writer, std::string_view tensor, std::int64_t first,
                         std::int64_t last) const {
    const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(row_bytes_, 1));
    std::vector<std::byte> bytes;
    for (int r = 0; r < ranks_.size(); ++r) {
        const std::int64_t begin = std::max(first, first_[static_cast<std::size_t>(r)]);
        const std::int64_t end = std::min(last, first_[static_cast<std::size_t>(r) + 1]);
        for (std::int64_t row = begin; row < end; row += piece) {
            const std::int64_t count = std::min(piece, end - row);
            if (r == 0) {
                if (writer != nullptr) write_view(*writer, tensor, backend_, mine_.slice(row, row + count));
                continue;
            }
            if (ranks_.rank() != r && !ranks_.is_first()) continue;
            bytes.resize(static_cast<std::size_t>(count * row_bytes_));
            if (ranks_.is_first()) {
                const Ranks::Incoming message{r, bytes};
                ranks_.exchange({}, std::span(&message, 1));
                writer->write(tensor, std::span<const std::byte>(bytes));
            } else {
                const std::int64_t from = row - first_[static_cast<std::size_t>(r)];
                backend_.download(bytes.data(), mine_.slice(from, from + count));
                const Ranks::Outgoing message{0, bytes};
                ranks_.exchange(std::span(&message, 1), {});
            }
        }
    }
}

}  // namespace elmo
