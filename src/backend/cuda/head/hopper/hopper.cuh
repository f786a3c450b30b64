// The head's three products on Hopper's warpgroup instructions, for widths up to 1536 and any batch, W in
// BF16 or 8 bits, also with an exponent per row and then with 6 or 4 bits; rows of W are whole pieces
// (below). The same sums and roundings as tiles.cuh, in tiles of 64 labels. Here: what the kernels share, and
// how they are fed; the kernels are in gradient.cuh, input.cuh, update.cuh and joined.cuh, that of ranking in
// rank.cuh.
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

// ---- rows of W --------------------------------------------------------------------------------------------
template <class S>
__device__ __forceinline__ std::int64_t bytes_of_row(const HeadArgs& a) {
    return raws<S>(a.stride) * static_cast<std::int64_t>(sizeof(typename S::Raw));
}

// A piece of a row: 16 codes, or eight numbers, as they are loaded at once. Packed pieces begin at multiples
// of 8 bytes; of those of 12 bytes, every second one 4 bytes further. Those are the pieces of every second
// thread, which takes the first word by itself, the others the last.
template <class S>
constexpr int kPieceBytes = kBits<S> < 8 ? 2 * kBits<S> : 16;
__device__ __forceinline__ bool has_odd_pieces() {
    return threadIdx.x % 2 != 0;
}

// Starts to copy a piece to shared memory; zeros where it is not valid.
template <class S>
__device__ __forceinline__ void copy_piece(std::uint32_t to, const char* from, bool valid) {
    if constexpr (kPieceBytes<S> == 16) {
        copy16(to, from, valid);
    } else if constexpr (kPieceBytes<S> == 8) {
        copy8(to, from, valid);
    } else {
        copy8(to, has_odd_pieces() ? from + 4 : from, valid);
        copy4(to + 8, has_odd_pieces() ? from : from + 8, valid);
    }
}
// The words of a piece of 12 bytes in their order, from two and one, and back.
__device__ __forceinline__ uint4 in_order(const uint4& piece) {
    return has_odd_pieces() ? make_uint4(piece.z, piece.x, piece.y, 0) : piece;
}
__device__ __forceinline__ uint4 in_two_and_one(const uint4& piece) {
    return has_odd_pieces() ? make_uint4(piece.y, piece.z, piece.x, 0) : piece;
}

// The bytes of 16 codes from a piece, and back; others are as they are.
template <class S>
__device__ __forceinline__ uint4 unpacked(const uint4& piece) {
    if constexpr (kBits<S> == 4) {
        const auto two = [](std::uint32_t packed, std::uint32_t& first, std::uint32_t& second) {
            const std::uint32_t even = (packed << 4) & 0xf0f0f0f0u, odd = packed & 0xf0f0f0f0u;
            first = __byte_perm(even, odd, 0x5140);
            second = __byte_perm(even, odd, 0x7362);
        };
        uint4 codes;
        two(piece.x, codes.x, codes.y);
        two(piece.y, codes.z, codes.w);
        return codes;
    } else if constexpr (kBits<S> == 6) {
        // The lower 24 bits: first two codes in each half, then one in each byte.
        const auto four = [](std::uint32_t packed) {
            const std::uint32_t half = (packed & 0xffffu) | ((packed << 4) & 0xffff0000u);
            return (((half << 2) & 0x00ff00ffu) | ((half << 4) & 0xff00ff00u)) & 0xfcfcfcfcu;
        };
        const uint4 words = in_order(piece);
        return make_uint4(four(words.x), four(__byte_perm(words.x, words.y, 0x6543)),
                          four(__byte_perm(words.y, words.z, 0x5432)), four(words.z >> 8));
    } else {
        return piece;
    }
}
template <class S>
__device__ __forceinline__ uint4 packed(const uint4& codes) {
    if constexpr (kBits<S> == 4) {
        const auto eight = [](std::uint32_t first, std::uint32_t second) {
            return __byte_perm(first, second, 0x6420) >> 4 | __byte_perm(first, second, 0x7531);
        };
        return make_uint4(eight(codes.x, codes.y), eight(codes.z, codes.w), 0, 0);
    } else if constexpr (kBits<S> == 6) {
        const auto four = [](std::uint32_t code) {
            const std::uint32_t half = ((code >> 2) & 0x003f003fu) | ((code >> 4) & 0xffc0ffc0u);
            return (half & 0xfffu) | ((half >> 4) & 0xfffff000u);
        };
        const std::uint32_t a = four(codes.x), b = four(codes.y), c = four(codes.z), d = four(codes.w);
        return in_two_and_one(
            make_uint4(__byte_perm(a, b, 0x4210), __byte_perm(b, c, 0x5421), __byte_perm(c, d, 0x6542), 0));
    } else {
        return codes;
    }
}

// A piece from memory, unpacked, and back.
template <class S>
__device__ __forceinline__ uint4 load_piece(const void* from) {
    uint4 piece{};
    if constexpr (kPieceBytes<S> == 16) {
        piece = *static_cast<const uint4*>(from);
    } else {
        const auto* const words = static_cast<const std::uint32_t*>(from);
        const bool odd = kPieceBytes<S> == 12 && has_odd_pieces();
        const uint2 two = *reinterpret_cast<const uint2*>(odd ? words + 1 : words);
        piece.x = two.x, piece.y = two.y;
        if constexpr (kPieceBytes<S> == 12) piece.z = *(odd ? words : words + 2);
    }
    return unpacked<S>(piece);
}
template <class S>
__device__ __forceinline__ void store_piece(void* to, const uint4& codes) {
    const uint4 piece = packed<S>(codes);
    if constexpr (kPieceBytes<S> == 16) {
        *static_cast<uint4*>(to) = piece;
    } else {
        auto* const words = static_cast<std::uint32_t*>(to);
        const bool odd = kPieceBytes<S> == 12 && has_odd_pieces();
        *reinterpret_cast<uint2*>(odd ? words + 1 : words) = make_uint2(piece.x, piece.y);
        if constexpr (kPieceBytes<S> == 12) *(odd ? words : words + 2) = piece.z;
    }
}

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
