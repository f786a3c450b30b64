#include "formats/row_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "elmo/error.h"
#include "formats/safetensors_writer.h"
#include "io/checksum.h"
#include "io/links.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTensor = "rows";

}  // namespace

RowStore::RowStore(fs::path folder, std::string name, DType dtype, std::int64_t rows, std::int64_t cols,
                   std::string identity)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      dtype_(dtype),
      rows_(rows),
      cols_(cols),
      identity_(std::move(identity)) {
    assert(rows > 0 && cols > 0);
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw DataError(fmt::format("{}: cannot be created: {}", folder_.string(), error.message()));
    while (done_ < rows_ && open_next(true)) {
    }
}

fs::path RowStore::path_of(std::int64_t first_row) const {
    return folder_ / fmt::format("{}-{:012}.safetensors", name_, first_row);
}

bool RowStore::open_next(bool check) {
    std::error_code error;
    const fs::path path = path_of(done_);
    refuse_link(path);
    if (!fs::exists(path, error)) return false;
    const auto refuse = [&](const std::string& expected, const std::string& found) {
        throw DataError(fmt::format(
            "{}: expected {}, found {}; remove the file and what comes after it to make them again",
            path.string(), expected, found));
    };
    SafeTensors file = SafeTensors::open(path);
    const auto metadata = [&](const char* key) {
        const auto at = file.metadata().find(key);
        return at == file.metadata().end() ? std::string("nothing") : at->second;
    };
    if (metadata("identity") != identity_)
        refuse(fmt::format("rows of {}", identity_), fmt::format("rows of {}", metadata("identity")));
    const TensorInfo& tensor = file.at(kTensor);
    if (tensor.dtype != safetensors_dtype(dtype_) || tensor.shape.size() != 2 || tensor.shape[1] != cols_ ||
        tensor.shape[0] < 1 || tensor.shape[0] > rows_ - done_)
        refuse(fmt::format("{} of at most {} rows of {}", safetensors_dtype(dtype_), rows_ - done_, cols_),
               fmt::format("{} of shape {}", tensor.dtype, tensor.shape_text()));
    if (check) {
        file.mapping().advise(MappedFile::Access::kSequential);
        const std::string found = hash_text(hash64(tensor.data));
        if (found != metadata("xxh64"))
            refuse(fmt::format("checksum {}", metadata("xxh64")), fmt::format("{}: it is damaged", found));
        file.mapping().advise(MappedFile::Access::kDone);
    }
    file.mapping().advise(MappedFile::Access::kRandom);
    const auto bytes = tensor.data;
    const std::int64_t rows = tensor.shape[0];
    pieces_.push_back({done_, std::move(file), bytes});
    done_ += rows;
    return true;
}

void RowStore::append(std::span<const std::byte> bytes) {
    const auto count = static_cast<std::int64_t>(bytes.size()) / row_bytes();
    assert(count > 0 && count * row_bytes() == static_cast<std::int64_t>(bytes.size()));
    assert(count <= rows_ - done_);
    SafeTensorsWriter writer(path_of(done_),
                             {{kTensor, std::string(safetensors_dtype(dtype_)), {count, cols_}}},
                             {{"identity", identity_}, {"xxh64", hash_text(hash64(bytes))}});
    writer.write(kTensor, bytes);
    writer.commit();
    if (!open_next(false))
        throw DataError(fmt::format("{}: was written and is gone: something else works in this folder",
                                    path_of(done_).string()));
}

std::span<const std::byte> RowStore::rows_from(std::int64_t i) const {
    assert(0 <= i && i < done_);
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), i,
                                        [](std::int64_t row, const Piece& p) { return row < p.first_row; });
    const Piece& piece = *std::prev(after);
    return piece.bytes.subspan(static_cast<std::size_t>((i - piece.first_row) * row_bytes()));
}

void RowStore::release_pages() const {
    for (const Piece& piece : pieces_) piece.file.mapping().advise(MappedFile::Access::kDone);
}

}  // namespace elmo
