// The head's three products on Hopper's warpgroup instructions, for widths up to 1536 and any batch, W in
// BF16 or 8 bits, also with an exponent per row; rows of W begin at multiples of 16 bytes. The same sums and
// roundings as tiles.cuh, in tiles of 64 labels. Here: what the kernels share, and how they are fed; the
// kernels are in gradient.cuh, input.cuh, update.cuh and joined.cuh, that of ranking in rank.cuh.
//
// Scratch is kept in the blocks that the instructions read (ptx/warpgroup.cuh), so copies are plain. x has
// zeros in the columns between its width and the padded width, and kernels take zeros for those of W:
//   x_logit   [batch tile of 128][block of 64 columns][128 texts][128 bytes]; columns of a block are permuted
//             so that 16 bytes of W that a thread loads are its factors of consecutive products. Of E4M3
//             weights: E4M3 codes, in blocks of 128 columns, in their order
//   x_update  [block of 64 columns][padded batch][128 bytes]; columns are permuted so that a thread's sums
//   are
//             those of 16 neighbours (8 of BF16 weights): one load, one store of 16 bytes
//   g         [tile of 64 labels][block of 64 texts][64 labels][128 bytes]; times the row's factor f where
//             rows have exponents: dx is then the product with plain codes, and a row's update in units of
//             its codes is that of g / f^2. Powers of two change no digit
//
// A kernel starts while the previous one ends, and waits for it before it touches what that one reads or
// writes: g, dx, and W when it is written.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/storage.cuh"
#include "backend/cuda/ptx/async.cuh"
#include "backend/cuda/ptx/warp.cuh"
#include "backend/cuda/ptx/warpgroup.cuh"

namespace elmo::cuda::hopper {

constexpr int kGroupThreads = 128;  // of a warpgroup
constexpr int kLogitGroups = 3, kInputGroups = 4, kUpdateGroups = 4;
constexpr int kRows = 64;                    // labels of a tile
constexpr int kTextBlockBytes = 128 * 128;   // 128 texts of a block of columns
constexpr int kGradientBytes = kRows * 128;  // 64 labels by 64 texts of g
constexpr int kAlign = 1024;                 // of blocks; shared memory includes this as slack

// The exponent of a label's row as it is stored, loaded before it is wanted; any beyond the last label.
template <class S>
__device__ __forceinline__ std::uint8_t stored_exponent(const HeadArgs& a, std::int64_t label) {
    return kRowCodes<S> && label < a.labels ? a.row_exponents[label] : encode_row_exponent(0);
}

// ---- staging --------------------------------------------------------------------------------------------
// The column of a block of 64 that place `place` of x_logit takes: of each 16 bytes of a row of W that thread
// q of four loads, four codes (or numbers) are factors 2q, 2q + 1, 2q + 8 and 2q + 9 of a product: the codes'
// bytes 0, 2, 1, 3, as they are decoded.
__device__ __forceinline__ int logit_column(int place, bool codes) {
    const int s = place / 16, q = place % 8 / 2, upper = place % 16 / 8, second = place % 2;
    return codes ? 16 * q + 4 * s + upper + 2 * second : s / 2 * 32 + 8 * q + s % 2 * 4 + 2 * upper + second;
}
// Weights of a row in 16 bytes: the piece of it that a thread updates at a time. Wider pieces ask less of L2,
// which serves a number of requests, not of bytes.
constexpr int piece_columns(bool codes) {
    return codes ? 16 : 8;
}
// The column of a block of 64 that place `place` of x_update takes: thread q gets places 8j + 2q and the
// next, the columns of pieces q, q + 4, ...
__device__ __forceinline__ int update_column(int place, bool codes) {
    const int piece = piece_columns(codes), four = 4 * piece, here = place % four;
    return place / four * four + here % 8 / 2 * piece + here / 8 * 2 + here % 2;
}

// `of_codes`: logits are products of E4M3 codes. Weights on E4M3's grid in BF16 see x rounded to E4M3 too.
template <class In>
__global__ void stage_kernel(const In* x, HeadArgs a, bool to_e4m3, bool of_codes, bool codes, bf16* update,
                             void* logit) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= a.padded_batch * a.padded_width) return;
    const std::int64_t b = i / a.padded_width, d = i % a.padded_width, block = d / kBlock;
    const int place = static_cast<int>(d % kBlock);
    const auto value = [&](std::int64_t column) {
        return b < a.batch && column < a.width ? load_float(x, b * a.width + column) : 0.0f;
    };
    const auto seen = [&](std::int64_t column) {
        return to_e4m3 ? nearest_e4m3(value(column)) : value(column);
    };
    const int row = static_cast<int>(b % kBatchTile);
    if (of_codes) {
        const int code_place = static_cast<int>(d % 128);
        static_cast<std::uint8_t*>(
            logit)[(b / kBatchTile * (a.padded_width / 128) + d / 128) * kTextBlockBytes +
                   block_offset(row, code_place / 16) + code_place % 16] =
            __nv_cvt_float_to_fp8(seen(d), __NV_SATFINITE, __NV_E4M3);
    } else {
        static_cast<bf16*>(
            logit)[(b / kBatchTile * (a.padded_width / kBlock) + block) * (kTextBlockBytes / 2) +
                   block_offset(row, place / 8) / 2 + place % 8] =
            __float2bfloat16_rn(seen(block * kBlock + logit_column(place, codes)));
    }
    if (update == nullptr) return;
    const std::int64_t column = block * kBlock + update_column(place, codes);
    update[(block * a.padded_batch + b) * kBlock + (((place / 8) ^ (row & 7)) * 8) + place % 8] =
        __float2bfloat16_rn(value(column));
}

// Where a thread stands in its warpgroup: rows 16 warp + 8 h + g, columns 8 j + 2 q + c of its sums.
struct Thread {
    int group, warp, lane, g, q;
    __device__ Thread()
        // From one lane: the compiler then knows that it is uniform in a warp.
        : group(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kGroupThreads, 0)),
          warp(threadIdx.x / 32 % 4),
          lane(threadIdx.x % 32),
          g(lane / 4),
          q(lane % 4) {}
};

__device__ __forceinline__ std::uint32_t aligned_base(const unsigned char* shared) {
    return (shared_address(shared) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace elmo::cuda::hopper
