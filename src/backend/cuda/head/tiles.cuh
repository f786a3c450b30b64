// The head's three products on tensor cores, tiles of 128 x 128, for widths that are multiples of 64 and W in
// BF16 or 8 bits (decoded on chip to BF16, which holds every 8-bit weight exactly). Eight warps: four along
// the rows of a tile, two along its columns, 32 x 64 each.
#pragma once

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/chunk.h"
#include "backend/cuda/head/extras.cuh"
#include "backend/cuda/head/storage.cuh"
#include "backend/cuda/ptx/warp.cuh"

namespace elmo::cuda::tiles {

constexpr int kTile = 128, kStep = kTileStep, kStages = 3;  // kStep: extent of one stage along the sum

using Accumulator = float[2][8][4];  // [16 rows][8 columns] fragments of a warp

__device__ __forceinline__ void clear(Accumulator& acc) {
#pragma unroll
    for (auto& row : acc)
#pragma unroll
        for (auto& tile : row)
#pragma unroll
            for (float& x : tile) x = 0;
}

// body(mi, half, row in tile) and so on are spelled out where used: a thread's rows are
// warp_row + 16 mi + 8 half + g, its columns warp_column + 8 ni + 2q and the next.
struct Place {
    int lane, warp, g, q, warp_row, warp_column;
    __device__ Place()
        : lane(threadIdx.x % 32),
          warp(threadIdx.x / 32),
          g(lane / 4),
          q(lane % 4),
          warp_row(warp / 2 * 32),
          warp_column(warp % 2 * 64) {}
};

// Fragments of 16 x 16 at (row, k) of a tile stored [row][k] (rows of 128 bytes): also those of two n-tiles
// of a B operand stored [n][k], in the order b0, b0', b1, b1' below.
__device__ __forceinline__ void load_rows(std::uint32_t (&r)[4], std::uint32_t tile, int row, int k_piece,
                                          int lane) {
    load_matrices(r, tile + tile_offset<128>(row + lane % 16, k_piece + lane / 16));
}
// Fragments of an A operand stored [k][m] in rows of 256 bytes.
__device__ __forceinline__ void load_columns_a(std::uint32_t (&r)[4], std::uint32_t tile, int k, int m_piece,
                                               int lane) {
    load_matrices_transposed(
        r, tile + tile_offset<256>(k + lane % 8 + (lane / 16) * 8, m_piece + (lane / 8) % 2));
}
// Fragments of two n-tiles of a B operand stored [k][n] in rows of 256 bytes: b0, b1 of the first, of the
// second.
__device__ __forceinline__ void load_columns_b(std::uint32_t (&r)[4], std::uint32_t tile, int k, int n_piece,
                                               int lane) {
    load_matrices_transposed(r, tile + tile_offset<256>(k + lane % 16, n_piece + lane / 16));
}

// Copies Rows rows of RowBytes into a tile, repeatedly from different places: what a thread copies is
// computed once. Rows from `valid_rows` on become zeros, and so do pieces from `valid_bytes` on.
template <int RowBytes, int Rows>
struct Fetch {
    static constexpr int kPieces = RowBytes / 16, kAtOnce = kThreads / kPieces, kTimes = Rows / kAtOnce;
    static_assert(kAtOnce % 8 == 0 && Rows % kAtOnce == 0);  // the permutation of a row repeats after eight
    const char* from;
    std::int64_t stride;
    std::uint32_t to;
    int row;
    bool valid_piece;

    __device__ Fetch(const void* source, std::int64_t source_row_bytes, std::int64_t valid_bytes = RowBytes) {
        const int piece = threadIdx.x % kPieces;
        row = threadIdx.x / kPieces;
        from = static_cast<const char*>(source) + row * source_row_bytes + piece * 16;
        stride = kAtOnce * source_row_bytes;
        to = tile_offset<RowBytes>(row, piece);
        valid_piece = piece * 16 < valid_bytes;
    }
    __device__ __forceinline__ void operator()(std::uint32_t tile, std::int64_t offset,
                                               std::int64_t valid_rows = Rows) const {
#pragma unroll
        for (int i = 0; i < kTimes; ++i)
            copy16(tile + to + i * kAtOnce * RowBytes, from + offset + i * stride,
                   valid_piece && row + i * kAtOnce < valid_rows);
    }
};

// ---- logits ---------------------------------------------------------------------------------------------
// Bytes of a W row that one step takes.
template <class S>
constexpr int kWeightRowBytes = kStep* static_cast<int>(sizeof(typename S::Raw));
template <class S>
constexpr int kLogitStage = kTile* kWeightRowBytes<S> + kTile* kStep * 2;
// With dropout 8-bit weights are decoded to a separate tile.
template <class S, bool Drop = false>
constexpr int kLogitShared = kStages* kLogitStage<S> +
                             (Drop && sizeof(typename S::Raw) == 1 ? kTile * kStep * 2 : 0);

// z of labels [tile * 128, + 128) and texts [batch tile * 128, + 128). With 8-bit W, x_logit has each group
// of 16 columns permuted (stage_batch_kernel) so that the four codes a thread gets at once are its four
// factors; not so with dropout, where the tile is decoded before it is used.
template <class S, bool Drop = false>
__device__ __forceinline__ void logits(const HeadArgs& a, std::int64_t tile, std::int64_t batch_tile,
                                       unsigned char* shared, Accumulator& acc) {
    constexpr bool kCodes = sizeof(typename S::Raw) == 1 && !Drop;
    const Place at;
    const std::uint32_t base = shared_address(shared);
    const std::int64_t w_bytes = a.width * static_cast<std::int64_t>(sizeof(typename S::Raw)),
                       x_bytes = a.width * 2;
    const int steps = static_cast<int>(a.width / kStep);
    const std::int64_t valid = a.labels - tile * kTile;
    const Fetch<kWeightRowBytes<S>, kTile> fetch_w(static_cast<const char*>(a.w_LD) + tile * kTile * w_bytes,
                                                   w_bytes);
    const Fetch<128, kTile> fetch_x(static_cast<const char*>(a.x_logit) + batch_tile * kTile * x_bytes,
                                    x_bytes);
    const auto fetch_step = [&](int step) {
        const std::uint32_t stage = base + step % kStages * kLogitStage<S>;
        fetch_w(stage, step * kWeightRowBytes<S>, valid);
        fetch_x(stage + kTile * kWeightRowBytes<S>, step * 128);
    };
    clear(acc);
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) fetch_step(step);
        commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
        wait_copies<kStages - 2>();
        __syncthreads();  // this step's tiles have come, and all are done with the stage refilled next
        if (step + kStages - 1 < steps) fetch_step(step + kStages - 1);
        commit_copies();
        std::uint32_t wt = base + step % kStages * kLogitStage<S>;
        const std::uint32_t xt = wt + kTile * kWeightRowBytes<S>;
        if constexpr (Drop) {
            const std::uint32_t raw = wt;
            if constexpr (sizeof(typename S::Raw) == 1) wt = base + kLogitShared<S>;
            drop_tile<S, kTile, kStep>(a, shared + (raw - base), shared + (wt - base), tile * kTile,
                                       step * kStep);
            __syncthreads();  // the tile of dropped weights is whole
        }
        std::uint32_t codes[2][4];
#pragma unroll
        for (int k = 0; k < kStep / 16; ++k) {
            std::uint32_t fragment[2][4];
#pragma unroll
            for (int mi = 0; mi < 2; ++mi) {
                const int row = at.warp_row + 16 * mi;
                if constexpr (kCodes) {
                    // One load serves two steps of 16: rows g, g + 8 of the first 16 codes, then of the
                    // second.
                    if (k % 2 == 0)
                        load_matrices(codes[mi], wt + tile_offset<64>(row + at.lane % 16, k + at.lane / 16));
                    const int half = k % 2 * 2;
                    decode4<typename S::Format>(codes[mi][half], fragment[mi][0], fragment[mi][2]);
                    decode4<typename S::Format>(codes[mi][half + 1], fragment[mi][1], fragment[mi][3]);
                } else {
                    load_rows(fragment[mi], wt, row, 2 * k, at.lane);
                }
            }
#pragma unroll
            for (int ni = 0; ni < 8; ni += 2) {
                std::uint32_t b[4];
                load_rows(b, xt, at.warp_column + 8 * ni, 2 * k, at.lane);
#pragma unroll
                for (int mi = 0; mi < 2; ++mi) {
                    multiply_add(acc[mi][ni], fragment[mi], b[0], b[2]);
                    multiply_add(acc[mi][ni + 1], fragment[mi], b[1], b[3]);
                }
            }
        }
    }
    wait_copies<0>();
    if constexpr (kRowCodes<S> && !Drop)
#pragma unroll
        for (int mi = 0; mi < 2; ++mi)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float factor = row_factor(a, tile * kTile + at.warp_row + 16 * mi + 8 * half + at.g);
#pragma unroll
                for (int ni = 0; ni < 8; ++ni) {
                    acc[mi][ni][2 * half] *= factor;
                    acc[mi][ni][2 * half + 1] *= factor;
                }
            }
}

// g of the tile, and its part of the loss. Grid: (tiles of the chunk, batch tiles).
template <class S, bool WantLoss, bool Drop>
__global__ void __launch_bounds__(kThreads, 2) gradient_kernel(HeadArgs a) {
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ __align__(16) std::uint32_t mask[kTile][kTile / 32];
    __shared__ float weights[kTile];  // of the labels' positives
    __shared__ float losses[kThreads / 32];
    const Place at;
    const std::int64_t tile = a.first_tile + blockIdx.x, batch_tile = blockIdx.y;
    for (int i = threadIdx.x; i < kTile; i += kThreads) weights[i] = 1;
    for (int i = threadIdx.x; i < kTile * kTile / 32; i += kThreads)
        mask[i / (kTile / 32)][i % (kTile / 32)] = 0;
    Accumulator acc;
    logits<S, Drop>(a, tile, batch_tile, shared, acc);
    __syncthreads();  // the mask is clear, and all are done with the stages
    const std::int32_t first = a.tile_starts[tile], last = a.tile_starts[tile + 1];
    for (std::int32_t i = first + static_cast<std::int32_t>(threadIdx.x); i < last; i += kThreads) {
        const std::int64_t sample = a.positive_samples[i] - batch_tile * kTile;
        if (sample < 0 || sample >= kTile) continue;
        const std::int64_t row = a.positive_labels[i] - tile * kTile;
        atomicOr(&mask[row][sample / 32], 1u << (sample % 32));
        if (a.positive_weights != nullptr)
            weights[row] = a.positive_weights[i];  // all of a row write the same
    }
    __syncthreads();  // the mask is set
    // g of the warp's 32 x 64 as BF16, through shared memory so that whole rows are written: rows of 128
    // bytes, their pieces permuted against bank conflicts.
    unsigned char* mine = shared + at.warp * 32 * 128;
    const std::int64_t valid_labels = a.labels - tile * kTile, valid_texts = a.batch - batch_tile * kTile;
    float loss = 0;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.warp_row + 16 * mi + 8 * half + at.g;
            const bool is_label = row < valid_labels;
            const uint2 bits = *reinterpret_cast<const uint2*>(&mask[row][at.warp_column / 32]);
            const float row_weight = weights[row];
#pragma unroll
            for (int ni = 0; ni < 8; ++ni) {
                const int column = at.warp_column + 8 * ni + 2 * at.q;
                const std::uint32_t two = (ni < 4 ? bits.x : bits.y) >> (8 * (ni % 4) + 2 * at.q);
                float g[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const bool real = is_label && column + j < valid_texts;
                    const float z = acc[mi][ni][2 * half + j];
                    const bool positive = two >> j & 1;
                    const float weight = positive ? row_weight : 1.0f;
                    g[j] = real ? weight * logit_gradient(z, positive) : 0.0f;
                    if (WantLoss && real) loss += weight * logit_loss(z, positive);
                }
                *reinterpret_cast<std::uint32_t*>(mine + tile_offset<128>(16 * mi + 8 * half + at.g, ni) +
                                                  4 * at.q) = pack2(g[0], g[1]);
            }
        }
    __syncwarp();  // the warp's g is in shared memory
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = at.lane / 8 + 4 * i, piece = at.lane % 8;
        const uint4 eight = *reinterpret_cast<const uint4*>(mine + tile_offset<128>(row, piece));
        std::uint16_t* out = a.g_CB + ((tile - a.first_tile) * kTile + at.warp_row + row) * a.padded_batch +
                             batch_tile * kTile + at.warp_column + 8 * piece;
        *reinterpret_cast<uint4*>(out) = eight;
    }
    if constexpr (WantLoss) {
        const float sum = warp_sum(loss);
        if (at.lane == 0) losses[at.warp] = sum;
        __syncthreads();  // all warps' losses are in shared memory
        if (threadIdx.x == 0) {
            double total = 0;
            for (const float part : losses) total += part;
            a.losses[tile * gridDim.y + batch_tile] = total;
        }
    }
}

template <class S>
__global__ void __launch_bounds__(kThreads, 2) rank_kernel(HeadArgs a) {
    extern __shared__ __align__(128) unsigned char shared[];
    const Place at;
    const std::int64_t tile = a.first_tile + blockIdx.x, batch_tile = blockIdx.y;
    Accumulator acc;
    logits<S>(a, tile, batch_tile, shared, acc);
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
        for (int ni = 0; ni < 8; ++ni)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const std::int64_t label = tile * kTile + at.warp_row + 16 * mi + 8 * (i / 2) + at.g;
                const std::int64_t sample = batch_tile * kTile + at.warp_column + 8 * ni + 2 * at.q + i % 2;
                if (label < a.labels && sample < a.batch)
                    offer(a, sample, label, acc[mi][ni][i], a.thresholds[sample]);
            }
}

// ---- dx -------------------------------------------------------------------------------------------------
template <class S>
constexpr int kInputStage = kStep* kTile * 2 + kStep* kTile* static_cast<int>(sizeof(typename S::Raw));
template <class S>
constexpr int kInputShared = kStages* kInputStage<S> + (sizeof(typename S::Raw) == 1 ? kStep * kTile * 2 : 0);

// dx[texts of a batch tile, 128 columns] of the tiles of one slice (tile % slices == slice), continued from
// chunk to chunk. Grid: (column tiles, batch tiles, slices).
template <class S, bool Drop>
__global__ void __launch_bounds__(kThreads, 2) input_gradient_kernel(HeadArgs a) {
    constexpr bool kCodes = sizeof(typename S::Raw) == 1;
    constexpr int kRawRow = kTile * static_cast<int>(sizeof(typename S::Raw));
    extern __shared__ __align__(128) unsigned char shared[];
    const Place at;
    const std::uint32_t base = shared_address(shared), decoded = base + kStages * kInputStage<S>;
    const std::int64_t slice = blockIdx.z, batch_tile = blockIdx.y;
    const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
    const std::int64_t begin =
        a.first_tile + (slice - a.first_tile % a.num_slices + a.num_slices) % a.num_slices;
    if (begin >= a.last_tile) return;
    const int steps = static_cast<int>(((a.last_tile - 1 - begin) / a.num_slices + 1) * (kTile / kStep));
    const std::int64_t w_bytes = a.width * static_cast<std::int64_t>(sizeof(typename S::Raw)),
                       g_bytes = a.padded_batch * 2;
    const Fetch<256, kStep> fetch_g(a.g_CB + batch_tile * kTile, g_bytes);
    const Fetch<kRawRow, kStep> fetch_w(
        static_cast<const char*>(a.w_LD) + first_column * static_cast<std::int64_t>(sizeof(typename S::Raw)),
        w_bytes, (a.width - first_column) * static_cast<std::int64_t>(sizeof(typename S::Raw)));
    const auto fetch_step = [&](int step) {
        const std::uint32_t stage = base + step % kStages * kInputStage<S>;
        const std::int64_t tile = begin + step / (kTile / kStep) * a.num_slices;
        const std::int64_t label = tile * kTile + step % (kTile / kStep) * kStep;
        fetch_g(stage, (label - a.first_tile * kTile) * g_bytes);
        fetch_w(stage + kStep * kTile * 2, label * w_bytes, a.labels - label);
    };
    float* out = a.dx_slices + slice * a.batch * a.width;
    Accumulator acc;
    // body(x, row, column) for the accumulator's elements that are real.
    const auto for_each = [&](const auto& body) {
#pragma unroll
        for (int mi = 0; mi < 2; ++mi)
#pragma unroll
            for (int ni = 0; ni < 8; ++ni)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const std::int64_t row = batch_tile * kTile + at.warp_row + 16 * mi + 8 * (i / 2) + at.g;
                    const std::int64_t column = first_column + at.warp_column + 8 * ni + 2 * at.q + i % 2;
                    if (row < a.batch && column < a.width) body(acc[mi][ni][i], out[row * a.width + column]);
                }
    };
    clear(acc);
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) fetch_step(step);
        commit_copies();
    }
    if (begin >= a.num_slices) for_each([](float& x, float& stored) { x = stored; });
    for (int step = 0; step < steps; ++step) {
        wait_copies<kStages - 2>();
        __syncthreads();  // this step's tiles have come, and all are done with the stage refilled next
        if (step + kStages - 1 < steps) fetch_step(step + kStages - 1);
        commit_copies();
        const std::uint32_t gt = base + step % kStages * kInputStage<S>;
        std::uint32_t wt = gt + kStep * kTile * 2;
        if constexpr (Drop) {
            const std::uint32_t raw = wt;
            if constexpr (kCodes) wt = decoded;
            const std::int64_t label =
                (begin + step / (kTile / kStep) * a.num_slices) * kTile + step % (kTile / kStep) * kStep;
            drop_tile<S, kStep, kTile>(a, shared + (raw - base), shared + (wt - base), label, first_column);
            __syncthreads();  // the tile of dropped weights is whole
        } else if constexpr (kCodes) {
            // 64 rows of 8 pieces of 16 codes: two pieces per thread.
            const unsigned char* raw = shared + (wt - base);
            unsigned char* to = shared + (decoded - base);
            for (int i = threadIdx.x; i < kStep * 8; i += kThreads) {
                const int row = i / 8, piece = i % 8;
                const uint4 c = *reinterpret_cast<const uint4*>(raw + tile_offset<128>(row, piece));
                uint4 low, high;
                decode4<typename S::Format>(c.x, low.x, low.y);
                decode4<typename S::Format>(c.y, low.z, low.w);
                decode4<typename S::Format>(c.z, high.x, high.y);
                decode4<typename S::Format>(c.w, high.z, high.w);
                if constexpr (kRowCodes<S>) {
                    constexpr int kParts = kTile / kStep;
                    const std::int64_t tile = begin + step / kParts * a.num_slices;
                    const float factor = row_factor(a, tile * kTile + step % kParts * kStep + row);
                    scale_pairs(low, factor);
                    scale_pairs(high, factor);
                }
                *reinterpret_cast<uint4*>(to + tile_offset<256>(row, 2 * piece)) = low;
                *reinterpret_cast<uint4*>(to + tile_offset<256>(row, 2 * piece + 1)) = high;
            }
            wt = decoded;
            __syncthreads();  // the decoded tile is whole
        }
#pragma unroll
        for (int k = 0; k < kStep; k += 16) {
            std::uint32_t fragment[2][4];
#pragma unroll
            for (int mi = 0; mi < 2; ++mi)
                load_columns_a(fragment[mi], gt, k, at.warp_row / 8 + 2 * mi, at.lane);
#pragma unroll
            for (int ni = 0; ni < 8; ni += 2) {
                std::uint32_t b[4];
                load_columns_b(b, wt, k, at.warp_column / 8 + ni, at.lane);
#pragma unroll
                for (int mi = 0; mi < 2; ++mi) {
                    multiply_add(acc[mi][ni], fragment[mi], b[0], b[1]);
                    multiply_add(acc[mi][ni + 1], fragment[mi], b[2], b[3]);
                }
            }
        }
    }
    wait_copies<0>();
    for_each([](float& x, float& stored) { stored = x; });
}

// ---- update ---------------------------------------------------------------------------------------------
constexpr int kUpdateStage = kTile * kStep * 2 + kStep * kTile * 2, kUpdateStages = 2;
template <class S>
constexpr int kUpdateShared = kUpdateStages* kUpdateStage +
                              kTile* kTile* static_cast<int>(sizeof(typename S::Raw));

// W = SR(W keep - lr g X) of 128 labels and 128 columns. The tile of W comes to shared memory while the
// product runs. Grid: tiles of the chunk x column tiles, columns first.
template <class S, bool Extras>
__global__ void __launch_bounds__(kThreads, 2) update_kernel(HeadArgs a) {
    using Raw = typename S::Raw;
    constexpr int kRawRow = kTile * static_cast<int>(sizeof(Raw));
    extern __shared__ __align__(128) unsigned char shared[];
    const Place at;
    const std::uint32_t base = shared_address(shared);
    constexpr int kWeights = kUpdateStages * kUpdateStage;  // where the tile of W lies
    const std::int64_t columns = (a.width + kTile - 1) / kTile, chunk_tile = blockIdx.x / columns;
    const std::int64_t tile = a.first_tile + chunk_tile, first_column = blockIdx.x % columns * kTile;
    const int steps = static_cast<int>(a.padded_batch / kStep);
    auto* w = static_cast<Raw*>(a.w_LD);
    const Fetch<128, kTile> fetch_g(a.g_CB + chunk_tile * kTile * a.padded_batch, a.padded_batch * 2);
    const Fetch<256, kStep> fetch_x(static_cast<const char*>(a.x_update) + first_column * 2, a.width * 2,
                                    (a.width - first_column) * 2);
    const auto fetch_step = [&](int step) {
        const std::uint32_t stage = base + step % kUpdateStages * kUpdateStage;
        fetch_g(stage, step * kStep * 2);
        fetch_x(stage + kTile * kStep * 2, step * kStep * a.width * 2);
    };
    Accumulator acc;
    clear(acc);
    fetch_step(0);
    commit_copies();
    const Fetch<kRawRow, kTile> fetch_w(w + tile * kTile * a.width + first_column,
                                        a.width * static_cast<std::int64_t>(sizeof(Raw)),
                                        (a.width - first_column) * static_cast<std::int64_t>(sizeof(Raw)));
    fetch_w(base + kWeights, 0, a.labels - tile * kTile);
    for (int step = 0; step < steps; ++step) {
        if (step > 0) __syncthreads();  // all are done with the stage refilled now
        if (step + 1 < steps) fetch_step(step + 1);
        commit_copies();
        wait_copies<1>();
        __syncthreads();  // this step's tiles have come
        const std::uint32_t gt = base + step % kUpdateStages * kUpdateStage, xt = gt + kTile * kStep * 2;
#pragma unroll
        for (int k = 0; k < kStep; k += 16) {
            std::uint32_t fragment[2][4];
#pragma unroll
            for (int mi = 0; mi < 2; ++mi) load_rows(fragment[mi], gt, at.warp_row + 16 * mi, k / 8, at.lane);
#pragma unroll
            for (int ni = 0; ni < 8; ni += 2) {
                std::uint32_t b[4];
                load_columns_b(b, xt, k, at.warp_column / 8 + ni, at.lane);
#pragma unroll
                for (int mi = 0; mi < 2; ++mi) {
                    multiply_add(acc[mi][ni], fragment[mi], b[0], b[1]);
                    multiply_add(acc[mi][ni + 1], fragment[mi], b[2], b[3]);
                }
            }
        }
    }
    wait_copies<0>();
    __syncthreads();  // the tile of W has come, and all are done with the stages
    // The warp's 32 x 64 sums go through shared memory (rows of 256 bytes, pieces permuted against bank
    // conflicts), so that each thread takes eight neighbouring columns of a row: one block of noise, one
    // load, one store.
    unsigned char* mine = shared + at.warp * 32 * 256;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
        for (int ni = 0; ni < 8; ++ni)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *reinterpret_cast<float2*>(mine + (16 * mi + 8 * half + at.g) * 256 +
                                           (((2 * ni + at.q / 2) ^ (2 * at.g)) << 4) +
                                           at.q % 2 * 8) = {acc[mi][ni][2 * half], acc[mi][ni][2 * half + 1]};
    __syncwarp();  // the warp's sums are in shared memory
    std::uint32_t saturated = 0;
    const std::int64_t valid_labels = a.labels - tile * kTile;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int in_warp = i / 2 * 8 + at.g, row = at.warp_row + in_warp;
        const int eighth = at.q + i % 2 * 4;  // which eight columns of the warp's 64
        const int place = at.warp_column + 8 * eighth;
        if (row >= valid_labels || first_column + place >= a.width) continue;
        float u[8], v[8];
        load8(reinterpret_cast<const float*>(mine + in_warp * 256 + (((2 * eighth) ^ (2 * at.g)) << 4)), u);
        constexpr int kBytes = 8 * static_cast<int>(sizeof(Raw));  // of eight weights
        const int bytes = place / 8 * kBytes;
        S::load8(reinterpret_cast<const Raw*>(shared + kWeights + tile_offset<kRawRow>(row, bytes / 16) +
                                              bytes % 16),
                 v);
        const std::int64_t label = tile * kTile + row, column = first_column + place;
        if constexpr (Extras) {
            drop<8>(a.weight_dropout, a.first_label + label, column, u);
            if constexpr (kCompensates<S>)
                if (bf16* c = compensation_of(a, label)) {
                    float rest[8];
                    load8(c + column, rest);
                    as_they_are<S>(v);
                    scale_row<S>(a, label, v);
                    compensate<S, 8>(a, label, u, v, rest, saturated);
                    store8(c + column, rest);
                    store8_exact<S>(a, w + label * a.width + column, v, label);
                    continue;
                }
        }
        scale_row<S>(a, label, v);
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] = fmaf(-a.lr * S::kUnpacked, u[j], v[j] * a.keep);
        store_weights<S>(a, w + label * a.width + column, v, label, column, saturated);
    }
    if constexpr (kSaturates<S>) {
        const unsigned total = __reduce_add_sync(0xffffffffu, saturated);
        if (at.lane == 0 && total > 0)
            atomicAdd(&a.report->saturations, static_cast<unsigned long long>(total));
    }
}

}  // namespace elmo::cuda::tiles
