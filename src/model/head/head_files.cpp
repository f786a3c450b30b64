// Saving, loading and mapping a head, whole or by rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text_util.h"
#include "elmo/error.h"
#include "model/gathered_rows.h"
#include "model/head/head.h"
#include "model/head/head_shards.h"
#include "model/tensor_transfer.h"
#include "numerics/minifloat.h"
#include "numerics/packed_codes.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kAssignedRows = 4096;                  // encoded at once
constexpr std::int64_t kLoadedBytes = std::int64_t{4} << 20;  // in memory twice at once

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
    assert(mapped_.empty() && layout_.starts_at_0() && !is_part_);
    write_shards(folder, format_, labels(), width_, shard_bytes,
                 [&](SafeTensorsWriter& writer, std::int64_t first, std::int64_t last) {
                     write_view(writer, kWeight, backend_, w.slice(first, last));
                     if (format_.grid.row_scaled)
                         write_view(writer, kRowExponents, backend_, row_exponents_.slice(first, last));
                 });
}

void Head::save_shared(const fs::path* folder, Ranks& ranks, std::int64_t shard_bytes) const {
    const GatheredRows weights(ranks, backend_, pieces_.front().w),
        exponents(ranks, backend_, row_exponents_);
    const auto write_rows = [&](SafeTensorsWriter* writer, std::int64_t first, std::int64_t last) {
        weights.write(writer, kWeight, first, last);
        if (format_.grid.row_scaled) exponents.write(writer, kRowExponents, first, last);
    };
    for_each_shard(folder, format_, weights.rows(), width_, shard_bytes, write_rows);
}

void Head::upload_rows(std::int64_t first, std::int64_t count, const std::byte* weights,
                       const std::byte* exponents) {
    backend_.upload(pieces_.front().w.slice(first, first + count), weights);
    if (format_.grid.row_scaled) backend_.upload(row_exponents_.slice(first, first + count), exponents);
}

void Head::load(const InputFolder& folder) {
    load(open_shards(folder), folder);
}

void Head::load(const std::vector<Shard>& shards, const InputFolder& folder) {
    assert(mapped_.empty());
    const std::int64_t found = shards.back().first_row + shards.back().rows;
    const bool whole = layout_.starts_at_0() && !is_part_;
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
    const std::int64_t row_bytes = format_.row_bytes(width_),
                       most = std::max<std::int64_t>(1, kLoadedBytes / std::max<std::int64_t>(1, row_bytes));
    const auto take = [&](std::int64_t first, std::int64_t count, const std::byte* bytes,
                          const std::byte* exponents) {
        for (std::int64_t i = 0; i < count; i += most) {
            const std::int64_t rows = std::min(most, count - i);
            const std::byte* const piece = bytes + i * row_bytes;
            upload_rows(first + i, rows, piece, exponents == nullptr ? nullptr : exponents + i);
            for (const Shard& shard : shards)
                shard.file.mapping().drop({piece, static_cast<std::size_t>(rows * row_bytes)});
        }
    };
    if (whole) {
        for (const Shard& shard : shards) take(shard.first_row, shard.rows, shard.data, shard.exponents);
        return;
    }
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < labels(); ++row) rows.push_back(layout_.label(row));
    for_each_run(shards, folder, rows, take);
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
                    writer.write(kWeight, std::span(bytes, static_cast<std::size_t>(count * row_bytes)));
                    if (exponents)
                        writer.write(kRowExponents, std::span(exponent, static_cast<std::size_t>(count)));
                });
            if (last <= old) return;
            const std::int64_t first_new = std::max(first, old) - old;
            write_view(writer, kWeight, backend, added.slice(first_new, last - old));
            if (exponents)
                write_view(writer, kRowExponents, backend, added_exponents.slice(first_new, last - old));
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
                         writer.write(kWeight, bytes);
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
                                        shard.file.file(), kWeight));
        // Nobody writes through the view: a mapped head has no step.
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
