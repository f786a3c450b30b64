// dx and the update of BF16 weights in one kernel on Hopper's warpgroup instructions, for batches of one tile
// and widths that are multiples of 256: W is read once for both, and the products of dx run while weights are
// rounded. The same sums and roundings as input.cuh and update.cuh. (8-bit weights
// gain nothing: they are bound by instructions, not by bytes.)
#pragma once

#include "backend/cuda/head/hopper/update.cuh"

namespace elmo::cuda::hopper {

constexpr int kJoinedStage = 4 * kGradientBytes;  // g of 128 labels by 128 texts
// A warpgroup has x of its columns and two tiles of W; all share two stages of g.
constexpr int kJoinedShared =
    kJoinedGroups * (kTextBlockBytes + 2 * kGradientBytes) + 2 * kJoinedStage + 40 + kAlign;

// A block has 256 columns, a warpgroup 64 of them: it keeps their x in shared memory and their sums of dx in
// registers, and goes over the tiles of one slice (tile of 128 % slices == slice), 64 labels at a time: the
// product of the update starts, then those of dx, and meanwhile the update's sums become weights. g of a tile
// serves all four warpgroups; they take turns fetching the next one, when all are done with the previous one.
// Grid: slices times columns / 256.
template <bool Decays, Noise Kind>
__global__ void __launch_bounds__(kJoinedGroups* kGroupThreads, 1) joined_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    using S = StorageBf16;
    extern __shared__ unsigned char shared[];
    __shared__ alignas(16) PhiloxBlock table[kJoinedColumns / 8];  // kept_noise
    const Thread at;
    const int blocks = static_cast<int>(a.width / kJoinedColumns);
    const std::uint32_t x = aligned_base(shared), ring = x + kJoinedGroups * kTextBlockBytes,
                        tiles = ring + 2 * kJoinedStage, w_tiles = tiles + at.group * 2 * kGradientBytes,
                        full = tiles + kJoinedGroups * 2 * kGradientBytes, empty = full + 16,
                        arrived = empty + 16;
    // Where the thread's pieces of a tile lie: columns 8 q of rows g and g + 8, and 32 columns further.
    const std::uint32_t piece = w_tiles + block_offset(at.warp * 16 + at.g, at.q);
    const auto place = [&](int odd, int h, int m) {
        return (piece ^ (m * 64)) + odd * kGradientBytes + h * 1024;
    };
    const std::int64_t slice = static_cast<std::int64_t>(blockIdx.x) / blocks;
    const std::int64_t block_column = static_cast<std::int64_t>(blockIdx.x) % blocks * kJoinedColumns;
    const std::int64_t first_column = block_column + at.group * kBlock;
    const std::int64_t begin =
        a.first_tile + (slice - a.first_tile % a.num_slices + a.num_slices) % a.num_slices;
    let_next_begin();
    if (begin >= a.last_tile) return;
    const int steps = static_cast<int>((a.last_tile - 1 - begin) / a.num_slices + 1);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            init_barrier(full + i * 8, 1);
            init_barrier(empty + i * 8, kJoinedGroups * 4);  // warps
        }
        init_barrier(arrived, 1);
        publish_barriers();
        arrive_expecting(arrived, kJoinedGroups * kTextBlockBytes);
        copy_bulk(x, static_cast<const char*>(a.x_update) + block_column / kBlock * kTextBlockBytes,
                  kJoinedGroups * kTextBlockBytes, arrived);
    }
    if (threadIdx.x < kJoinedColumns / 8)
        table[threadIdx.x] = kept_noise<Kind>(a, block_column + 8 * static_cast<int>(threadIdx.x));
    __syncthreads();  // the barriers and the noise are there
    wait_for_previous();
    const auto fetch = [&](int step) {
        arrive_expecting(full + step % 2 * 8, kJoinedStage);
        copy_bulk(ring + step % 2 * kJoinedStage,
                  reinterpret_cast<const char*>(a.g_CB) +
                      (begin + step * a.num_slices - a.first_tile) * kJoinedStage,
                  kJoinedStage, full + step % 2 * 8);
    };
    if (threadIdx.x == 0) fetch(0);

    // The thread's part of W, a tile ahead.
    std::int64_t label = begin * kLabelTile + at.warp * 16 + at.g;  // of the thread's first row
    S::Raw* row = static_cast<S::Raw*>(a.w_LD) + label * a.width + first_column + 8 * at.q;
    const auto copy_weights = [&](int odd, std::int64_t next_label, const S::Raw* from) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int m = 0; m < 2; ++m)
                copy16(place(odd, h, m), from + 8 * h * a.width + 32 * m, next_label + 8 * h < a.labels);
        commit_copies();
    };
    copy_weights(0, label, row);

    // Sums of dx: of 64 texts and the next 64, columns 8 j + 2 q and the next.
    Sums<64> dx[2];
    // body(a sum, where it is kept) for those of real texts.
    const auto for_each = [&](const auto& body) {
        float* const out =
            a.dx_slices + (slice * a.batch + at.warp * 16 + at.g) * a.width + first_column + 2 * at.q;
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int text = half * 64 + 8 * h;
                if (at.warp * 16 + at.g + text >= a.batch) continue;
#pragma unroll
                for (int j = 0; j < 8; ++j)
#pragma unroll
                    for (int c = 0; c < 2; ++c)
                        body(dx[half][4 * j + 2 * h + c], out[text * a.width + 8 * j + c]);
            }
    };
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (float& s : dx[half]) s = 0;
    if (begin >= a.num_slices) for_each([](float& s, const float& kept) { s = kept; });

    std::uint32_t saturated = 0;  // BF16 has none
    wait_barrier(arrived, 0);
    for (int step = 0; step < steps; ++step) {
        wait_barrier(full + step % 2 * 8, step / 2 % 2);
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            // The tile that is copied over was read by this warpgroup's products of the turn before. They are
            // done in all four warps although there is no barrier here: a product belongs to the whole
            // warpgroup, and wait_products<0> above has waited for it.
            const std::int64_t further = odd ? (2 * a.num_slices - 1) * kRows : kRows;
            if (odd == 0 || step + 1 < steps)
                copy_weights(1 - odd, label + further, row + further * a.width);
            else
                commit_copies();
            // The tile after that one, to L2: two tiles of W in shared memory do not cover memory's latency.
            if (at.q < 2 && label + 8 * at.q + 2 * a.num_slices * kRows < a.labels)
                prefetch_l2(row + (8 * at.q + 2 * a.num_slices * kRows) * a.width);
            const std::uint64_t g = operand(ring + step % 2 * kJoinedStage + odd * 2 * kGradientBytes),
                                texts = operand(x + at.group * kTextBlockBytes);
            Sums<64> u;
            begin_products();
#pragma unroll
            for (int s = 0; s < 8; ++s)
                multiply<0, 1>(u, g + moved(s / 4 * kGradientBytes + s % 4 * 32), texts + moved(16 * s * 128),
                               s > 0);
            commit_products();
            wait_copies<1>();
            publish_shared();
            sync_group(1 + at.group);  // the tile of W is whole, and all are done with the one before
            begin_products();
            const std::uint64_t w = operand(w_tiles + odd * kGradientBytes);
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    multiply<1, 1>(dx[half], g + moved(half * kGradientBytes + 2048 * k), w + moved(2048 * k),
                                   true);
            commit_products();
            if (odd == 1 && threadIdx.x == step % kJoinedGroups * kGroupThreads && step + 1 < steps) {
                if (step > 0) wait_barrier(empty + (step + 1) % 2 * 8, (step + 1) / 2 % 2 ^ 1);
                fetch(step + 1);
            }
            __syncwarp();
            wait_products<1>();  // the update's sums
            const auto old = [&](int h, int m, float(&v)[8]) { unpack8(load_shared(place(odd, h, m)), v); };
            const NoiseOfRow rows[2] = {row_noise<Kind>(a, label), row_noise<Kind>(a, label + 8)};
            const auto noise = [&](int h, int m) {
                return noise_of<Kind>(a, rows[h], table[at.group * (kBlock / 8) + 4 * m + at.q]);
            };
            update_weights<S, Decays, 2>(a, u, old, noise, Kind == Noise::kMoved ? a.noise_move : 0,
                                         {a.keep, a.keep}, {}, label, row, kBlock, saturated);
            wait_products<0>();
            label += further;
            row += further * a.width;
        }
        if (at.lane == 0) arrive(empty + step % 2 * 8);
    }
    for_each([](const float& s, float& kept) { kept = s; });
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
