// How the head's work is divided: into tiles of labels and of texts, and dx into slices. Plain numbers for
// the host, so a plan needs no card.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/view.h"

namespace elmo::cuda {

inline constexpr int kLabelTile = 128;  // labels of one tile: chunks are cut between tiles
inline constexpr int kBatchTile = 128;
inline constexpr int kMostSlices = 64;

inline constexpr std::int64_t tiles_of(std::int64_t labels) {
    return (labels + kLabelTile - 1) / kLabelTile;
}

// Slices of dx for kernels of any card: enough that every multiprocessor of a large one has a block or two.
inline constexpr std::int64_t slices_for(std::int64_t labels, std::int64_t padded_batch, std::int64_t width) {
    const std::int64_t blocks = (padded_batch / kBatchTile) * ((width + 127) / 128);
    const std::int64_t tiles = std::max<std::int64_t>(tiles_of(labels), 1);
    return std::clamp<std::int64_t>(200 / blocks, 1, std::min<std::int64_t>(tiles, kMostSlices));
}

}  // namespace elmo::cuda

namespace elmo::cuda::hopper {

inline constexpr int kBlock = 64;        // columns of a block
inline constexpr int kWidest = 1536;     // x of 64 texts in shared memory
inline constexpr int kColumnTile = 128;  // x is padded to a multiple of it
inline constexpr int kJoinedGroups = 4, kJoinedColumns = kJoinedGroups * kBlock;

// Whether Hopper's kernels take the shape.
inline constexpr bool fits(std::int64_t width) {
    return width <= kWidest;
}
inline constexpr std::int64_t padded_width(std::int64_t width) {
    return (width + kColumnTile - 1) / kColumnTile * kColumnTile;
}
// Whether dx and the update of BF16 weights are one kernel. With one block of columns two kernels are faster.
inline constexpr bool joins(std::int64_t width, std::int64_t padded_batch) {
    return padded_batch == kBatchTile && width % kJoinedColumns == 0 && width > kJoinedColumns;
}
// Blocks of 64 texts that g has. One is enough for few texts, but the joined kernel has no such form.
inline constexpr std::int64_t gradient_blocks(DType storage, std::int64_t batch, std::int64_t padded_batch,
                                              std::int64_t width) {
    const bool joined = storage == DType::kBf16 && joins(width, padded_batch);
    return batch <= kBlock && !joined ? 1 : padded_batch / kBlock;
}
// Columns that a block of dx has. A block of 192 takes a third longer than one of 128.
inline constexpr std::int64_t input_columns(std::int64_t width) {
    return (width + 191) / 192 * 4 < (width + 127) / 128 * 3 ? 192 : 128;
}

// Slices of dx on Hopper. A block of these kernels fills a multiprocessor, so there are as many blocks as the
// card has multiprocessors, but never more than 132, which the large cards have (H100 SXM, H200): the sum
// order follows from the shape and min(multiprocessors, 132). A plan is made for 132 (kMultiprocessors) and
// so holds the slices of every card. Where one slice has many blocks, that rule could leave half of the card
// without work: then there are as many slices as fill 132 best, for any card.
inline constexpr int kMultiprocessors = 132, kManyBlocks = 24;
inline constexpr std::int64_t kSlicedTexts = 10240;  // of all slices; but four slices may always be
inline constexpr std::int64_t slices_for(DType storage, std::int64_t labels, std::int64_t padded_batch,
                                         std::int64_t width, int multiprocessors) {
    const std::int64_t columns =
        storage == DType::kBf16 && joins(width, padded_batch) ? kJoinedColumns : input_columns(width);
    const std::int64_t blocks =
        std::max<std::int64_t>(padded_batch / kBatchTile * ((width + columns - 1) / columns), 1);
    const std::int64_t tiles = std::max<std::int64_t>(tiles_of(labels), 1);
    std::int64_t slices = std::min(multiprocessors, kMultiprocessors) / blocks;
    if (blocks > kManyBlocks) {
        slices = 1;
        const auto turns = [&](std::int64_t n) {
            return (n * blocks + kMultiprocessors - 1) / kMultiprocessors;
        };
        for (std::int64_t n = 2; n <= std::max<std::int64_t>(kSlicedTexts / padded_batch, 4); ++n)
            if (turns(n) * slices < turns(slices) * n) slices = n;
    }
    return std::clamp<std::int64_t>(slices, 1, std::min<std::int64_t>(tiles, kMostSlices));
}

}  // namespace elmo::cuda::hopper
