// The head's three products on Hopper's warpgroup instructions, for widths that are multiples of 128 up to
// 768 and batches up to 512, W in BF16 or 8 bits, also with an exponent a row. The same sums and roundings as
// head_tiles.cuh, in tiles of 64 labels.
//
// Scratch is kept in the blocks that the instructions read (wgmma.cuh), so copies are plain:
//   x_logit   [batch tile of 128][block of 64 columns][128 texts][128 bytes]; columns of a block are permuted
//             so that 16 bytes of W that a thread loads are its factors of consecutive products
//   x_update  [block of 64 columns][padded batch][128 bytes]; columns of 32 are permuted so that a thread's
//             sums are those of eight neighbours: one block of noise, one load, one store
//   g         [tile of 64 labels][block of 64 texts][64 labels][128 bytes]
//
// A kernel begins while the one before it ends, and waits for it before it touches what that one reads or
// writes: g, dx, and W where it is written.
#pragma once

#include "backend/cuda/head_storage.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/wgmma.cuh"

namespace elmo::cuda::hopper {

constexpr int kGroupThreads = 128;  // of a warpgroup
constexpr int kLogitGroups = 3, kInputGroups = 4, kUpdateGroups = 4;
constexpr int kRows = 64;                    // labels of a tile
constexpr int kBlock = 64;                   // columns of a block
constexpr int kTextBlockBytes = 128 * 128;   // 128 texts of a block of columns
constexpr int kGradientBytes = kRows * 128;  // 64 labels by 64 texts of g
constexpr int kAlign = 1024;                 // of blocks; shared memory is taken with this to spare
constexpr int kWidest = 768, kLargestBatch = 512;

constexpr bool fits(std::int64_t width, std::int64_t padded_batch) {
    return width % 128 == 0 && width <= kWidest && padded_batch <= kLargestBatch;
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
// The column of 32 that place `place` of x_update takes: thread q gets places 8j + 2q and the next, columns
// 8q to 8q + 7.
__device__ __forceinline__ int update_column(int place) {
    return place % 8 / 2 * 8 + place / 8 * 2 + place % 2;
}

template <class In>
__global__ void stage_kernel(const In* x, std::int64_t batch, std::int64_t padded, std::int64_t width,
                             bool through_e4m3, bool codes, bf16* update, bf16* logit) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= padded * width) return;
    const std::int64_t b = i / width, d = i % width, block = d / kBlock;
    const int place = static_cast<int>(d % kBlock);
    const auto value = [&](std::int64_t column) {
        return b < batch ? load_float(x, b * width + column) : 0.0f;
    };
    float z = value(block * kBlock + logit_column(place, codes));
    if (through_e4m3) z = nearest_e4m3(z);
    const int row = static_cast<int>(b % kBatchTile);
    logit[((b / kBatchTile) * (width / kBlock) + block) * (kTextBlockBytes / 2) +
          block_offset(row, place / 8) / 2 + place % 8] = __float2bfloat16_rn(z);
    const std::int64_t column = block * kBlock + place / 32 * 32 + update_column(place % 32);
    update[(block * padded + b) * kBlock + (((place / 8) ^ (row & 7)) * 8) + place % 8] =
        __float2bfloat16_rn(value(column));
}

// Where a thread stands in its warpgroup: rows 16 warp + 8 h + g, columns 8 j + 2 q + c of its sums.
struct Thread {
    int group, warp, lane, g, q;
    __device__ Thread()
        // From one lane: the compiler then knows that a warp has one.
        : group(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kGroupThreads, 0)),
          warp(threadIdx.x / 32 % 4),
          lane(threadIdx.x % 32),
          g(lane / 4),
          q(lane % 4) {}
};

__device__ __forceinline__ std::uint32_t aligned_base(const unsigned char* shared) {
    return (shared_address(shared) + kAlign - 1) / kAlign * kAlign;
}

// ---- logits and g ---------------------------------------------------------------------------------------
constexpr int kPiecesAhead = 2;  // units of W under way
constexpr int kUnitBytes = kLogitGroups * kGroupThreads * 32;
constexpr int logit_shared(std::int64_t width) {
    return static_cast<int>(width / kBlock) * kTextBlockBytes + kPiecesAhead * kUnitBytes + kAlign + 16;
}

// Products of 16 columns that 64 bytes of a row make.
template <class S>
constexpr int kSteps = 4 / static_cast<int>(sizeof(typename S::Raw));

// One thread's part of W, 64 bytes of a row after another, tile after tile. Every thread copies what it will
// use itself, so waiting for its own copies is enough.
template <class S>
struct WeightStream {
    const char* from;
    std::int64_t row_bytes, tile_bytes;
    std::int64_t label, labels, tile_labels;
    std::uint32_t ring;
    int unit = 0, units;

    __device__ WeightStream(const HeadArgs& a, const Thread& at, std::int64_t tile, std::int64_t tile_step,
                            std::uint32_t ring_base)
        : row_bytes(a.width * static_cast<std::int64_t>(sizeof(typename S::Raw))),
          tile_bytes((tile_step * kRows - 1) * row_bytes),
          label(tile * kRows + at.warp * 16 + at.g),
          labels(min(a.labels, a.last_tile * kLabelTile)),
          tile_labels(tile_step * kRows),
          ring(ring_base + threadIdx.x * 32),
          units(static_cast<int>(row_bytes / 64)) {
        from = static_cast<const char*>(a.w_LD) + label * row_bytes + at.q * 16;
    }
    // Begins to copy the next unit, of rows g and g + 8, to `slot`.
    __device__ __forceinline__ void fetch(int slot) {
        const std::uint32_t to = ring + slot * kUnitBytes;
        copy_async(to, from, label < labels);
        copy_async(to + 16, from + 8 * row_bytes, label + 8 < labels);
        commit_copies();
        const bool wraps = ++unit == units;  // without a branch: products are under way
        unit = wraps ? 0 : unit;
        from += wraps ? 64 + tile_bytes : 64;
        label += wraps ? tile_labels : 0;
    }
    // The unit that was fetched first.
    __device__ __forceinline__ void load(int slot, uint4 (&raw)[2]) const {
        wait_copies<kPiecesAhead - 1>();
#pragma unroll
        for (int h = 0; h < 2; ++h) raw[h] = load_shared(ring + slot * kUnitBytes + 16 * h);
    }
};

// In a register of its own: products still read it when its source is loaded again.
__device__ __forceinline__ std::uint32_t copied(std::uint32_t pair) {
    const __nv_bfloat162 one = __float2bfloat162_rn(1.0f);
    const __nv_bfloat162 same = __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair), one);
    return reinterpret_cast<const std::uint32_t&>(same);
}

template <class S>
__device__ __forceinline__ void decode_factors(const uint4 (&raw)[2], std::uint32_t (&f)[kSteps<S>][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        if constexpr (sizeof(typename S::Raw) == 1) {
            const std::uint32_t words[4] = {raw[h].x, raw[h].y, raw[h].z, raw[h].w};
#pragma unroll
            for (int s = 0; s < 4; ++s) decode_alternate<typename S::Format>(words[s], f[s][h], f[s][h + 2]);
        } else {
            f[0][h] = copied(raw[h].x), f[0][h + 2] = copied(raw[h].y);
            f[1][h] = copied(raw[h].z), f[1][h + 2] = copied(raw[h].w);
        }
    }
}

// Writes the thread's part of a tile of g as BF16. `gradient(i)`: of its sum i. Neighbours exchange, so that
// each has four texts of one of two pieces of 16 bytes.
template <class Gradient>
__device__ __forceinline__ void store_gradients(char* out, const Thread& at, const Gradient& gradient) {
    const bool odd = at.q % 2 != 0;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int j = 0; j < 16; j += 2) {
            const std::uint32_t first = pack2(gradient(4 * j + 2 * h), gradient(4 * j + 2 * h + 1));
            const std::uint32_t second = pack2(gradient(4 * j + 4 + 2 * h), gradient(4 * j + 4 + 2 * h + 1));
            const std::uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
            *reinterpret_cast<uint2*>(out + j / 8 * kGradientBytes + 8 * h * 128 +
                                      (((j % 8 + odd) ^ at.g) << 4)) =
                odd ? make_uint2(other, second) : make_uint2(first, other);
        }
}

// g of the chunk's labels, and parts of the loss. A block keeps the 128 texts of its batch tile in shared
// memory; each warpgroup takes tiles of 64 labels on its own. Grid: (blocks, batch tiles).
template <class S, bool WantLoss>
__global__ void __launch_bounds__(kLogitGroups* kGroupThreads, 1) gradient_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    extern __shared__ unsigned char shared[];
    const Thread at;
    const int blocks = static_cast<int>(a.width / kBlock);
    const std::uint32_t x = aligned_base(shared), ring = x + blocks * kTextBlockBytes,
                        arrived = ring + kPiecesAhead * kUnitBytes;
    const std::int64_t batch_tile = blockIdx.y;
    const std::int64_t tile_step = static_cast<std::int64_t>(gridDim.x) * kLogitGroups;
    const std::int64_t first = a.first_tile * 2, last = a.last_tile * 2;
    std::int64_t tile = first + static_cast<std::int64_t>(blockIdx.x) * kLogitGroups + at.group;
    let_next_begin();
    WeightStream<S> stream(a, at, tile, tile_step, ring);
    for (int i = 0; i < kPiecesAhead; ++i) stream.fetch(i);
    if (threadIdx.x == 0) {
        init_barrier(arrived, 1);
        publish_barriers();
        arrive_expecting(arrived, blocks * kTextBlockBytes);
        const char* from = static_cast<const char*>(a.x_logit) + batch_tile * blocks * kTextBlockBytes;
        for (int i = 0; i < blocks; ++i)
            copy_bulk(x + i * kTextBlockBytes, from + i * kTextBlockBytes, kTextBlockBytes, arrived);
    }
    __syncthreads();  // the barrier is there
    wait_barrier(arrived, 0);
    const std::int64_t text_blocks = a.padded_batch / kBlock;
    const int valid_texts =
        static_cast<int>(min(a.batch - batch_tile * kBatchTile, std::int64_t{kBatchTile}));
    char* const to =
        reinterpret_cast<char*>(a.g_CB) + (batch_tile * 2 * kRows + at.warp * 16 + at.g) * 128 + at.q / 2 * 8;
    bool waited = false;
    for (; tile < last; tile += tile_step) {
        const std::int32_t first_positive = a.tile_starts[tile / 2],
                           last_positive = a.tile_starts[tile / 2 + 1];
        Sums<128> z;
        for (int u = 0; u < stream.units; u += kPiecesAhead) {
#pragma unroll
            for (int i = 0; i < kPiecesAhead; ++i) {
                uint4 raw[2];
                std::uint32_t factors[kSteps<S>][4];
                stream.load(i, raw);
                wait_products<1>();  // the factors of the products before the last are free
                decode_factors<S>(raw, factors);
                stream.fetch(i);
                begin_products();
                const int step = (u + i) * kSteps<S>;
                const std::uint64_t texts = operand(x + step / 4 * kTextBlockBytes + step % 4 * 32);
#pragma unroll
                for (int s = 0; s < kSteps<S>; ++s)
                    multiply(z, factors[s], texts + moved(32 * s), step + s > 0);
                commit_products();
            }
        }
        const std::int64_t label = tile * kRows + at.warp * 16 + at.g;  // of h = 0
        const std::uint8_t exponent[2] = {stored_exponent<S>(a, label), stored_exponent<S>(a, label + 8)};
        // Which of the thread's sums belong to positives.
        std::uint32_t positive[2] = {0, 0};
        for (std::int32_t i = first_positive; i < last_positive; ++i) {
            const auto row = static_cast<int>(a.positive_labels[i] - tile * kRows);
            const auto text = static_cast<int>(a.positive_samples[i] - batch_tile * kBatchTile);
            if (row < 0 || row >= kRows || text < 0 || text >= kBatchTile) continue;
            if (row / 16 != at.warp || row % 8 != at.g || text % 8 / 2 != at.q) continue;
            const std::uint32_t bit = 1u << (text / 8 % 8 * 4 + row / 8 % 2 * 2 + text % 2);
            if (text < 64)
                positive[0] |= bit;
            else
                positive[1] |= bit;
        }
        const auto valid_rows = static_cast<int>(min(a.labels - tile * kRows, std::int64_t{kRows}));
        const bool plain = valid_rows == kRows && valid_texts == kBatchTile && !WantLoss &&
                           !__any_sync(0xffffffffu, (positive[0] | positive[1]) != 0);
        wait_products<0>();
        if (!waited) wait_for_previous();  // which may still read g
        waited = true;
        float loss = 0;
        char* const out = to + (tile - first) * text_blocks * kGradientBytes;
        // What logits of the thread's two labels are multiplied by.
        float factor[2] = {1, 1};
        if constexpr (kRowCodes<S>)
            for (int h = 0; h < 2; ++h) factor[h] = power_of_two(power_of_row(a, exponent[h]));
        const float to_power[2] = {kToPower * factor[0], kToPower * factor[1]};
        if (plain) {
            store_gradients(out, at, [&](int i) { return logit_gradient(z[i], false, to_power[i / 2 % 2]); });
        } else {
            store_gradients(out, at, [&](int i) {
                const bool is_positive = (positive[i / 32] >> (i % 32) & 1u) != 0;
                const bool is_real = at.warp * 16 + i / 2 % 2 * 8 + at.g < valid_rows &&
                                     i / 4 * 8 + 2 * at.q + i % 2 < valid_texts;
                if (WantLoss && is_real) loss += logit_loss(z[i] * factor[i / 2 % 2], is_positive);
                return is_real ? logit_gradient(z[i], is_positive, to_power[i / 2 % 2]) : 0.0f;
            });
        }
        if constexpr (WantLoss) {
            loss = warp_sum(loss);
            if (at.lane == 0) a.losses[(tile * gridDim.y + batch_tile) * 4 + at.warp] = loss;
        }
    }
#endif
}

// ---- dx -------------------------------------------------------------------------------------------------
template <int N>
constexpr int kInputStage = 2 * kGradientBytes + kRows* N * 2;  // g of 128 texts, then W of 64 labels
template <class S, int N>
constexpr int kCodeStage = sizeof(typename S::Raw) == 1 ? kRows* N : 0;  // codes under way
constexpr int kInputStages = 4;
template <class S, int N>
constexpr int kInputShared = kInputStages*(kInputStage<N> + kCodeStage<S, N> + 16) + kAlign;

constexpr int kDecoders = 2, kDecoderThreads = kDecoders * kGroupThreads;  // warpgroups that decode

// dx of the 128 texts of a batch tile and N columns, over the tiles of one slice (tile of 128 % slices ==
// slice), continued from chunk to chunk. The first two warpgroups bring W to shared memory as BF16, the
// others multiply, 64 texts each. 8-bit W is decoded with columns 1 and 2 of four exchanged. Grid: (columns /
// N, batch tiles, slices).
template <class S, int N>
__global__ void __launch_bounds__(kInputGroups* kGroupThreads, 1) input_gradient_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    constexpr bool kCodes = sizeof(typename S::Raw) == 1;
    constexpr int kStages = kInputStages, kSize = static_cast<int>(sizeof(typename S::Raw));
    constexpr int kPieces = N * kSize / 16, kTimes = kRows * kPieces / kDecoderThreads;
    extern __shared__ unsigned char shared[];
    const Thread at;
    const std::uint32_t base = aligned_base(shared), codes = base + kStages * kInputStage<N>,
                        full = codes + kStages * kCodeStage<S, N>, empty = full + kStages * 8;
    const std::int64_t slice = blockIdx.z, batch_tile = blockIdx.y;
    const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * N;
    const std::int64_t begin =
        a.first_tile + (slice - a.first_tile % a.num_slices + a.num_slices) % a.num_slices;
    let_next_begin();
    if (begin >= a.last_tile) return;
    const int steps = static_cast<int>((a.last_tile - 1 - begin) / a.num_slices + 1) * 2;
    const auto tile_of = [&](int step) { return (begin + step / 2 * a.num_slices) * 2 + step % 2; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) {
            init_barrier(full + i * 8, kDecoderThreads);
            init_barrier(empty + i * 8, 8);  // a warp of those that multiply
        }
        publish_barriers();
    }
    __syncthreads();  // the barriers are there
    if (at.group < kDecoders) {
        const int thread = threadIdx.x;
        const std::int64_t row_bytes = a.width * kSize, text_blocks = a.padded_batch / kBlock;
        const char* const w = static_cast<const char*>(a.w_LD) + first_column * kSize;
        const char* const g = reinterpret_cast<const char*>(a.g_CB) + batch_tile * 2 * kGradientBytes;
        // The 16 bytes of W that this thread takes i-th. Eight neighbours take four pieces of two rows, so
        // that they write to all banks.
        int row[kTimes], piece[kTimes];
#pragma unroll
        for (int i = 0; i < kTimes; ++i) {
            const int eight = (i * kDecoderThreads + thread) / 8;
            row[i] = eight / (kPieces / 4) * 2 + thread / 4 % 2;
            piece[i] = eight % (kPieces / 4) * 4 + thread % 4;
        }
        // Where it goes: codes to a place of its own, BF16 to where products read it.
        const auto target = [&](int s, int i) {
            if constexpr (kCodes)
                return codes + s * kCodeStage<S, N> + (i * kDecoderThreads + thread) * 16;
            else
                return base + s * kInputStage<N> + 2 * kGradientBytes + piece[i] / 8 * kGradientBytes +
                       block_offset(row[i], piece[i] % 8);
        };
        const auto fetch = [&](int step) {
            if (step < steps) {
                const std::int64_t label = tile_of(step) * kRows;
                const char* const from = w + label * row_bytes;
#pragma unroll
                for (int i = 0; i < kTimes; ++i)
                    copy_async(target(step % kStages, i), from + row[i] * row_bytes + piece[i] * 16,
                               label + row[i] < a.labels);
            }
            commit_copies();
        };
        const auto wait_empty = [&](int step) {
            wait_barrier(empty + step % kStages * 8, (step / kStages % 2) ^ 1);
        };
        const auto fetch_g = [&](int step) {
            if (thread != 0) return;
            const int s = step % kStages;
            expect(full + s * 8, 2 * kGradientBytes);
            copy_bulk(base + s * kInputStage<N>,
                      g + (tile_of(step) - a.first_tile * 2) * text_blocks * kGradientBytes,
                      2 * kGradientBytes, full + s * 8);
        };
        std::uint8_t exponent[kTimes];  // of its rows, a step ahead
        const auto load_exponents = [&](int step) {
#pragma unroll
            for (int i = 0; i < kTimes; ++i)
                exponent[i] = stored_exponent<S>(a, tile_of(step) * kRows + row[i]);
        };
        constexpr int kAhead = kCodes ? kStages : kStages - 1;
        for (int step = 0; step < kAhead; ++step) fetch(step);
        load_exponents(0);
        wait_for_previous();
        for (int step = 0; step < steps; ++step) {
            const int s = step % kStages;
            if constexpr (kCodes) {
                wait_empty(step);
                fetch_g(step);
                wait_copies<kAhead - 1>();
                const std::uint32_t to = base + s * kInputStage<N> + 2 * kGradientBytes;
                uint4 raw[kTimes];
#pragma unroll
                for (int i = 0; i < kTimes; ++i) raw[i] = load_shared(target(s, i));
#pragma unroll
                for (int i = 0; i < kTimes; ++i) {
                    uint4 low, high;
                    decode_alternate<typename S::Format>(raw[i].x, low.x, low.y);
                    decode_alternate<typename S::Format>(raw[i].y, low.z, low.w);
                    decode_alternate<typename S::Format>(raw[i].z, high.x, high.y);
                    decode_alternate<typename S::Format>(raw[i].w, high.z, high.w);
                    if constexpr (kRowCodes<S>) {
                        const float factor = power_of_two(power_of_row(a, exponent[i]));
                        scale_pairs(low, factor);
                        scale_pairs(high, factor);
                    }
                    const std::uint32_t block = to + piece[i] / 4 * kGradientBytes;
                    store_shared(block + block_offset(row[i], piece[i] % 4 * 2), low);
                    store_shared(block + block_offset(row[i], piece[i] % 4 * 2 + 1), high);
                }
                publish_shared();
                arrive(full + s * 8);
                fetch(step + kAhead);
                load_exponents(step + 1);
            } else {
                fetch_g(step);
                wait_copies<kAhead - 1>();
                publish_shared();
                arrive(full + s * 8);
                if (step + kAhead < steps) wait_empty(step + kAhead);
                fetch(step + kAhead);
            }
        }
        return;
    }
    wait_for_previous();
    const int half = at.group - kDecoders;  // which 64 texts
    // Columns 2 q and 2 q + 1 of eight; of codes, those that were decoded to there.
    constexpr int kSecond = kCodes ? 2 : 1;
    float* const out = a.dx_slices + slice * a.batch * a.width + first_column +
                       (kCodes ? at.q / 2 * 4 + at.q % 2 : 2 * at.q);
    const std::int64_t first_row = batch_tile * kBatchTile + half * 64 + at.warp * 16 + at.g;
    Sums<N> sum;
    // body(a sum, where it is kept) for those of real texts.
    const auto for_each = [&](const auto& body) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (first_row + 8 * h >= a.batch) continue;
            float* const row = out + (first_row + 8 * h) * a.width;
#pragma unroll
            for (int j = 0; j < N / 8; ++j)
#pragma unroll
                for (int c = 0; c < 2; ++c) body(sum[4 * j + 2 * h + c], row[8 * j + c * kSecond]);
        }
    };
#pragma unroll
    for (float& s : sum) s = 0;
    if (begin >= a.num_slices) for_each([](float& s, const float& kept) { s = kept; });
    const auto multiply_step = [&](int step) {
        const int s = step % kStages;
        const std::uint32_t stage = base + s * kInputStage<N>;
        wait_barrier(full + s * 8, step / kStages % 2);
        const std::uint64_t g = operand(stage + half * kGradientBytes),
                            w = operand(stage + 2 * kGradientBytes, kGradientBytes);
        begin_products();
#pragma unroll
        for (int k = 0; k < 4; ++k) multiply<1, 1>(sum, g + moved(2048 * k), w + moved(2048 * k), true);
        commit_products();
    };
    multiply_step(0);
    for (int step = 1; step < steps; ++step) {
        multiply_step(step);
        wait_products<1>();
        if (at.lane == 0) arrive(empty + (step - 1) % kStages * 8);
    }
    wait_products<0>();
    for_each([](const float& s, float& kept) { kept = s; });
#endif
}

// ---- update ---------------------------------------------------------------------------------------------
constexpr int kUpdateStages = 2, kUpdateColumns = 128;
// Blocks of 64 texts that come at a time.
constexpr int update_blocks(std::int64_t padded_batch) {
    return padded_batch <= 256 ? 2 : 1;
}
constexpr int update_shared(std::int64_t padded_batch) {
    return static_cast<int>(padded_batch) * kUpdateColumns * 2 +
           kUpdateGroups * kUpdateStages * (update_blocks(padded_batch) * kGradientBytes + 8) + 8 + kAlign;
}

// W = SR(W keep - lr g X) of the chunk's labels. A block keeps 128 columns of all texts in shared memory;
// each warpgroup takes tiles of 64 labels on its own, and fetches the next ones' g while it rounds. Moves:
// the noise moves by a.noise_move. Grid: a multiple of width / 128.
//
// Rows with exponents are updated in units of their codes: W / f = SR((W / f) keep - (lr / f) g X). A power
// of two changes no digit of FP32's roundings; where a number leaves the range of normal ones, it lies so far
// below the 17 digits that rounding to codes looks at, or so far beyond the largest code, that its digits do
// not matter.
template <class S, bool Decays, bool Moves, int Blocks>
__global__ void __launch_bounds__(kUpdateGroups* kGroupThreads, 1) update_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    using Raw = typename S::Raw;
    constexpr int kStage = Blocks * kGradientBytes;
    extern __shared__ unsigned char shared[];
    const Thread at;
    const int columns = static_cast<int>(a.width / kUpdateColumns);
    const std::uint32_t x_block = static_cast<std::uint32_t>(a.padded_batch) * 128;  // bytes of 64 columns
    const std::uint32_t x = aligned_base(shared), rings = x + 2 * x_block,
                        ring = rings + at.group * kUpdateStages * kStage;
    const std::uint32_t arrived = rings + kUpdateGroups * kUpdateStages * kStage;
    const std::uint32_t full = arrived + 8 + at.group * kUpdateStages * 8;
    const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) % columns * kUpdateColumns;
    const std::int64_t tile_step = static_cast<std::int64_t>(gridDim.x) / columns * kUpdateGroups;
    const std::int64_t first = a.first_tile * 2, last = min(a.last_tile * 2, (a.labels + kRows - 1) / kRows);
    std::int64_t tile = first + static_cast<std::int64_t>(blockIdx.x) / columns * kUpdateGroups + at.group;
    const int text_blocks = static_cast<int>(a.padded_batch / kBlock);
    let_next_begin();
    if (threadIdx.x == 0) {
        for (int i = 0; i <= kUpdateGroups * kUpdateStages; ++i) init_barrier(arrived + i * 8, 1);
        publish_barriers();
        arrive_expecting(arrived, 2 * x_block);
        const char* from = static_cast<const char*>(a.x_update) + first_column / kBlock * x_block;
        for (int i = 0; i < 2; ++i) copy_bulk(x + i * x_block, from + i * x_block, x_block, arrived);
    }
    __syncthreads();  // the barriers are there
    // One thread of the group fetches g, block after block, tile after tile.
    std::int64_t fetched_tile = tile;
    int fetched_block = 0, fetched_stage = 0;
    const auto fetch = [&] {
        if (threadIdx.x % kGroupThreads != 0 || fetched_tile >= last) return;
        const char* from = reinterpret_cast<const char*>(a.g_CB) +
                           ((fetched_tile - first) * text_blocks + fetched_block) * kGradientBytes;
        arrive_expecting(full + fetched_stage * 8, kStage);
        copy_bulk(ring + fetched_stage * kStage, from, kStage, full + fetched_stage * 8);
        fetched_stage = (fetched_stage + 1) % kUpdateStages;
        fetched_block += Blocks;
        if (fetched_block < text_blocks) return;
        fetched_block = 0;
        fetched_tile += tile_step;
    };
    wait_for_previous();
    for (int i = 0; i < kUpdateStages; ++i) fetch();
    wait_barrier(arrived, 0);
    int stage = 0;
    std::uint32_t parity = 0, saturated = 0;
    const std::uint64_t texts = operand(x, x_block);
    Raw* const mine = static_cast<Raw*>(a.w_LD) + first_column + 8 * at.q;
    for (; tile < last; tile += tile_step) {
        const std::int64_t label = tile * kRows + at.warp * 16 + at.g;  // of h = 0
        Raw* const row = mine + label * a.width;
        typename S::Eight old[2][4] = {};
        const std::uint8_t exponent[2] = {stored_exponent<S>(a, label), stored_exponent<S>(a, label + 8)};
#pragma unroll
        for (int h = 0; h < 2; ++h)
            if (label + 8 * h < a.labels)
#pragma unroll
                for (int m = 0; m < 4; ++m)
                    old[h][m] = *reinterpret_cast<const typename S::Eight*>(row + 8 * h * a.width + 32 * m);
        Sums<128> u;
        for (int b = 0; b < text_blocks; b += Blocks) {
            wait_barrier(full + stage * 8, parity);
            const std::uint64_t g = operand(ring + stage * kStage);
            begin_products();
#pragma unroll
            for (int s = 0; s < 4 * Blocks; ++s)
                multiply<0, 1>(u, g + moved(s / 4 * kGradientBytes + s % 4 * 32),
                               texts + moved((b * kBlock + 16 * s) * 128), b + s > 0);
            commit_products();
            if (b > 0) {
                wait_products<1>();
                sync_group(1 + at.group);  // all warps are done with the block before
                fetch();
            }
            if (++stage == kUpdateStages) stage = 0, parity ^= 1;
        }
        wait_products<0>();
        sync_group(1 + at.group);  // all warps are done with the last block
        fetch();
        // Sums become new weights, in place, eight neighbours of a row after another.
        const auto eight = [&](int h, int m, int i) -> float& {
            return u[4 * (4 * m + i / 2) + 2 * h + i % 2];
        };
        // Whether all are within range, by a sum of squares; by the largest where a row's exponent leaves
        // little room above its weights.
        float size = 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float lr = -a.lr * S::kUnpacked;
            if constexpr (kRowCodes<S>) lr *= power_of_two(-power_of_row(a, exponent[h]));
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                float v[8];
                S::unpack(old[h][m], v);
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    float& x = eight(h, m, i);
                    x = fmaf(lr, x, Decays ? v[i] * a.keep : v[i]);
                    size = kRowCodes<S> ? larger_size(size, x) : fmaf(x, x, size);
                }
            }
        }
        if constexpr (kRowCodes<S>) {
            if (!(size <= S::kLargest))
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    if (label + 8 * h >= a.labels) continue;
                    std::uint32_t count = 0;
#pragma unroll
                    for (int i = 0; i < 32; ++i) {
                        float& x = eight(h, i / 8, i % 8);
                        x = S::within_range(x, count);
                    }
                    note_saturation(a, label + 8 * h, count, saturated);
                }
        } else if (!(size < S::kSquares)) {
#pragma unroll
            for (float& x : u) x = S::within_range(x, saturated);
        }
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                float v[8];
#pragma unroll
                for (int i = 0; i < 8; ++i) v[i] = eight(h, m, i);
                const PhiloxBlock counter = noise_counter(a.rounding, a.first_label + label + 8 * h,
                                                          (first_column + 32 * m + 8 * at.q) >> 3);
                const typename S::Eight rounded =
                    S::round8(v, philox4x32(counter, a.rounding_keys), Moves ? a.noise_move : 0);
                if (label + 8 * h < a.labels)
                    *reinterpret_cast<typename S::Eight*>(row + 8 * h * a.width + 32 * m) = rounded;
            }
    }
    if constexpr (sizeof(Raw) == 1) {
        const unsigned total = __reduce_add_sync(0xffffffffu, saturated);
        if (at.lane == 0 && total > 0)
            atomicAdd(&a.report->saturations, static_cast<unsigned long long>(total));
    }
#endif
}

}  // namespace elmo::cuda::hopper
