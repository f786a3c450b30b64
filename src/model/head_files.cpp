// The head's shards: writing, checking, loading and mapping them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "model/head.h"
#include "model/tensor_transfer.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTensor = "weight";
using Metadata = std::map<std::string, std::string>;

fs::path shard_path(const fs::path& folder, std::int64_t index, std::int64_t count) {
    return folder / fmt::format("head-{:05}-of-{:05}.safetensors", index + 1, count);
}

Metadata format_metadata(DType dtype) {
    if (dtype == DType::kE3M4)
        return {{"format", "e3m4"}, {"exponent_bits", "3"}, {"mantissa_bits", "4"}, {"bias", "7"}};
    return {{"format", std::string(name_of(dtype))}};
}

// The number of shards that the names in the folder speak of.
std::int64_t count_shards(const fs::path& folder) {
    std::int64_t count = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        int index = 0, total = 0, used = 0;
        if (std::sscanf(name.c_str(), "head-%5d-of-%5d.safetensors%n", &index, &total, &used) != 2 ||
            used != static_cast<int>(name.size()) || total < 1)
            continue;
        if (count != 0 && count != total)
            throw DataError(
                fmt::format("{}: found head shards of two sets, of {} and of {} files: remove those that do "
                            "not belong",
                            folder.string(), count, total));
        count = total;
    }
    if (error)
        throw DataError(fmt::format("{}: cannot list the folder: {}", folder.string(), error.message()));
    if (count == 0)
        throw DataError(fmt::format("{}: no head (head-00001-of-...safetensors) here", folder.string()));
    return count;
}

struct Shard {
    SafeTensors file;
    DType dtype;
    std::int64_t first_row, rows, width;
    const std::byte* data;
};

DType stored_dtype(const SafeTensors& file, const TensorInfo& tensor) {
    if (tensor.dtype == "U8") {
        for (const auto& [key, value] : format_metadata(DType::kE3M4)) {
            const auto found = file.metadata().find(key);
            if (found == file.metadata().end() || found->second != value)
                throw DataError(fmt::format(
                    "{}: 8-bit codes with metadata \"{}\": expected \"{}\", found {}", file.file(), key,
                    value, found == file.metadata().end() ? "nothing" : quoted(found->second)));
        }
        return DType::kE3M4;
    }
    const auto dtype = dtype_from_safetensors(tensor.dtype);
    if (dtype != DType::kF32 && dtype != DType::kBf16 && dtype != DType::kE4M3 && dtype != DType::kF64)
        throw DataError(fmt::format("{}: tensor '{}': expected F32, BF16, F8_E4M3 or U8, found {}",
                                    file.file(), kTensor, quoted(tensor.dtype)));
    return *dtype;
}

std::vector<Shard> open_shards(const fs::path& folder) {
    const std::int64_t count = count_shards(folder);
    std::vector<Shard> shards;
    std::int64_t next_row = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        SafeTensors file = SafeTensors::open(shard_path(folder, i, count));
        const TensorInfo& tensor = file.at(kTensor);
        if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1)
            throw DataError(fmt::format("{}: tensor '{}': expected shape [labels, width], found {}",
                                        file.file(), kTensor, tensor.shape_text()));
        const auto first = file.metadata().find("first_row");
        if (first == file.metadata().end() || first->second != std::to_string(next_row))
            throw DataError(fmt::format(
                "{}: metadata \"first_row\": expected {}, found {}: are all shards of one save?", file.file(),
                next_row, first == file.metadata().end() ? "nothing" : quoted(first->second)));
        const DType dtype = stored_dtype(file, tensor);
        const std::int64_t rows = tensor.shape[0], width = tensor.shape[1];
        const std::byte* data = tensor.data.data();
        if (!shards.empty() && (shards.front().dtype != dtype || shards.front().width != width))
            throw DataError(fmt::format(
                "{}: expected {} of width {} as in the first shard, found {} of width {}", file.file(),
                name_of(shards.front().dtype), shards.front().width, name_of(dtype), width));
        shards.push_back({std::move(file), dtype, next_row, rows, width, data});
        next_row += rows;
    }
    const auto labels = shards.back().file.metadata().find("labels");
    if (labels == shards.back().file.metadata().end() || labels->second != std::to_string(next_row))
        throw DataError(fmt::format(
            "{}: the shards hold {} labels, but metadata \"labels\" says {}", shards.back().file.file(),
            next_row, labels == shards.back().file.metadata().end() ? "nothing" : quoted(labels->second)));
    return shards;
}

}  // namespace

void Head::save(const fs::path& folder, std::int64_t shard_bytes) const {
    const View w = pieces_.front().w;
    assert(mapped_.empty());
    const std::int64_t most = std::max<std::int64_t>(shard_bytes / (width_ * size_of(dtype_)), 1);
    const std::int64_t count = (labels_ + most - 1) / most;
    for (std::int64_t i = 0; i < count; ++i) {
        // Even shards: their sizes differ by one row at most.
        const std::int64_t first = labels_ * i / count, last = labels_ * (i + 1) / count;
        Metadata metadata = format_metadata(dtype_);
        metadata["first_row"] = std::to_string(first);
        metadata["labels"] = std::to_string(labels_);
        SafeTensorsWriter writer(shard_path(folder, i, count),
                                 {{kTensor, std::string(safetensors_dtype(dtype_)), {last - first, width_}}},
                                 metadata);
        write_view(writer, kTensor, backend_, w.slice(first, last));
        writer.commit();
    }
}

void Head::load(const fs::path& folder) {
    assert(mapped_.empty());
    const std::vector<Shard> shards = open_shards(folder);
    const std::int64_t found = shards.back().first_row + shards.back().rows;
    if (shards.back().dtype != dtype_ || shards.back().width != width_ || found != labels_)
        throw DataError(
            fmt::format("{}: expected a head of {} labels, width {}, {}; found {} labels, width {}, {}",
                        folder.string(), labels_, width_, precision_of(dtype_), found, shards.back().width,
                        precision_of(shards.back().dtype)));
    for (const Shard& shard : shards)
        backend_.upload(pieces_.front().w.slice(shard.first_row, shard.first_row + shard.rows), shard.data);
}

void Head::load_rows(const fs::path& folder, std::span<const std::int64_t> rows) {
    assert(mapped_.empty() && static_cast<std::int64_t>(rows.size()) == labels_);
    const std::vector<Shard> shards = open_shards(folder);
    const std::int64_t stored = shards.back().first_row + shards.back().rows;
    if (shards.back().dtype != dtype_ || shards.back().width != width_)
        throw DataError(fmt::format("{}: expected a head of width {}, {}; found width {}, {}",
                                    folder.string(), width_, precision_of(dtype_), shards.back().width,
                                    precision_of(shards.back().dtype)));
    if (!rows.empty() && (rows.front() < 0 || rows.back() >= stored))
        throw DataError(fmt::format("{}: expected rows of a head of {} labels, found row {}", folder.string(),
                                    stored, rows.front() < 0 ? rows.front() : rows.back()));
    const std::int64_t row_bytes = width_ * size_of(dtype_);
    std::size_t shard = 0;
    for (std::int64_t i = 0; i < labels_;) {
        while (rows[i] >= shards[shard].first_row + shards[shard].rows) ++shard;
        // Neighbours travel together.
        std::int64_t end = i + 1;
        while (end < labels_ && rows[end] == rows[end - 1] + 1 &&
               rows[end] < shards[shard].first_row + shards[shard].rows)
            ++end;
        backend_.upload(pieces_.front().w.slice(i, end),
                        shards[shard].data + (rows[i] - shards[shard].first_row) * row_bytes);
        i = end;
    }
}

Head Head::map(const fs::path& folder, Backend& backend) {
    std::vector<Shard> shards = open_shards(folder);
    const Shard& last = shards.back();
    Head head(last.first_row + last.rows, last.width, last.dtype, 1, backend);
    head.pieces_.clear();
    for (Shard& shard : shards) {
        if (reinterpret_cast<std::uintptr_t>(shard.data) %
                static_cast<std::uintptr_t>(size_of(shard.dtype)) !=
            0)
            throw DataError(fmt::format("{}: tensor '{}' is not aligned to its elements: save the head again",
                                        shard.file.file(), kTensor));
        // Nobody writes through the view: a mapped head has no step.
        head.pieces_.push_back(
            {shard.first_row, {const_cast<std::byte*>(shard.data), shard.dtype, shard.rows, shard.width}});
        head.mapped_.push_back(std::move(shard.file));
    }
    return head;
}

}  // namespace elmo
