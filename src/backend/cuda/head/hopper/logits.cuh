// Logits of the head on Hopper (hopper.cuh): X in shared memory, W through registers, or as codes through
// shared memory. What becomes of them is in gradient.cuh and rank.cuh.
#pragma once

#include "backend/cuda/head/hopper/hopper.cuh"
#include "backend/cuda/ptx/warpgroup_codes.cuh"

namespace elmo::cuda::hopper {

// Logits of E4M3 weights are products of codes, as x is rounded to E4M3 for them too.
template <class S>
constexpr bool kCodeProducts = std::is_same_v<S, StorageE4M3>;
template <class S>
constexpr int kTextBytes = kCodeProducts<S> ? 1 : 2;  // of a column of x

// A unit of W of every thread.
template <int Groups>
constexpr int kUnitBytes = Groups* kGroupThreads * 32;
// Texts of a batch tile whose x fits in shared memory beside two units of W, or four of codes.
template <class S>
constexpr int logit_texts(std::int64_t padded_width) {
    constexpr std::int64_t kWidestCodes = 1408;
    return padded_width <= (kCodeProducts<S> ? kWidestCodes : kWidest / 2) ? kBatchTile : kBatchTile / 2;
}
// `Ahead`: units of W under way.
template <class S, int Groups, int Texts, int Ahead>
constexpr int logit_shared(std::int64_t padded_width) {
    return static_cast<int>(padded_width) * kTextBytes<S> * Texts + Ahead * kUnitBytes<Groups> + kAlign + 16;
}

// Products of 16 columns that 64 bytes of a row make.
template <class S>
constexpr int kSteps = 4 / static_cast<int>(sizeof(typename S::Raw));

// One thread's part of W, four pieces of a row after another, tile after tile; zeros beyond the row's end.
// Every thread copies what it will use itself, so waiting for its own copies is enough.
template <class S, int Groups, int Ahead>
struct WeightStream {
    static constexpr int kPiece = kPieceBytes<S>, kUnit = 4 * kPiece;  // of packed codes less than they fill
    const char* from;
    std::int64_t row_bytes, tile_bytes;
    std::int64_t label, labels, tile_labels;
    std::uint32_t ring;
    bool pairs;                        // of lines are fetched
    int slot = 0;                      // where the unit lies that was fetched first
    int unit = 0, units, whole_units;  // of a row; those of which this thread has its 16 bytes

    __device__ WeightStream(const HeadArgs& a, const Thread& at, std::int64_t tile, std::int64_t tile_step,
                            std::uint32_t ring_base)
        : row_bytes(bytes_of_row<S>(a)),
          label(tile * kRows + at.warp * 16 + at.g),
          labels(min(a.labels, a.last_tile * kLabelTile)),
          tile_labels(tile_step * kRows),
          ring(ring_base + threadIdx.x * 16),
          pairs(sizeof(typename S::Raw) == 2 && a.g_CB != nullptr && a.padded_batch == kBatchTile),
          units(static_cast<int>(a.padded_width * static_cast<std::int64_t>(sizeof(typename S::Raw)) / 64)),
          whole_units(static_cast<int>((row_bytes - at.q * kPiece + kUnit - 1) / kUnit)) {
        tile_bytes = tile_step * kRows * row_bytes - units * kUnit;
        from = static_cast<const char*>(a.w_LD) + label * row_bytes + at.q * kPiece;
        for (int i = 0; i < Ahead; ++i) fetch();
    }
    // Neighbours lie side by side, row g of all threads before row g + 8: no bank serves two of a warp.
    __device__ __forceinline__ std::uint32_t place(int of_slot, int h) const {
        return ring + of_slot * kUnitBytes<Groups> + h * (kUnitBytes<Groups> / 2);
    }
    // Starts to copy the next unit, of rows g and g + 8, to where the one lies that was fetched first.
    __device__ __forceinline__ void fetch() {
        const auto copy = [&](int h) {
            const bool valid = label + 8 * h < labels && unit < whole_units;
            if constexpr (kPiece < 16)
                copy_piece<S>(place(slot, h), from + 8 * h * row_bytes, valid);
            else if (pairs)
                copy16_of_lines(place(slot, h), from + 8 * h * row_bytes, valid);
            else
                copy16_of_line(place(slot, h), from + 8 * h * row_bytes, valid);
        };
        copy(0);
        copy(1);
        commit_copies();
        const bool wraps = ++unit == units;  // without a branch: products are running
        unit = wraps ? 0 : unit;
        from += wraps ? kUnit + tile_bytes : kUnit;
        label += wraps ? tile_labels : 0;
        slot = slot + 1 == Ahead ? 0 : slot + 1;
    }
    // The unit that was fetched first.
    __device__ __forceinline__ void load(uint4 (&raw)[2]) const {
        wait_copies<Ahead - 1>();
#pragma unroll
        for (int h = 0; h < 2; ++h) raw[h] = unpacked<S>(load_shared(place(slot, h)));
    }
};

// The same for products of codes, which read W from shared memory: 64 rows of a warpgroup's tile by 128
// columns after another, two units, brought by all its threads, whole lines at a time. One of the stages is
// free while products read another.
template <int Groups, int Ahead>
struct CodeStream {
    static constexpr int kStages = Ahead / 2, kStage = kRows * 128;
    static_assert(kStages >= 2 && kStage == 2 * kUnitBytes<1>);
    const char* from;
    std::int64_t row_bytes, tile_bytes;
    std::int64_t label, labels, tile_labels;
    std::uint32_t ring, place;
    int group, piece;
    int fetched = 0, read = 0;  // where the next stage goes, and where the first one lies
    int block = 0, blocks;      // of a row, of those that are fetched

    __device__ CodeStream(const HeadArgs& a, const Thread& at, std::int64_t tile, std::int64_t tile_step,
                          std::uint32_t ring_base)
        : row_bytes(a.stride),
          labels(min(a.labels, a.last_tile * kLabelTile)),
          tile_labels(tile_step * kRows),
          ring(ring_base + at.group * kStages * kStage),
          group(at.group),
          piece(at.lane % 8),
          blocks(static_cast<int>(a.padded_width / 128)) {
        const int row = at.warp * 4 + at.lane / 8;  // of 16; the thread has every sixteenth
        label = tile * kRows + row;
        place = block_offset(row, piece);
        tile_bytes = tile_step * kRows * row_bytes - blocks * 128;
        from = static_cast<const char*>(a.w_LD) + label * row_bytes + piece * 16;
        for (int i = 0; i < kStages - 1; ++i) fetch();
    }
    // Starts to copy the next stage to where the one lay that products read last.
    __device__ __forceinline__ void fetch() {
        const bool has_piece = block * 128 + piece * 16 < row_bytes;
#pragma unroll
        for (int i = 0; i < kRows / 16; ++i)
            copy16(ring + fetched * kStage + place + i * 16 * 128, from + i * 16 * row_bytes,
                   has_piece && label + i * 16 < labels);
        commit_copies();
        const bool wraps = ++block == blocks;
        block = wraps ? 0 : block;
        from += wraps ? 128 + tile_bytes : 128;
        label += wraps ? tile_labels : 0;
        fetched = fetched + 1 == kStages ? 0 : fetched + 1;
    }
    // The stage that was fetched first, whole. All threads of the group are done with the one before.
    __device__ __forceinline__ std::uint32_t next() {
        wait_copies<kStages - 2>();
        publish_shared();
        sync_group(1 + group);
        const std::uint32_t stage = ring + read * kStage;
        read = read + 1 == kStages ? 0 : read + 1;
        return stage;
    }
};

// In a separate register: products still read it when its source is loaded again.
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

// A block keeps x of its texts in shared memory; each warpgroup takes tiles of 64 labels independently.
template <class S, int Groups, int Texts, int Ahead>
struct Logits {
    static constexpr int kTexts = Texts * 128;  // bytes of a block of their columns
    int blocks;                                 // of 128 bytes of each text
    std::uint32_t x;
    std::uint32_t rest;            // shared memory behind x and the units of W, but for a barrier
    std::int64_t tile, tile_step;  // the next tile of the warpgroup
    std::conditional_t<kCodeProducts<S>, CodeStream<Groups, Ahead>, WeightStream<S, Groups, Ahead>> stream;

    // Starts to bring W.
    __device__ __forceinline__ Logits(const HeadArgs& a, const Thread& at, const unsigned char* shared)
        : blocks(static_cast<int>(a.padded_width * kTextBytes<S> / 128)),
          x(aligned_base(shared)),
          rest(x + blocks * kTexts + Ahead * kUnitBytes<Groups> + 16),
          tile(a.first_tile * 2 + static_cast<std::int64_t>(blockIdx.x) * Groups + at.group),
          tile_step(static_cast<std::int64_t>(gridDim.x) * Groups),
          stream(a, at, tile, tile_step, x + blocks * kTexts) {}
    // Brings x. By all threads.
    __device__ __forceinline__ void bring_texts(const HeadArgs& a, std::int64_t first_text) const {
        const std::uint32_t arrived = rest - 16;
        if (threadIdx.x == 0) {
            init_barrier(arrived, 1);
            publish_barriers();
            arrive_expecting(arrived, blocks * kTexts);
            const char* from = static_cast<const char*>(a.x_logit) +
                               first_text / kBatchTile * blocks * kTextBlockBytes +
                               first_text % kBatchTile * 128;
            for (int i = 0; i < blocks; ++i)
                copy_bulk(x + i * kTexts, from + i * kTextBlockBytes, kTexts, arrived);
        }
        __syncthreads();  // the barrier is there
        wait_barrier(arrived, 0);
    }
    // Starts the last products of the tile's logits; goes on to the next tile.
    __device__ __forceinline__ void multiply_tile(Sums<Texts>& z) {
        if constexpr (kCodeProducts<S>)
            multiply_code_tile(z);
        else
            multiply_decoded_tile(z);
        tile += tile_step;
    }

  private:
    // 128 columns at a time, whose sums are then added in FP32.
    __device__ __forceinline__ void multiply_code_tile(Sums<Texts>& z) {
#pragma unroll
        for (float& sum : z) sum = 0;
        for (int block = 0; block < blocks; ++block) {
            Sums<Texts> part;
            const std::uint64_t w = operand(stream.next()), texts = operand(x + block * kTexts);
            begin_products();
#pragma unroll
            for (int s = 0; s < 4; ++s) multiply_codes(part, w + moved(32 * s), texts + moved(32 * s), s > 0);
            commit_products();
            stream.fetch();
            wait_products<0>();
#pragma unroll
            for (int i = 0; i < Texts / 2; ++i) z[i] += part[i];
        }
    }
    __device__ __forceinline__ void multiply_decoded_tile(Sums<Texts>& z) {
        for (int u = 0; u < stream.units; u += 2) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint4 raw[2];
                std::uint32_t factors[kSteps<S>][4];
                stream.load(raw);
                wait_products<1>();  // the factors of the products before the last are free
                decode_factors<S>(raw, factors);
                stream.fetch();
                begin_products();
                const int step = (u + i) * kSteps<S>;
                const std::uint64_t texts = operand(x + step / 4 * kTexts + step % 4 * 32);
#pragma unroll
                for (int s = 0; s < kSteps<S>; ++s)
                    multiply(z, factors[s], texts + moved(32 * s), step + s > 0);
                commit_products();
            }
        }
    }
};

}  // namespace elmo::cuda::hopper
