// dx of the head on Hopper (hopper.cuh): two warpgroups bring g and W, two multiply.
#pragma once

#include "backend/cuda/head/hopper/hopper.cuh"

namespace elmo::cuda::hopper {

template <int N>
constexpr int kInputStage = 2 * kGradientBytes + kRows* N * 2;  // g of 128 texts, then W of 64 labels
template <class S, int N>
constexpr int kCodeStage = sizeof(typename S::Raw) == 1 ? kRows* N : 0;  // codes under way
template <class S>
constexpr int kInputStages = sizeof(typename S::Raw) == 1 ? 4 : 5;  // BF16 has no place of its own on its way
template <class S, int N>
constexpr int kInputShared = kInputStages<S>*(kInputStage<N> + kCodeStage<S, N> + 16) + kAlign;

constexpr int kBringers = 2, kBroughtAhead = 2;  // warpgroups that bring W; steps that each has under way

// dx of the 128 texts of a batch tile and N columns, over the tiles of one slice (tile of 128 % slices ==
// slice), continued from chunk to chunk. The first two warpgroups bring W to shared memory as BF16, by turns,
// the others multiply, 64 texts each. 8-bit W is decoded with columns 1 and 2 of four exchanged. Grid:
// (blocks of N columns, batch tiles, slices).
template <class S, int N>
__global__ void __launch_bounds__(kInputGroups* kGroupThreads, 1) input_gradient_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    constexpr bool kCodes = sizeof(typename S::Raw) == 1;
    constexpr int kStages = kInputStages<S>, kSize = static_cast<int>(sizeof(typename S::Raw));
    constexpr int kPieces = N * kSize / 16, kTimes = kRows * kPieces / kGroupThreads;
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
    const int halves = a.text_blocks == 1 ? 1 : 2;  // of the batch tile that have texts
    const auto tile_of = [&](int step) { return (begin + step / 2 * a.num_slices) * 2 + step % 2; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) {
            init_barrier(full + i * 8, kGroupThreads);
            init_barrier(empty + i * 8, 4 * halves);  // a warp of those that multiply
        }
        publish_barriers();
    }
    __syncthreads();  // the barriers are there
    if (at.group < kBringers) {
        const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
        const std::int64_t row_bytes = bytes_of_row<S>(a);
        const char* const w = static_cast<const char*>(a.w_LD) + raws<S>(first_column) * kSize;
        const char* const g = reinterpret_cast<const char*>(a.g_CB) + batch_tile * 2 * kGradientBytes;
        // The piece of W that this thread takes i-th. Eight neighbours take four pieces of two rows, so
        // that they write to all banks.
        int row[kTimes], piece[kTimes];
        const std::int64_t pieces = (a.stride - first_column) * kSize / 16;  // that the row has
#pragma unroll
        for (int i = 0; i < kTimes; ++i) {
            const int eight = (i * kGroupThreads + thread) / 8;
            row[i] = eight / (kPieces / 4) * 2 + thread / 4 % 2;
            piece[i] = eight % (kPieces / 4) * 4 + thread % 4;
        }
        // Where it goes: codes to a separate place, BF16 to where products read it.
        const auto target = [&](int s, int i) {
            if constexpr (kCodes)
                return codes + s * kCodeStage<S, N> + (i * kGroupThreads + thread) * 16;
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
                    copy_piece<S>(target(step % kStages, i),
                                  from + row[i] * row_bytes + piece[i] * kPieceBytes<S>,
                                  label + row[i] < a.labels && piece[i] < pieces);
            }
            commit_copies();
        };
        const auto wait_empty = [&](int step) {
            wait_barrier(empty + step % kStages * 8, (step / kStages % 2) ^ 1);
        };
        const auto fetch_g = [&](int step) {
            if (thread != 0 || step >= steps) return;
            const int s = step % kStages;
            expect(full + s * 8, halves * kGradientBytes);
            copy_bulk(base + s * kInputStage<N>,
                      g + (tile_of(step) - a.first_tile * 2) * a.text_blocks * kGradientBytes,
                      halves * kGradientBytes, full + s * 8);
        };
        for (int i = 0; i < kBroughtAhead; ++i) fetch(at.group + i * kBringers);
        wait_for_previous();
        if constexpr (!kCodes)
            for (int i = 0; i < kBroughtAhead; ++i) fetch_g(at.group + i * kBringers);
        for (int step = at.group; step < steps; step += kBringers) {
            const int s = step % kStages, later = step + kBroughtAhead * kBringers;
            if constexpr (kCodes) {
                wait_empty(step);
                fetch_g(step);
                wait_copies<kBroughtAhead - 1>();
                const std::uint32_t to = base + s * kInputStage<N> + 2 * kGradientBytes;
                uint4 raw[kTimes];
#pragma unroll
                for (int i = 0; i < kTimes; ++i) raw[i] = unpacked<S>(load_shared(target(s, i)));
#pragma unroll
                for (int i = 0; i < kTimes; ++i) {
                    uint4 low, high;
                    decode_alternate<typename S::Format>(raw[i].x, low.x, low.y);
                    decode_alternate<typename S::Format>(raw[i].y, low.z, low.w);
                    decode_alternate<typename S::Format>(raw[i].z, high.x, high.y);
                    decode_alternate<typename S::Format>(raw[i].w, high.z, high.w);
                    const std::uint32_t block = to + piece[i] / 4 * kGradientBytes;
                    store_shared(block + block_offset(row[i], piece[i] % 4 * 2), low);
                    store_shared(block + block_offset(row[i], piece[i] % 4 * 2 + 1), high);
                }
                publish_shared();
                arrive(full + s * 8);
                fetch(later);
            } else {
                wait_copies<kBroughtAhead - 1>();
                publish_shared();
                arrive(full + s * 8);
                if (later < steps) wait_empty(later);
                fetch_g(later);
                fetch(later);
            }
        }
        return;
    }
    const int half = at.group - kBringers;  // which 64 texts
    if (half >= halves) return;
    wait_for_previous();
    // Columns 2 q and 2 q + 1 of eight; of codes, those that were decoded to there.
    constexpr int kSecond = kCodes ? 2 : 1;
    const std::int64_t column = first_column + (kCodes ? at.q / 2 * 4 + at.q % 2 : 2 * at.q);
    float* const out = a.dx_slices + slice * a.batch * a.width + column;
    const auto columns = static_cast<int>(a.width - column);  // from there on
    const std::int64_t first_row = batch_tile * kBatchTile + half * 64 + at.warp * 16 + at.g;
    Sums<N> sum;
    // body(a sum, where it is kept) for those of real texts and columns.
    const auto for_each = [&](const auto& body) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (first_row + 8 * h >= a.batch) continue;
            float* const row = out + (first_row + 8 * h) * a.width;
#pragma unroll
            for (int j = 0; j < N / 8; ++j)
#pragma unroll
                for (int c = 0; c < 2; ++c)
                    if (8 * j + c * kSecond < columns) body(sum[4 * j + 2 * h + c], row[8 * j + c * kSecond]);
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
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
