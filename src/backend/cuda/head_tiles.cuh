// The head's three products on tensor cores, tiles of 128 x 128, for widths that are multiples of 64 and W in
// BF16 or 8 bits (decoded on chip to BF16, which holds every 8-bit weight exactly). Eight warps: four along
// the rows of a tile, two along its columns, 32 x 64 each.
#pragma once

#include "backend/cuda/head_storage.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/mma.cuh"

namespace elmo::cuda::tiles {

constexpr int kTile = 128, kStep = 64, kStages = 3;  // kStep: extent of one stage along the sum

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

// Starts the copy of `rows` rows of RowBytes into a tile; row r comes from source(r), which is null past the
// end.
template <int RowBytes, class Source>
__device__ __forceinline__ void fetch(std::uint32_t tile, int rows, const Source& source) {
    constexpr int kPieces = RowBytes / 16;
    for (int i = threadIdx.x; i < rows * kPieces; i += kThreads) {
        const int row = i / kPieces, piece = i % kPieces;
        const char* from = source(row, piece);
        copy_async(tile + tile_offset<RowBytes>(row, piece), from, from != nullptr);
    }
}

// ---- logits ---------------------------------------------------------------------------------------------
// Bytes of a W row that one step takes.
template <class S>
constexpr int kWeightRowBytes = kStep* static_cast<int>(sizeof(typename S::Raw));
template <class S>
constexpr int kLogitStage = kTile* kWeightRowBytes<S> + kTile* kStep * 2;
template <class S>
constexpr int kLogitShared = kStages* kLogitStage<S>;

// z of labels [tile * 128, + 128) and texts [batch tile * 128, + 128). With 8-bit W, x_logit has each group
// of 16 columns permuted (stage_batch_kernel) so that the four codes a thread gets at once are its four
// factors.
template <class S>
__device__ __forceinline__ void logits(const HeadArgs& a, std::int64_t tile, std::int64_t batch_tile,
                                       unsigned char* shared, Accumulator& acc) {
    constexpr bool kCodes = sizeof(typename S::Raw) == 1;
    const Place at;
    const std::uint32_t base = shared_address(shared);
    const auto* w = static_cast<const char*>(a.w_LD);
    const auto* x = static_cast<const char*>(a.x_logit);
    const std::int64_t w_bytes = a.width * static_cast<std::int64_t>(sizeof(typename S::Raw)),
                       x_bytes = a.width * 2;
    const int steps = static_cast<int>(a.width / kStep);
    const auto fetch_step = [&](int step) {
        const std::uint32_t stage = base + step % kStages * kLogitStage<S>;
        fetch<kWeightRowBytes<S>>(stage, kTile, [&](int row, int piece) -> const char* {
            const std::int64_t label = tile * kTile + row;
            return label < a.labels ? w + label * w_bytes + step * kWeightRowBytes<S> + piece * 16 : nullptr;
        });
        fetch<128>(stage + kTile * kWeightRowBytes<S>, kTile, [&](int row, int piece) -> const char* {
            return x + (batch_tile * kTile + row) * x_bytes + step * 128 + piece * 16;
        });
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
        const std::uint32_t wt = base + step % kStages * kLogitStage<S>, xt = wt + kTile * kWeightRowBytes<S>;
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
                    multiply(acc[mi][ni], fragment[mi], b[0], b[2]);
                    multiply(acc[mi][ni + 1], fragment[mi], b[1], b[3]);
                }
            }
        }
    }
    wait_copies<0>();
}

// g of the tile, and its part of the loss. Grid: (tiles of the chunk, batch tiles).
template <class S, bool WantLoss>
__global__ void __launch_bounds__(kThreads, 2) gradient_kernel(HeadArgs a) {
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ std::uint32_t mask[kTile][kTile / 32];
    __shared__ float losses[kThreads / 32];
    const Place at;
    const std::int64_t tile = a.first_tile + blockIdx.x, batch_tile = blockIdx.y;
    for (int i = threadIdx.x; i < kTile * kTile / 32; i += kThreads)
        mask[i / (kTile / 32)][i % (kTile / 32)] = 0;
    Accumulator acc;
    logits<S>(a, tile, batch_tile, shared, acc);
    __syncthreads();  // the mask is clear
    const std::int32_t first = a.tile_starts[tile], last = a.tile_starts[tile + 1];
    for (std::int32_t i = first + static_cast<std::int32_t>(threadIdx.x); i < last; i += kThreads) {
        const std::int64_t sample = a.positive_samples[i] - batch_tile * kTile;
        if (sample < 0 || sample >= kTile) continue;
        atomicOr(&mask[a.positive_labels[i] - tile * kTile][sample / 32], 1u << (sample % 32));
    }
    __syncthreads();  // the mask is set
    float loss = 0;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.warp_row + 16 * mi + 8 * half + at.g;
            const bool is_label = tile * kTile + row < a.labels;
            std::uint16_t* out =
                a.g_CB + ((tile - a.first_tile) * kTile + row) * a.padded_batch + batch_tile * kTile;
#pragma unroll
            for (int ni = 0; ni < 8; ++ni) {
                const int column = at.warp_column + 8 * ni + 2 * at.q;
                const std::uint32_t bits = mask[row][column / 32] >> (column % 32);
                float g[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const bool real = is_label && batch_tile * kTile + column + j < a.batch;
                    const float z = acc[mi][ni][2 * half + j];
                    const bool positive = bits >> j & 1;
                    g[j] = real ? logit_gradient(z, positive) : 0.0f;
                    if (WantLoss && real) loss += logit_loss(z, positive);
                }
                *reinterpret_cast<std::uint32_t*>(out + column) = pack2(g[0], g[1]);
            }
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
                if (label < a.labels && sample < a.batch) offer(a, sample, label, acc[mi][ni][i]);
            }
}

// ---- dx -------------------------------------------------------------------------------------------------
template <class S>
constexpr int kInputStage = kStep* kTile * 2 + kStep* kTile* static_cast<int>(sizeof(typename S::Raw));
template <class S>
constexpr int kInputShared = kStages* kInputStage<S> + (sizeof(typename S::Raw) == 1 ? kStep * kTile * 2 : 0);

// dx[texts of a batch tile, 128 columns] of the tiles of one slice (tile % slices == slice), continued from
// chunk to chunk. Grid: (column tiles, batch tiles, slices).
template <class S>
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
    const auto* w = static_cast<const char*>(a.w_LD);
    const auto fetch_step = [&](int step) {
        const std::uint32_t stage = base + step % kStages * kInputStage<S>;
        const std::int64_t tile = begin + step / (kTile / kStep) * a.num_slices;
        const std::int64_t label = tile * kTile + step % (kTile / kStep) * kStep;
        fetch<256>(stage, kStep, [&](int row, int piece) -> const char* {
            return reinterpret_cast<const char*>(
                       a.g_CB + (label - a.first_tile * kTile + row) * a.padded_batch + batch_tile * kTile) +
                   piece * 16;
        });
        fetch<kRawRow>(stage + kStep * kTile * 2, kStep, [&](int row, int piece) -> const char* {
            constexpr int kPieceColumns = 16 / static_cast<int>(sizeof(typename S::Raw));
            const std::int64_t column = first_column + piece * kPieceColumns;
            if (label + row >= a.labels || column >= a.width) return nullptr;
            return w +
                   ((label + row) * a.width + column) * static_cast<std::int64_t>(sizeof(typename S::Raw));
        });
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
        if constexpr (kCodes) {
            // 64 rows of 8 pieces of 16 codes: two pieces a thread.
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
                    multiply(acc[mi][ni], fragment[mi], b[0], b[1]);
                    multiply(acc[mi][ni + 1], fragment[mi], b[2], b[3]);
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
template <class S>
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
    const auto* x = static_cast<const char*>(a.x_update);
    auto* w = static_cast<Raw*>(a.w_LD);
    const auto fetch_step = [&](int step) {
        const std::uint32_t stage = base + step % kUpdateStages * kUpdateStage;
        fetch<128>(stage, kTile, [&](int row, int piece) -> const char* {
            return reinterpret_cast<const char*>(a.g_CB + (chunk_tile * kTile + row) * a.padded_batch +
                                                 step * kStep) +
                   piece * 16;
        });
        fetch<256>(stage + kTile * kStep * 2, kStep, [&](int row, int piece) -> const char* {
            const std::int64_t column = first_column + piece * 8;
            return column < a.width ? x + ((step * kStep + row) * a.width + column) * 2 : nullptr;
        });
    };
    Accumulator acc;
    clear(acc);
    fetch_step(0);
    commit_copies();
    fetch<kRawRow>(base + kWeights, kTile, [&](int row, int piece) -> const char* {
        constexpr int kPieceColumns = 16 / static_cast<int>(sizeof(Raw));
        const std::int64_t label = tile * kTile + row, column = first_column + piece * kPieceColumns;
        if (label >= a.labels || column >= a.width) return nullptr;
        return reinterpret_cast<const char*>(w + label * a.width + column);
    });
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
                    multiply(acc[mi][ni], fragment[mi], b[0], b[1]);
                    multiply(acc[mi][ni + 1], fragment[mi], b[2], b[3]);
                }
            }
        }
    }
    wait_copies<0>();
    __syncthreads();  // the tile of W has come
    // Each thread takes eight neighbouring columns of a row: one block of noise, one load, one store.
    std::uint32_t saturated = 0;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.warp_row + 16 * mi + 8 * half + at.g;
            const std::int64_t label = tile * kTile + row;
#pragma unroll
            for (int group = 0; group < 2; ++group) {
                float2 pairs[4];
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    pairs[j] = {acc[mi][4 * group + j][2 * half], acc[mi][4 * group + j][2 * half + 1]};
                transpose_quad(pairs, at.lane);
                const int place = at.warp_column + 32 * group + 8 * at.q;
                const std::int64_t column = first_column + place;
                if (label >= a.labels || column >= a.width) continue;
                constexpr int kPieces = 8 * static_cast<int>(sizeof(Raw));  // bytes of eight weights
                const int bytes = place / 8 * kPieces;
                float v[8];
                S::load8(reinterpret_cast<const Raw*>(shared + kWeights +
                                                      tile_offset<kRawRow>(row, bytes / 16) + bytes % 16),
                         v);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    v[2 * j] = v[2 * j] * a.keep - a.lr * pairs[j].x;
                    v[2 * j + 1] = v[2 * j + 1] * a.keep - a.lr * pairs[j].y;
                }
                S::store8(w + label * a.width + column, v, noise_block(a.rounding, label, column >> 3),
                          saturated);
            }
        }
    if constexpr (sizeof(Raw) == 1) {
        const unsigned total = __reduce_add_sync(0xffffffffu, saturated);
        if (at.lane == 0 && total > 0)
            atomicAdd(&a.report->saturations, static_cast<unsigned long long>(total));
    }
}

}  // namespace elmo::cuda::tiles
