// The files of a head: safetensors shards of whole rows, written, checked and walked. head.h says what they
// hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "io/input_folder.h"
#include "model/head/head.h"

namespace elmo {

// The tensors of a shard.
inline constexpr const char* kWeight = "weight";
inline constexpr const char* kRowExponents = "row_exponents";

struct Shard {
    SafeTensors file;
    HeadFormat format;
    std::int64_t first_row, rows, width;
    const std::byte* data;
    const std::byte* exponents;  // of the rows; null where the format has none
};

// All shards of the head in a folder, in order. DataError where they are not whole or not of one save.
std::vector<Shard> open_shards(const InputFolder& folder);

// Even shards: their sizes differ by one row at most. write_rows(writer, first, last) fills each.
using WriteRows = std::function<void(SafeTensorsWriter& writer, std::int64_t first, std::int64_t last)>;
void write_shards(const std::filesystem::path& folder, const HeadFormat& format, std::int64_t labels,
                  std::int64_t width, std::int64_t shard_bytes, const WriteRows& write_rows);

// The same shards, where several ranks fill them: without a folder nothing is written, and the writer is
// null.
using FillRows = std::function<void(SafeTensorsWriter* writer, std::int64_t first, std::int64_t last)>;
void for_each_shard(const std::filesystem::path* folder, const HeadFormat& format, std::int64_t labels,
                    std::int64_t width, std::int64_t shard_bytes, const FillRows& fill);

// Calls take(i, count, bytes, exponents) for runs of `rows` (ascending) that are contiguous in a shard:
// rows[i], rows[i + 1] ... rows[i + count - 1].
using TakeRun = std::function<void(std::int64_t i, std::int64_t count, const std::byte* bytes,
                                   const std::byte* exponents)>;
void for_each_run(const std::vector<Shard>& shards, const InputFolder& folder,
                  std::span<const std::int64_t> rows, const TakeRun& take);

}  // namespace elmo
