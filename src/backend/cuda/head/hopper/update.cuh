// The update of the head on Hopper (hopper.cuh): the product g X, and W rounded from its sums.
#pragma once

#include "backend/cuda/head/hopper/hopper.cuh"

namespace elmo::cuda::hopper {

constexpr int kUpdateColumns = 128;
constexpr int kFarPower = 40;  // 2^-2n times a learning rate is a normal FP32 number for |n| up to here
// How g and x come: g in blocks of 64 texts, so many at a time, and x once, or (of batches that do not fit in
// shared memory) with every block of g.
enum class Texts { kTwo, kOne, kStreamed };
constexpr Texts update_texts(std::int64_t text_blocks) {
    return text_blocks > 8                       ? Texts::kStreamed
           : text_blocks == 1 || text_blocks > 4 ? Texts::kOne
                                                 : Texts::kTwo;
}
template <Texts How>
constexpr int kUpdateBlocks = How == Texts::kTwo ? 2 : 1;
template <Texts How, int Side>
constexpr int kUpdateStages = How == Texts::kTwo&& Side == 1 ? 2 : 3;  // of g, of each team
constexpr int kTextStages = 6;                  // of streamed x, which all warpgroups share
constexpr int kTextStage = 2 * kGradientBytes;  // 64 texts by 128 columns
template <Texts How, int Side>
constexpr int update_shared(std::int64_t padded_batch) {
    return (How == Texts::kStreamed ? kTextStages * kTextStage
                                    : static_cast<int>(padded_batch) * Side * kUpdateColumns * 2) +
           kUpdateGroups / Side * kUpdateStages<How, Side> * (kUpdateBlocks<How> * kGradientBytes + 8) +
           kTextStages * 12 + 8 + kAlign;
}

// Noise of the rounding: a weight's own, new in every step; its own, moved by a.noise_move; or a column's,
// moved.
enum class Noise { kOwn, kMoved, kCommon };

// A column's noise of eight columns from `column` on, moved.
__device__ __forceinline__ PhiloxBlock common_noise(const HeadArgs& a, std::int64_t column) {
    PhiloxBlock words = philox4x32(noise_counter(a.rounding, 0, column >> 3), a.rounding_keys);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        words[i] = ((words[i] + (a.noise_move >> 16)) & 0xffffu) | ((words[i] & 0xffff0000u) + a.noise_move);
    return words;
}
// What a block of threads keeps of eight columns from `column` on: of a weight's own noise the columns' part
// (takes() has seen that it serves all labels), or a column's noise, moved.
template <Noise Kind>
__device__ __forceinline__ PhiloxBlock kept_noise(const HeadArgs& a, std::int64_t column) {
    if constexpr (Kind == Noise::kCommon)
        return common_noise(a, column);
    else
        return noise_of_columns(a.rounding, a.rounding_keys, a.first_label, column >> 3);
}
// The row's part of a weight's own noise.
template <Noise Kind>
__device__ __forceinline__ NoiseOfRow row_noise(const HeadArgs& a, std::int64_t label) {
    if constexpr (Kind == Noise::kCommon)
        return {};
    else
        return noise_of_row(a.rounding, a.rounding_keys, a.first_label + label);
}
// The noise of eight weights, before it is moved.
template <Noise Kind>
__device__ __forceinline__ PhiloxBlock noise_of(const HeadArgs& a, const NoiseOfRow& row,
                                                const PhiloxBlock& kept) {
    if constexpr (Kind == Noise::kCommon)
        return kept;
    else
        return noise_block(row, kept, a.rounding_keys);
}

__device__ __forceinline__ void prefetch_l2(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// A thread's pieces of a row begin at columns piece q + 4 piece p; each is one eight or two. Where eight m of
// them begins.
template <class S>
constexpr int kPiece = piece_columns(sizeof(typename S::Raw) == 1);
template <class S>
__device__ __forceinline__ constexpr int eight_column(int m) {
    constexpr int kEights = kPiece<S> / 8;
    return m / kEights * 4 * kPiece<S> + m % kEights * 8;
}
// The sum of a thread that belongs to element i of eight m of row h.
template <int N>
__device__ __forceinline__ float& sum_of_eight(float (&u)[N], int h, int m, int i) {
    return u[4 * (4 * m + i / 2) + 2 * h + i % 2];
}

// Row h of a thread's two, where its label has compensation: the sums go to where compensate.cuh finds them
// (`to`: at the thread's first column, of so many columns), and become 0, which leaves the weights as they
// are.
template <class S, int M>
__device__ __forceinline__ void hand_over_row(float (&u)[16 * M], int h, float* to, int columns) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float& sum = sum_of_eight(u, h, m, i);
            v[i] = sum;
            sum = 0;
        }
        if (eight_column<S>(m) < columns) store8(to + eight_column<S>(m), v);
    }
}

// Sums of 64 labels and 32 M columns become new weights: the thread's two rows, of label `label` and of the
// eighth after it, M eights of each (eight_column). old(h, m, v) gives what eight of them were, times
// kUnpacked, noise(h, m) their noise, still to be moved by `move`; keep[h] is what decay leaves of a row.
// `row`: where the first is stored; `columns`: those of W from there on.
//
// Rows with exponents are updated in units of their codes, from the sums of f g: W / f = SR((W / f) keep -
// (lr / f^2) (f g) X). A power of two changes no digit of FP32's roundings; a number outside the normal range
// is so far below the 17 digits that rounding uses, or so far beyond the largest code, that its digits do not
// matter.
template <class S, bool Decays, int M, class Old, class DrawNoise>
__device__ __forceinline__ void update_weights(const HeadArgs& a, float (&u)[16 * M], const Old& old,
                                               const DrawNoise& noise, std::uint32_t move,
                                               const float (&keep)[2], const std::uint8_t (&exponent)[2],
                                               std::int64_t label, typename S::Raw* row, int columns,
                                               std::uint32_t& saturated) {
    const auto eight = [&](int h, int m, int i) -> float& { return sum_of_eight(u, h, m, i); };
    // Whether all are within range: by a sum of squares, or by the largest.
    float size = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float lr = -a.lr * S::kUnpacked;
        if constexpr (kRowCodes<S>) {
            const int power = power_of_row(a, exponent[h]);
            const float inverse = power_of_two(-power);
            lr *= inverse;
            if (power <= kFarPower && power >= -kFarPower)
                lr *= inverse;
            else
#pragma unroll
                for (int i = 0; i < 8 * M; ++i) eight(h, i / 8, i % 8) *= inverse;
        }
#pragma unroll
        for (int m = 0; m < M; ++m) {
            float v[8];
            old(h, m, v);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float& x = eight(h, m, i);
                x = fmaf(lr, x, Decays ? v[i] * keep[h] : v[i]);
                size = S::kWide ? fmaf(x, x, size) : larger_size(size, x);
            }
        }
    }
    if constexpr (S::kWide) {
        if (!(size < S::kSquares))
#pragma unroll
            for (float& x : u) x = S::within_range(x, saturated);
    } else if (!(size <= S::kLargest)) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (label + 8 * h >= a.labels) continue;
            std::uint32_t count = 0;
#pragma unroll
            for (int i = 0; i < 8 * M; ++i) {
                float& x = eight(h, i / 8, i % 8);
                x = S::within_range(x, count);
            }
            note_saturation(a, label + 8 * h, count, saturated);
        }
    }
    const auto rounded = [&](int h, int m) {
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = eight(h, m, i);
        return S::round8(v, noise(h, m), move);
    };
#pragma unroll
    for (int m = 0; m < M; m += kPiece<S> / 8)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            uint4 piece;
            if constexpr (kPiece<S> == 8) {
                piece = rounded(h, m);
            } else {
                const uint2 first = rounded(h, m), second = rounded(h, m + 1);
                piece = make_uint4(first.x, first.y, second.x, second.y);
            }
            if (label + 8 * h < a.labels && eight_column<S>(m) < columns)
                store_piece<S>(row + 8 * h * raws<S>(a.stride) + raws<S>(eight_column<S>(m)), piece);
        }
}

// What a thread counted, to the step's report.
template <class S>
__device__ __forceinline__ void add_saturations(const HeadArgs& a, const Thread& at,
                                                std::uint32_t saturated) {
    if constexpr (sizeof(typename S::Raw) == 1) {
        const unsigned total = __reduce_add_sync(0xffffffffu, saturated);
        if (at.lane == 0 && total > 0)
            atomicAdd(&a.report->saturations, static_cast<unsigned long long>(total));
    }
}

// W = SR(W keep - lr g X) of the chunk's labels. A warpgroup has 128 columns of x, of all texts or streamed,
// and takes tiles of 64 labels. `Side` of them with neighbouring columns are a team, which takes the same
// tiles: g comes from L2 once for all of them, while they round. The one that is done last with a stage of g,
// or with a block of streamed x, fetches the next; otherwise warpgroups are independent.
// Grid: a multiple of padded_width / (128 Side).
template <class S, bool Decays, Noise Kind, Texts How, int Side, bool Compensates = false>
__global__ void __launch_bounds__(kUpdateGroups* kGroupThreads, 1) update_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    using Raw = typename S::Raw;
    constexpr bool kStreams = How == Texts::kStreamed;
    static_assert(Side == 1 || !kStreams);
    constexpr int kStages = kUpdateStages<How, Side>, kBlocks = kUpdateBlocks<How>,
                  kStage = kBlocks * kGradientBytes, kTeams = kUpdateGroups / Side;
    extern __shared__ unsigned char shared[];
    __shared__ alignas(16) PhiloxBlock table[Side * kUpdateColumns / 8];  // kept_noise
    const Thread at;
    const int team = at.group / Side, side = at.group % Side;
    const int columns = static_cast<int>(a.padded_width / (Side * kUpdateColumns));
    const std::uint32_t x_block = static_cast<std::uint32_t>(a.padded_batch) * 128;  // bytes of 64 columns
    const std::uint32_t x = aligned_base(shared),
                        rings = x + (kStreams ? kTextStages * kTextStage : 2 * Side * x_block),
                        ring = rings + team * kStages * kStage;
    const std::uint32_t arrived = rings + kTeams * kStages * kStage, full_x = arrived + 8,
                        full = full_x + kTextStages * 8 + team * kStages * 8;
    __shared__ std::uint32_t released[kTextStages];   // how often warpgroups were done with a stage of x
    __shared__ std::uint32_t done[kTeams * kStages];  // and with a stage of g
    const std::int64_t block_column =
        static_cast<std::int64_t>(blockIdx.x) % columns * (Side * kUpdateColumns);
    const std::int64_t first_column = block_column + side * kUpdateColumns;
    const std::int64_t tile_step = static_cast<std::int64_t>(gridDim.x) / columns * kTeams;
    const std::int64_t first = a.first_tile * 2, last = min(a.last_tile * 2, (a.labels + kRows - 1) / kRows);
    const std::int64_t block_tile = first + static_cast<std::int64_t>(blockIdx.x) / columns * kTeams;
    std::int64_t tile = block_tile + team;
    const auto text_blocks = static_cast<int>(a.text_blocks);
    const char* const x_from = static_cast<const char*>(a.x_update) + block_column / kBlock * x_block;
    const auto fetch_x = [&](int stage, int block) {
        arrive_expecting(full_x + stage * 8, kTextStage);
        for (int i = 0; i < 2; ++i)
            copy_bulk(x + stage * kTextStage + i * kGradientBytes,
                      x_from + i * x_block + block * kGradientBytes, kGradientBytes, full_x + stage * 8);
    };
    let_next_begin();
    if (threadIdx.x == 0) {
        for (int i = 0; i <= kTextStages + kTeams * kStages; ++i) init_barrier(arrived + i * 8, 1);
        for (std::uint32_t& count : done) count = 0;
        publish_barriers();
        if constexpr (kStreams) {
            for (int i = 0; i < kTextStages; ++i) {
                released[i] = 0;
                fetch_x(i, i % text_blocks);
            }
        } else {
            arrive_expecting(arrived, 2 * Side * x_block);
            for (int i = 0; i < 2 * Side; ++i)
                copy_bulk(x + i * x_block, x_from + i * x_block, x_block, arrived);
        }
    }
    if (threadIdx.x < Side * kUpdateColumns / 8)
        table[threadIdx.x] = kept_noise<Kind>(a, block_column + 8 * threadIdx.x);
    __syncthreads();  // the barriers and the noise are there
    // One thread of each group follows how g is fetched, block after block, tile after tile.
    const bool fetches = threadIdx.x % kGroupThreads == 0;
    std::int64_t fetched_tile = tile;
    int fetched_block = 0, fetched_stage = 0;
    const auto fetch = [&](bool is_last) {
        if (!fetches || fetched_tile >= last) return;
        if (is_last) {
            const char* from = reinterpret_cast<const char*>(a.g_CB) +
                               ((fetched_tile - first) * text_blocks + fetched_block) * kGradientBytes;
            arrive_expecting(full + fetched_stage * 8, kStage);
            copy_bulk(ring + fetched_stage * kStage, from, kStage, full + fetched_stage * 8);
        }
        fetched_stage = (fetched_stage + 1) % kStages;
        fetched_block += kBlocks;
        if (fetched_block < text_blocks) return;
        fetched_block = 0;
        fetched_tile += tile_step;
    };
    // The group is done with the oldest stage of g.
    const auto release = [&] {
        bool is_last = true;
        if (Side > 1 && fetches) {
            __threadfence_block();
            is_last = atomicAdd(&done[team * kStages + fetched_stage], 1u) % Side == Side - 1;
            __threadfence_block();
        }
        fetch(is_last);
    };
    // Streamed x. The same thread says that the group is done with the oldest stage.
    int x_stage = 0, released_stage = 0, next_block = kTextStages % text_blocks;
    std::uint32_t x_parity = 0;
    std::int64_t x_left = (last - block_tile + tile_step - 1) / tile_step * text_blocks - kTextStages;
    const auto release_x = [&] {
        if (!kStreams || !fetches) return;
        __threadfence_block();
        const std::uint32_t others = atomicAdd(&released[released_stage], 1u) % kUpdateGroups;
        if (others == kUpdateGroups - 1 && x_left > 0) {
            __threadfence_block();
            fetch_x(released_stage, next_block);
        }
        --x_left;
        next_block = next_block + 1 == text_blocks ? 0 : next_block + 1;
        released_stage = released_stage + 1 == kTextStages ? 0 : released_stage + 1;
    };
    const auto wait_x = [&] {
        wait_barrier(full_x + x_stage * 8, x_parity);
        if (++x_stage == kTextStages) x_stage = 0, x_parity ^= 1;
    };
    wait_for_previous();
    for (int i = 0; i < kStages; ++i) fetch(side == 0);
    if constexpr (!kStreams) wait_barrier(arrived, 0);
    int stage = 0;
    std::uint32_t parity = 0, saturated = 0;
    Raw* const mine = static_cast<Raw*>(a.w_LD) + raws<S>(first_column + kPiece<S> * at.q);
    const std::int64_t row_raws = raws<S>(a.stride);
    const auto row_columns = static_cast<int>(a.stride - first_column) - kPiece<S> * at.q;
    for (; tile < last; tile += tile_step) {
        const std::int64_t label = tile * kRows + at.warp * 16 + at.g;  // of h = 0
        Raw* const row = mine + label * row_raws;
        typename S::Eight old[2][4] = {};
        const std::uint8_t exponent[2] = {stored_exponent<S>(a, label), stored_exponent<S>(a, label + 8)};
#pragma unroll
        for (int h = 0; h < 2; ++h)
            if (label + 8 * h < a.labels)
#pragma unroll
                for (int m = 0; m < 4; m += kPiece<S> / 8)
                    if (eight_column<S>(m) < row_columns) {
                        const uint4 piece =
                            load_piece<S>(row + 8 * h * row_raws + raws<S>(eight_column<S>(m)));
                        if constexpr (kPiece<S> == 8) {
                            old[h][m] = piece;
                        } else {
                            old[h][m] = make_uint2(piece.x, piece.y);
                            old[h][m + 1] = make_uint2(piece.z, piece.w);
                        }
                    }
        // The lines of the next tile, to L2: rounding waits for memory otherwise.
        if constexpr (sizeof(Raw) == 1)
            if (at.q < 2 && tile + tile_step < last && label + 8 * at.q + tile_step * kRows < a.labels)
                prefetch_l2(row + (8 * at.q + tile_step * kRows) * row_raws);
        // The labels of the warp that have compensation.
        std::uint32_t marked = 0;
        if constexpr (Compensates)
            if (const std::int64_t label_of_warp = tile * kRows + at.warp * 16; label_of_warp < a.labels)
                marked = a.marks[label_of_warp / 32 * 2] >> (label_of_warp % 32) & 0xffffu;
        Sums<128> u;
        for (int b = 0; b < text_blocks; b += kBlocks) {
            wait_barrier(full + stage * 8, parity);
            const std::uint64_t g = operand(ring + stage * kStage);
            const std::uint64_t texts =
                kStreams ? operand(x + x_stage * kTextStage, kGradientBytes)
                         : operand(x + side * 2 * x_block, x_block) + moved(b * kBlock * 128);
            if constexpr (kStreams) wait_x();
            begin_products();
#pragma unroll
            for (int s = 0; s < 4 * kBlocks; ++s)
                multiply<0, 1>(u, g + moved(s / 4 * kGradientBytes + s % 4 * 32), texts + moved(16 * s * 128),
                               b + s > 0);
            commit_products();
            if (b > 0) {
                wait_products<1>();
                sync_group(1 + at.group);  // all warps are done with the block before
                release();
                release_x();
            }
            if (++stage == kStages) stage = 0, parity ^= 1;
        }
        wait_products<0>();
        sync_group(1 + at.group);  // all warps are done with the last block
        release();
        release_x();
        float keep[2] = {a.keep, a.keep};
        if (Compensates && marked != 0)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                if (marked >> (at.g + 8 * h) & 1u) {
                    const std::int64_t row = compensated_row(a, label + 8 * h) - a.first_compensated,
                                       column = first_column + kPiece<S> * at.q;
                    keep[h] = 1;
                    hand_over_row<S, 4>(u, h, a.compensated_sums + row * a.width + column,
                                        static_cast<int>(a.width - column));
                }
        const auto old_weights = [&](int h, int m, float(&v)[8]) { S::unpack(old[h][m], v); };
        const NoiseOfRow rows[2] = {row_noise<Kind>(a, label), row_noise<Kind>(a, label + 8)};
        const auto noise = [&](int h, int m) {
            return noise_of<Kind>(a, rows[h],
                                  table[(side * kUpdateColumns + kPiece<S> * at.q + eight_column<S>(m)) / 8]);
        };
        update_weights<S, Decays, 4>(a, u, old_weights, noise, Kind == Noise::kMoved ? a.noise_move : 0, keep,
                                     exponent, label, row, row_columns, saturated);
    }
    // The other warpgroups of the block may have one tile more.
    if (kStreams && fetches && tile - team < last)
        for (int b = 0; b < text_blocks; ++b) {
            wait_x();
            release_x();
        }
    __syncwarp();
    add_saturations<S>(a, at, saturated);
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
