// Logits and g of the head on Hopper (hopper.cuh): X in shared memory, W through registers.
#pragma once

#include "backend/cuda/head/hopper/hopper.cuh"

namespace elmo::cuda::hopper {

constexpr int kPiecesAhead = 2;  // units of W under way
constexpr int kUnitBytes = kLogitGroups * kGroupThreads * 32;
// Texts of a batch tile whose x fits in shared memory.
constexpr int logit_texts(std::int64_t padded_width) {
    return padded_width <= kWidest / 2 ? kBatchTile : kBatchTile / 2;
}
constexpr int logit_shared(std::int64_t padded_width) {
    return static_cast<int>(padded_width) * 2 * logit_texts(padded_width) + kPiecesAhead * kUnitBytes +
           kAlign + 16;
}

// Products of 16 columns that 64 bytes of a row make.
template <class S>
constexpr int kSteps = 4 / static_cast<int>(sizeof(typename S::Raw));

// One thread's part of W, 64 bytes of a row after another, tile after tile; zeros beyond the row's end. Every
// thread copies what it will use itself, so waiting for its own copies is enough.
template <class S>
struct WeightStream {
    const char* from;
    std::int64_t row_bytes, tile_bytes;
    std::int64_t label, labels, tile_labels;
    std::uint32_t ring;
    int unit = 0, units, whole_units;  // of a row; those of which this thread has its 16 bytes

    __device__ WeightStream(const HeadArgs& a, const Thread& at, std::int64_t tile, std::int64_t tile_step,
                            std::uint32_t ring_base)
        : row_bytes(a.stride * static_cast<std::int64_t>(sizeof(typename S::Raw))),
          label(tile * kRows + at.warp * 16 + at.g),
          labels(min(a.labels, a.last_tile * kLabelTile)),
          tile_labels(tile_step * kRows),
          ring(ring_base + threadIdx.x * 32),
          units(static_cast<int>(a.padded_width * static_cast<std::int64_t>(sizeof(typename S::Raw)) / 64)),
          whole_units(static_cast<int>((row_bytes - at.q * 16 + 63) / 64)) {
        tile_bytes = tile_step * kRows * row_bytes - units * 64;
        from = static_cast<const char*>(a.w_LD) + label * row_bytes + at.q * 16;
    }
    // Starts to copy the next unit, of rows g and g + 8, to `slot`.
    __device__ __forceinline__ void fetch(int slot) {
        const std::uint32_t to = ring + slot * kUnitBytes;
        copy16(to, from, label < labels && unit < whole_units);
        copy16(to + 16, from + 8 * row_bytes, label + 8 < labels && unit < whole_units);
        commit_copies();
        const bool wraps = ++unit == units;  // without a branch: products are running
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

// Writes the thread's part of a tile of g as BF16, of so many texts. `gradient(i)`: of its sum i. Neighbours
// exchange, so that each has four texts of one of two pieces of 16 bytes.
template <int Texts, class Gradient>
__device__ __forceinline__ void store_gradients(char* out, const Thread& at, const Gradient& gradient) {
    const bool odd = at.q % 2 != 0;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int j = 0; j < Texts / 8; j += 2) {
            const std::uint32_t first = pack2(gradient(4 * j + 2 * h), gradient(4 * j + 2 * h + 1));
            const std::uint32_t second = pack2(gradient(4 * j + 4 + 2 * h), gradient(4 * j + 4 + 2 * h + 1));
            const std::uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
            *reinterpret_cast<uint2*>(out + j / 8 * kGradientBytes + 8 * h * 128 +
                                      (((j % 8 + odd) ^ at.g) << 4)) =
                odd ? make_uint2(other, second) : make_uint2(first, other);
        }
}

// g of the chunk's labels, and parts of the loss. A block keeps the texts of its batch tile in shared memory,
// 128 or, of wide x, 64; each warpgroup takes tiles of 64 labels independently. Grid: (blocks, batch tiles).
template <class S, bool WantLoss, int Texts>
__global__ void __launch_bounds__(kLogitGroups* kGroupThreads, 1) gradient_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    extern __shared__ unsigned char shared[];
    const Thread at;
    constexpr int kTexts = Texts * 128;  // bytes of their 64 columns
    const int blocks = static_cast<int>(a.padded_width / kBlock);
    const std::uint32_t x = aligned_base(shared), ring = x + blocks * kTexts,
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
        arrive_expecting(arrived, blocks * kTexts);
        const std::int64_t tile_texts = batch_tile * Texts;
        const char* from = static_cast<const char*>(a.x_logit) +
                           tile_texts / kBatchTile * blocks * kTextBlockBytes + tile_texts % kBatchTile * 128;
        for (int i = 0; i < blocks; ++i)
            copy_bulk(x + i * kTexts, from + i * kTextBlockBytes, kTexts, arrived);
    }
    __syncthreads();  // the barrier is there
    wait_barrier(arrived, 0);
    const std::int64_t text_blocks = a.padded_batch / kBlock;
    const int valid_texts = static_cast<int>(min(a.batch - batch_tile * Texts, std::int64_t{Texts}));
    char* const to = reinterpret_cast<char*>(a.g_CB) + batch_tile * (Texts / kBlock) * kGradientBytes +
                     (at.warp * 16 + at.g) * 128 + at.q / 2 * 8;
    bool waited = false;
    for (; tile < last; tile += tile_step) {
        const std::int32_t first_positive = a.tile_starts[tile / 2],
                           last_positive = a.tile_starts[tile / 2 + 1];
        Sums<Texts> z;
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
                const std::uint64_t texts = operand(x + step / 4 * kTexts + step % 4 * 32);
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
        float weight[2] = {1, 1};  // of the positives of the thread's two labels
        for (std::int32_t i = first_positive; i < last_positive; ++i) {
            const auto row = static_cast<int>(a.positive_labels[i] - tile * kRows);
            const auto text = static_cast<int>(a.positive_samples[i] - batch_tile * Texts);
            if (row < 0 || row >= kRows || text < 0 || text >= Texts) continue;
            if (row / 16 != at.warp || row % 8 != at.g || text % 8 / 2 != at.q) continue;
            const std::uint32_t bit = 1u << (text / 8 % 8 * 4 + row / 8 % 2 * 2 + text % 2);
            if (text < 64)
                positive[0] |= bit;
            else
                positive[1] |= bit;
            if (a.positive_weights == nullptr) continue;
            if (row % 16 < 8)
                weight[0] = a.positive_weights[i];
            else
                weight[1] = a.positive_weights[i];
        }
        const auto valid_rows = static_cast<int>(min(a.labels - tile * kRows, std::int64_t{kRows}));
        const bool plain = valid_rows == kRows && valid_texts == Texts && !WantLoss &&
                           !__any_sync(0xffffffffu, (positive[0] | positive[1]) != 0);
        wait_products<0>();
        if (!waited) wait_for_previous();  // which may still read g
        waited = true;
        float loss = 0;
        char* const out = to + (tile - first) * text_blocks * kGradientBytes;
        // What logits and gradients of the thread's two labels are multiplied by.
        float factor[2] = {1, 1};
        if constexpr (kRowCodes<S>)
            for (int h = 0; h < 2; ++h) factor[h] = power_of_two(power_of_row(a, exponent[h]));
        const float to_power[2] = {kToPower * factor[0], kToPower * factor[1]};
        if (plain) {
            store_gradients<Texts>(out, at, [&](int i) {
                return logit_gradient(z[i], false, to_power[i / 2 % 2]) * factor[i / 2 % 2];
            });
        } else {
            store_gradients<Texts>(out, at, [&](int i) {
                const bool is_positive = (positive[i / 32] >> (i % 32) & 1u) != 0;
                const bool is_real = at.warp * 16 + i / 2 % 2 * 8 + at.g < valid_rows &&
                                     i / 4 * 8 + 2 * at.q + i % 2 < valid_texts;
                const float scale = is_positive ? weight[i / 2 % 2] : 1.0f;
                if (WantLoss && is_real) loss += scale * logit_loss(z[i] * factor[i / 2 % 2], is_positive);
                return is_real ? scale * logit_gradient(z[i], is_positive, to_power[i / 2 % 2]) *
                                     factor[i / 2 % 2]
                               : 0.0f;
            });
        }
        if constexpr (WantLoss) {
            loss = warp_sum(loss);
            if (at.lane == 0) a.losses[(tile * gridDim.y + batch_tile) * 4 + at.warp] = loss;
        }
    }
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
