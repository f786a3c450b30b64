#include "model/head/head_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "numerics/packed_codes.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Metadata = std::map<std::string, std::string>;

std::string shard_name(std::int64_t index, std::int64_t count) {
    return fmt::format("head-{:05}-of-{:05}.safetensors", index + 1, count);
}

Metadata format_metadata(const HeadFormat& format) {
    if (format.dtype == DType::kU8)
        return {{"format", precision_of(format)},
                {"exponent_bits", std::to_string(format.grid.exponent_bits)},
                {"mantissa_bits", std::to_string(format.grid.mantissa_bits)},
                {"bias", std::to_string(format.grid.bias)}};
    if (!format.same_numbers(format.dtype)) return {{"format", grid_name(format.grid)}};
    if (format.dtype == DType::kE3M4)
        return {{"format", "e3m4"}, {"exponent_bits", "3"}, {"mantissa_bits", "4"}, {"bias", "7"}};
    return {{"format", std::string(name_of(format.dtype))}};
}

// The number of shards according to the names in the folder.
std::int64_t count_shards(const InputFolder& folder) {
    std::int64_t count = 0;
    for (const std::string& name : folder.names()) {
        int index = 0, total = 0, used = 0;
        if (std::sscanf(name.c_str(), "head-%5d-of-%5d.safetensors%n", &index, &total, &used) != 2 ||
            used != static_cast<int>(name.size()) || total < 1)
            continue;
        if (count != 0 && count != total)
            throw DataError(
                fmt::format("{}: found head shards of two sets, of {} and of {} files: remove those that do "
                            "not belong",
                            folder.path().string(), count, total));
        count = total;
    }
    if (count == 0)
        throw DataError(
            fmt::format("{}: no head (head-00001-of-...safetensors) here", folder.path().string()));
    return count;
}

HeadFormat stored_format(const SafeTensors& file, const TensorInfo& tensor) {
    if (tensor.dtype == "U8") {
        const auto said = file.metadata().find("format");
        HeadFormat format = DType::kE3M4;
        for (const char* codes : {"e2m5", "e2m3", "e2m1"})
            if (said != file.metadata().end() && said->second == codes) format = head_format(codes);
        for (const auto& [key, value] : format_metadata(format)) {
            const auto found = file.metadata().find(key);
            if (found == file.metadata().end() || found->second != value)
                throw DataError(
                    fmt::format("{}: codes with metadata \"{}\": expected \"{}\", found {}", file.file(), key,
                                value, found == file.metadata().end() ? "nothing" : quoted(found->second)));
        }
        if (format.is_packed() && tensor.shape[1] % format.grid.bits() != 0)
            throw DataError(fmt::format(
                "{}: tensor '{}' of {}: expected rows of a multiple of {} bytes ({} weights each), found {}",
                file.file(), kWeight, precision_of(format), format.grid.bits(), kCodeGroup,
                tensor.shape_text()));
        return format;
    }
    const auto dtype = dtype_from_safetensors(tensor.dtype);
    if (dtype != DType::kF32 && dtype != DType::kBf16 && dtype != DType::kE4M3 && dtype != DType::kF64)
        throw DataError(fmt::format("{}: tensor '{}': expected F32, BF16, F8_E4M3 or U8, found {}",
                                    file.file(), kWeight, quoted(tensor.dtype)));
    HeadFormat format = *dtype;
    const auto name = file.metadata().find("format");
    if (name == file.metadata().end() || !is_grid_name(name->second)) return format;
    try {
        format = head_format(name->second);
    } catch (const ConfigError& error) {
        throw DataError(fmt::format("{}: metadata \"format\": {}", file.file(), error.what()));
    }
    if (format.dtype != *dtype)
        throw DataError(fmt::format("{}: weights of {}: expected {}, found {}", file.file(), name->second,
                                    name_of(format.dtype), name_of(*dtype)));
    return format;
}

// The rows' exponents, checked; null where the format has none.
const std::byte* stored_exponents(const SafeTensors& file, const HeadFormat& format, std::int64_t rows) {
    if (!format.grid.row_scaled) return nullptr;
    const TensorInfo& tensor = file.at(kRowExponents);
    if (tensor.dtype != "U8" || tensor.num_elements() != rows)
        throw DataError(fmt::format("{}: tensor '{}': expected {} elements of U8, found {} of {}",
                                    file.file(), kRowExponents, rows, tensor.num_elements(),
                                    quoted(tensor.dtype)));
    for (std::int64_t i = 0; i < rows; ++i) {
        const int exponent =
            decode_row_exponent(static_cast<std::uint8_t>(tensor.data[static_cast<std::size_t>(i)]));
        if (exponent < -kRowExponentLimit || exponent > kRowExponentLimit)
            throw DataError(
                fmt::format("{}: tensor '{}': expected exponents from -{} to {}, found {} at row {}",
                            file.file(), kRowExponents, kRowExponentLimit, kRowExponentLimit, exponent, i));
    }
    return tensor.data.data();
}

}  // namespace

std::vector<Shard> open_shards(const InputFolder& folder) {
    const std::int64_t count = count_shards(folder);
    std::vector<Shard> shards;
    std::int64_t next_row = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        SafeTensors file = SafeTensors::open(folder.map(shard_name(i, count)));
        const TensorInfo& tensor = file.at(kWeight);
        if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1)
            throw DataError(fmt::format("{}: tensor '{}': expected shape [labels, width], found {}",
                                        file.file(), kWeight, tensor.shape_text()));
        const auto first = file.metadata().find("first_row");
        if (first == file.metadata().end() || first->second != std::to_string(next_row))
            throw DataError(fmt::format(
                "{}: metadata \"first_row\": expected {}, found {}: are all shards of one save?", file.file(),
                next_row, first == file.metadata().end() ? "nothing" : quoted(first->second)));
        const HeadFormat format = stored_format(file, tensor);
        const std::int64_t rows = tensor.shape[0], width = format.is_packed()
                                                               ? format.grid.packed_width(tensor.shape[1])
                                                               : tensor.shape[1];
        const std::byte* data = tensor.data.data();
        if (!shards.empty() && (!shards.front().format.same_numbers(format) || shards.front().width != width))
            throw DataError(fmt::format(
                "{}: expected {} of width {} as in the first shard, found {} of width {}", file.file(),
                precision_of(shards.front().format), shards.front().width, precision_of(format), width));
        const std::byte* exponents = stored_exponents(file, format, rows);
        shards.push_back({std::move(file), format, next_row, rows, width, data, exponents});
        next_row += rows;
    }
    const auto labels = shards.back().file.metadata().find("labels");
    if (labels == shards.back().file.metadata().end() || labels->second != std::to_string(next_row))
        throw DataError(fmt::format(
            "{}: the shards hold {} labels, but metadata \"labels\" says {}", shards.back().file.file(),
            next_row, labels == shards.back().file.metadata().end() ? "nothing" : quoted(labels->second)));
    return shards;
}

void for_each_shard(const fs::path* folder, const HeadFormat& format, std::int64_t labels, std::int64_t width,
                    std::int64_t shard_bytes, const FillRows& fill) {
    const std::int64_t most = std::max<std::int64_t>(shard_bytes / format.row_bytes(width), 1);
    const std::int64_t count = (labels + most - 1) / most;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t first = labels * i / count, last = labels * (i + 1) / count;
        if (folder == nullptr) {
            fill(nullptr, first, last);
            continue;
        }
        Metadata metadata = format_metadata(format);
        metadata["first_row"] = std::to_string(first);
        metadata["labels"] = std::to_string(labels);
        std::vector<TensorSpec> tensors = {{kWeight,
                                            std::string(safetensors_dtype(format.dtype)),
                                            {last - first, format.stored_columns(width)}}};
        if (format.grid.row_scaled) tensors.push_back({kRowExponents, "U8", {last - first}});
        SafeTensorsWriter writer(*folder / shard_name(i, count), tensors, metadata);
        fill(&writer, first, last);
        writer.commit();
    }
}

void write_shards(const fs::path& folder, const HeadFormat& format, std::int64_t labels, std::int64_t width,
                  std::int64_t shard_bytes, const WriteRows& write_rows) {
    for_each_shard(&folder, format, labels, width, shard_bytes,
                   [&](SafeTensorsWriter* writer, std::int64_t first, std::int64_t last) {
                       write_rows(*writer, first, last);
                   });
}

void for_each_run(const std::vector<Shard>& shards, const InputFolder& folder,
                  std::span<const std::int64_t> rows, const TakeRun& take) {
    const std::int64_t stored = shards.back().first_row + shards.back().rows;
    if (!rows.empty() && (rows.front() < 0 || rows.back() >= stored))
        throw DataError(fmt::format("{}: expected rows of a head of {} labels, found row {}",
                                    folder.path().string(), stored,
                                    rows.front() < 0 ? rows.front() : rows.back()));
    const std::int64_t row_bytes = shards.front().format.row_bytes(shards.front().width);
    std::size_t shard = 0;
    for (std::size_t i = 0; i < rows.size();) {
        while (rows[i] >= shards[shard].first_row + shards[shard].rows) ++shard;
        const std::int64_t last = shards[shard].first_row + shards[shard].rows;
        std::size_t end = i + 1;
        while (end < rows.size() && rows[end] == rows[end - 1] + 1 && rows[end] < last) ++end;
        const std::int64_t row = rows[i] - shards[shard].first_row;
        const std::byte* exponents = shards[shard].exponents;
        take(static_cast<std::int64_t>(i), static_cast<std::int64_t>(end - i),
             shards[shard].data + row * row_bytes, exponents == nullptr ? nullptr : exponents + row);
        i = end;
    }
}

}  // namespace elmo
