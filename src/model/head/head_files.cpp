// The head's shards: writing, checking, loading and mapping them, whole or by rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "model/head/head.h"
#include "model/tensor_transfer.h"
#include "numerics/minifloat.h"
#include "numerics/packed_codes.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTensor = "weight";
constexpr const char* kExponents = "row_exponents";
constexpr std::int64_t kAssignedRows = 4096;  // encoded at once
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

struct Shard {
    SafeTensors file;
    HeadFormat format;
    std::int64_t first_row, rows, width;
    const std::byte* data;
    const std::byte* exponents;  // of the rows; null where the format has none
};

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
                file.file(), kTensor, precision_of(format), format.grid.bits(), kCodeGroup,
                tensor.shape_text()));
        return format;
    }
    const auto dtype = dtype_from_safetensors(tensor.dtype);
    if (dtype != DType::kF32 && dtype != DType::kBf16 && dtype != DType::kE4M3 && dtype != DType::kF64)
        throw DataError(fmt::format("{}: tensor '{}': expected F32, BF16, F8_E4M3 or U8, found {}",
                                    file.file(), kTensor, quoted(tensor.dtype)));
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
    const TensorInfo& tensor = file.at(kExponents);
    if (tensor.dtype != "U8" || tensor.num_elements() != rows)
        throw DataError(fmt::format("{}: tensor '{}': expected {} elements of U8, found {} of {}",
                                    file.file(), kExponents, rows, tensor.num_elements(),
                                    quoted(tensor.dtype)));
    for (std::int64_t i = 0; i < rows; ++i) {
        const int exponent =
            decode_row_exponent(static_cast<std::uint8_t>(tensor.data[static_cast<std::size_t>(i)]));
        if (exponent < -kRowExponentLimit || exponent > kRowExponentLimit)
            throw DataError(
                fmt::format("{}: tensor '{}': expected exponents from -{} to {}, found {} at row {}",
                            file.file(), kExponents, kRowExponentLimit, kRowExponentLimit, exponent, i));
    }
    return tensor.data.data();
}

std::vector<Shard> open_shards(const InputFolder& folder) {
    const std::int64_t count = count_shards(folder);
    std::vector<Shard> shards;
    std::int64_t next_row = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        SafeTensors file = SafeTensors::open(folder.map(shard_name(i, count)));
        const TensorInfo& tensor = file.at(kTensor);
        if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1)
            throw DataError(fmt::format("{}: tensor '{}': expected shape [labels, width], found {}",
                                        file.file(), kTensor, tensor.shape_text()));
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

// Even shards: their sizes differ by one row at most. write_rows(writer, first, last) fills each.
template <class WriteRows>
void write_shards(const fs::path& folder, const HeadFormat& format, std::int64_t labels, std::int64_t width,
                  std::int64_t shard_bytes, const WriteRows& write_rows) {
    const std::int64_t most = std::max<std::int64_t>(shard_bytes / format.row_bytes(width), 1);
    const std::int64_t count = (labels + most - 1) / most;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t first = labels * i / count, last = labels * (i + 1) / count;
        Metadata metadata = format_metadata(format);
        metadata["first_row"] = std::to_string(first);
        metadata["labels"] = std::to_string(labels);
        std::vector<TensorSpec> tensors = {{kTensor,
                                            std::string(safetensors_dtype(format.dtype)),
                                            {last - first, format.stored_columns(width)}}};
        if (format.grid.row_scaled) tensors.push_back({kExponents, "U8", {last - first}});
        SafeTensorsWriter writer(folder / shard_name(i, count), tensors, metadata);
        write_rows(writer, first, last);
        writer.commit();
    }
}

// Calls take(i, count, bytes, exponents) for runs of `rows` (ascending) that are contiguous in a shard:
// rows[i], rows[i + 1] ... rows[i + count - 1].
template <class Take>
void for_each_run(const std::vector<Shard>& shards, const InputFolder& folder,
                  std::span<const std::int64_t> rows, const Take& take) {
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

float decode(DType dtype, const std::byte* bytes) {
    switch (dtype) {
        case DType::kF64: {
            double value;
            std::memcpy(&value, bytes, sizeof value);
            return static_cast<float>(value);
        }
        case DType::kF32: {
            float value;
            std::memcpy(&value, bytes, sizeof value);
            return value;
        }
        case DType::kBf16: {
            Bf16 value;
            std::memcpy(&value, bytes, sizeof value);
            return to_float(value);
        }
        case DType::kE4M3:
            return kE4M3.decode(static_cast<std::uint32_t>(*bytes));
        default:
            return kE3M4.decode(static_cast<std::uint32_t>(*bytes));
    }
}

void encode(DType dtype, float value, std::byte* bytes) {
    const auto put = [&](const auto& stored) { std::memcpy(bytes, &stored, sizeof stored); };
    if (dtype == DType::kF64)
        put(static_cast<double>(value));
    else if (dtype == DType::kF32)
        put(value);
    else if (dtype == DType::kBf16)
        put(to_bf16(value));
    else
        put(static_cast<std::uint8_t>(round_nearest(dtype == DType::kE4M3 ? kE4M3 : kE3M4, value)));
}

}  // namespace

void Head::save(const fs::path& folder, std::int64_t shard_bytes) const {
    const View w = pieces_.front().w;
    assert(mapped_.empty() && layout_.starts_at_0());
    write_shards(folder, format_, labels(), width_, shard_bytes,
                 [&](SafeTensorsWriter& writer, std::int64_t first, std::int64_t last) {
                     write_view(writer, kTensor, backend_, w.slice(first, last));
                     if (format_.grid.row_scaled)
                         write_view(writer, kExponents, backend_, row_exponents_.slice(first, last));
                 });
}

void Head::upload_rows(std::int64_t first, std::int64_t count, const std::byte* weights,
                       const std::byte* exponents) {
    backend_.upload(pieces_.front().w.slice(first, first + count), weights);
    if (format_.grid.row_scaled) backend_.upload(row_exponents_.slice(first, first + count), exponents);
}

void Head::load(const InputFolder& folder) {
    assert(mapped_.empty());
    const std::vector<Shard> shards = open_shards(folder);
    const std::int64_t found = shards.back().first_row + shards.back().rows;
    const bool whole = layout_.starts_at_0();
    if (!shards.back().format.same_numbers(format_) || shards.back().width != width_ ||
        (whole && found != labels())) {
        const auto labels_of = [&](std::int64_t count) {
            return whole ? fmt::format("{} labels, ", count) : std::string();
        };
        throw DataError(fmt::format("{}: expected a head of {}width {}, {}; found {}width {}, {}",
                                    folder.path().string(), labels_of(labels()), width_,
                                    precision_of(format_), labels_of(found), shards.back().width,
                                    precision_of(shards.back().format)));
    }
    if (whole) {
        for (const Shard& shard : shards)
            upload_rows(shard.first_row, shard.rows, shard.data, shard.exponents);
        return;
    }
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < labels(); ++row) rows.push_back(layout_.label(row));
    for_each_run(shards, folder, rows,
                 [&](std::int64_t i, std::int64_t count, const std::byte* bytes, const std::byte* exponents) {
                     upload_rows(i, count, bytes, exponents);
                 });
}

void Head::assign(std::span<const float> values_RD, std::int64_t first_row) {
    assert(mapped_.empty() && values_RD.size() % static_cast<std::size_t>(width_) == 0);
    const std::int64_t each = size_of(format_.dtype), row_bytes = format_.row_bytes(width_);
    const auto rows = static_cast<std::int64_t>(values_RD.size()) / width_;
    std::vector<std::byte> encoded, exponents;
    for (std::int64_t begin = 0; begin < rows; begin += kAssignedRows) {
        const std::int64_t count = std::min(rows - begin, kAssignedRows);
        encoded.assign(static_cast<std::size_t>(count * row_bytes), std::byte{});
        exponents.clear();
        for (std::int64_t r = 0; r < count; ++r) {
            const auto values = values_RD.subspan(static_cast<std::size_t>((begin + r) * width_),
                                                  static_cast<std::size_t>(width_));
            std::byte* const row = encoded.data() + r * row_bytes;
            float largest = 0;
            for (const float value : values) largest = std::max(largest, std::abs(value));
            const int exponent = format_.grid.row_scaled ? row_exponent_for(format_.grid, largest) : 0;
            const GridRow grid = format_.grid.used() ? grid_row(format_.grid, exponent) : GridRow{};
            for (std::int64_t d = 0; d < width_; ++d) {
                std::uint32_t saturated = 0;
                const float value = values[static_cast<std::size_t>(d)];
                const float rounded =
                    format_.grid.used() ? round_to_grid(grid, value, true, 0, saturated) : value;
                if (format_.dtype == DType::kU8)
                    put_code(reinterpret_cast<std::uint8_t*>(row), format_.grid.bits(), d,
                             encode_grid_code(grid, rounded));
                else
                    encode(format_.dtype, rounded, row + d * each);
            }
            exponents.push_back(static_cast<std::byte>(encode_row_exponent(exponent)));
        }
        upload_rows(first_row + begin, count, encoded.data(), exponents.data());
    }
}

HeadSpec stored_head(const InputFolder& folder) {
    const std::vector<Shard> shards = open_shards(folder);
    const Shard& last = shards.back();
    return {LabelLayout::range(0, last.first_row + last.rows), last.width, last.format, {}, true};
}

std::vector<float> read_head_rows(const InputFolder& folder, std::span<const std::int64_t> rows) {
    const std::vector<Shard> shards = open_shards(folder);
    const HeadFormat format = shards.front().format;
    const std::int64_t width = shards.front().width, bytes_each = size_of(format.dtype);
    std::vector<float> values(rows.size() * static_cast<std::size_t>(width));
    for_each_run(shards, folder, rows,
                 [&](std::int64_t i, std::int64_t count, const std::byte* bytes, const std::byte* exponents) {
                     const auto* codes = reinterpret_cast<const std::uint8_t*>(bytes);
                     for (std::int64_t j = 0; j < count * width; ++j) {
                         float& value = values[static_cast<std::size_t>(i * width + j)];
                         if (format.dtype != DType::kU8) {
                             value = decode(format.dtype, bytes + j * bytes_each);
                             continue;
                         }
                         const auto exponent = static_cast<std::uint8_t>(exponents[j / width]);
                         value = decode_grid_code(grid_row(format.grid, decode_row_exponent(exponent)),
                                                  code_at(codes + j / width * format.row_bytes(width),
                                                          format.grid.bits(), j % width));
                     }
                 });
    return values;
}

void rewrite_head(const InputFolder& from, std::span<const std::int64_t> kept, Backend& backend, View added,
                  View added_exponents, const fs::path& to, std::int64_t shard_bytes) {
    const std::vector<Shard> shards = open_shards(from);
    const HeadFormat format = shards.front().format;
    const std::int64_t width = shards.front().width, old = static_cast<std::int64_t>(kept.size());
    const std::int64_t more = added.empty() ? 0 : added.rows, row_bytes = format.row_bytes(width);
    const bool exponents = format.grid.row_scaled;
    assert(more == 0 || (added.dtype == format.dtype && added.cols == format.stored_columns(width)));
    assert(more == 0 || !exponents || added_exponents.rows == more);
    write_shards(
        to, format, old + more, width, shard_bytes,
        [&](SafeTensorsWriter& writer, std::int64_t first, std::int64_t last) {
            const std::int64_t begin = std::min(first, old), end = std::min(last, old);
            for_each_run(
                shards, from, kept.subspan(begin, end - begin),
                [&](std::int64_t, std::int64_t count, const std::byte* bytes, const std::byte* exponent) {
                    writer.write(kTensor, std::span(bytes, static_cast<std::size_t>(count * row_bytes)));
                    if (exponents)
                        writer.write(kExponents, std::span(exponent, static_cast<std::size_t>(count)));
                });
            if (last <= old) return;
            const std::int64_t first_new = std::max(first, old) - old;
            write_view(writer, kTensor, backend, added.slice(first_new, last - old));
            if (exponents)
                write_view(writer, kExponents, backend, added_exponents.slice(first_new, last - old));
        });
}

void write_head(const fs::path& folder, DType dtype, std::int64_t labels, std::int64_t width,
                const std::function<std::span<const std::byte>(std::int64_t row)>& rows_from,
                std::int64_t shard_bytes) {
    const std::int64_t row_bytes = width * size_of(dtype);
    write_shards(folder, dtype, labels, width, shard_bytes,
                 [&](SafeTensorsWriter& writer, std::int64_t first, std::int64_t last) {
                     while (first < last) {
                         auto bytes = rows_from(first);
                         bytes = bytes.first(
                             std::min(bytes.size(), static_cast<std::size_t>((last - first) * row_bytes)));
                         writer.write(kTensor, bytes);
                         first += static_cast<std::int64_t>(bytes.size()) / row_bytes;
                     }
                 });
}

Head Head::map(const InputFolder& folder, Backend& backend) {
    std::vector<Shard> shards = open_shards(folder);
    const Shard& last = shards.back();
    Head head({LabelLayout::range(0, last.first_row + last.rows), last.width, last.format}, backend);
    head.pieces_.clear();
    for (Shard& shard : shards) {
        const DType dtype = shard.format.dtype;
        if (reinterpret_cast<std::uintptr_t>(shard.data) % static_cast<std::uintptr_t>(size_of(dtype)) != 0)
            throw DataError(fmt::format("{}: tensor '{}' is not aligned to its elements: save the head again",
                                        shard.file.file(), kTensor));
        // Nothing writes through the view: a mapped head has no step.
        head.pieces_.push_back({shard.first_row,
                                {const_cast<std::byte*>(shard.data), dtype, shard.rows,
                                 shard.format.stored_columns(shard.width)}});
        if (shard.exponents != nullptr)
            head.pieces_.back().exponents = {const_cast<std::byte*>(shard.exponents), DType::kU8, shard.rows,
                                             1};
        head.mapped_.push_back(std::move(shard.file));
    }
    return head;
}

}  // namespace elmo
