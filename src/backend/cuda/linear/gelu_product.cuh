// Products of BF16 matrices on Hopper that end in GELU or in its derivative.
//
// A block of 16 warps makes tiles of 128 x 192, one after another:
//   producer    one thread fetches both operands, 64 of the sum at a time, into a ring of stages.
//   consumers   two warpgroups multiply 64 rows each, round their sums to BF16 (which the contract of the op
//               asks for anyway) and leave them in shared memory.
//   finishers   seven warps (six in the backward, whose threads own columns) take them from there, apply GELU
//               or its derivative and store whole rows, while the consumers are at the next tile.
// Each output is one sum in the order of the operands, so it depends on no other row.
#pragma once

#include <cuda.h>

#include "backend/cuda/linear/gelu.cuh"
#include "backend/cuda/ptx/async.cuh"
#include "backend/cuda/ptx/warp.cuh"
#include "backend/cuda/ptx/warpgroup.cuh"

namespace elmo::cuda::hopper {

// What a product ends in.
enum class End { kGelu, kDerivative, kDerivativeOfCodes };
constexpr bool is_backward(End end) {
    return end != End::kGelu;
}

// What the end of a product reads and writes, all [rows, cols].
struct GeluProductArgs {
    std::int64_t rows = 0;
    int cols = 0, sum_blocks = 0;  // of 64
    const void* bias = nullptr;    // forward; may be absent
    bool bias_is_bf16 = false;
    bf16* pre = nullptr;            // the forward writes it, where it is wanted; the backward reads it
    std::uint8_t* codes = nullptr;  // in place of pre
    bf16* out = nullptr;    // gelu(pre), where it is wanted; in the backward the sums times its derivative
    bf16* again = nullptr;  // backward: gelu(pre), where it is wanted; may be pre
    float* partials = nullptr;  // backward: column sums of 128 rows each, where they are wanted
};

constexpr int kTileRows = 128, kTileColumns = 192;
constexpr int kDepth = 64, kProductStages = 4;  // of the sum
constexpr int kConsumers = 256, kProductThreads = 512;
constexpr int kProducerWarp = kProductThreads / 32 - 1;
constexpr int kForwardFinishers = 224, kFinishers = 192;  // of the backward
// Registers of a thread; each has 128 at first.
constexpr int kConsumerRegisters = 136, kOtherRegisters = 120;
static_assert(kConsumerRegisters + kOtherRegisters == 2 * 65536 / kProductThreads);

// What lies where in shared memory.
struct ProductLayout {
    static constexpr int kABytes = kTileRows * kDepth * 2, kStageBytes = kABytes + kTileColumns * kDepth * 2;
    static constexpr int kRounded = kProductStages * kStageBytes;          // bf16 [128][192]
    static constexpr int kSums = kRounded + kTileRows * kTileColumns * 2;  // f32 [8][192]: column sums
    static constexpr int kBias = kSums + 8 * kTileColumns * 4;             // f32 [2][192]: of each consumer
    static constexpr int kTable = kBias + 2 * kTileColumns * 4;            // SlopeAndGelu [256]: of codes
    static constexpr int kBarriers = kTable + 256 * 8;
    static constexpr int kBytes = kBarriers + (2 * kProductStages + 4) * 8;

    std::uint32_t base;
    __device__ std::uint32_t stage(int i) const { return base + i * kStageBytes; }
    __device__ std::uint32_t full(int i) const { return base + kBarriers + 8 * i; }
    __device__ std::uint32_t empty(int i) const { return full(kProductStages + i); }
    // The 64 rows of a consumer, rounded.
    __device__ std::uint32_t rounded(int half) const {
        return base + kRounded + half * 64 * kTileColumns * 2;
    }
    __device__ std::uint32_t ready(int half) const { return full(2 * kProductStages + half); }
    __device__ std::uint32_t taken(int half) const { return full(2 * kProductStages + 2 + half); }
};

// A place in the ring, and the parity of its round.
struct RingPlace {
    int stage = 0;
    std::uint32_t parity = 0;
    __device__ void next() {
        if (++stage < kProductStages) return;
        stage = 0;
        parity ^= 1;
    }
};

// The tiles of a block. Those side by side come one after another, so that rows of A come from memory once.
struct Tiles {
    int across, count;
    __device__ explicit Tiles(const GeluProductArgs& args)
        : across((args.cols + kTileColumns - 1) / kTileColumns),
          count(across * static_cast<int>((args.rows + kTileRows - 1) / kTileRows)) {}
    __device__ int row(int tile) const { return tile / across * kTileRows; }
    __device__ int column(int tile) const { return tile % across * kTileColumns; }
    // body(tile, whether an odd number of tiles was before it)
    template <class Body>
    __device__ void for_each(const Body& body) const {
        std::uint32_t odd = 0;
        for (int tile = static_cast<int>(blockIdx.x); tile < count;
             tile += static_cast<int>(gridDim.x), odd ^= 1)
            body(tile, odd);
    }
};

// ---- producer -------------------------------------------------------------------------------------------
// The part of a matrix that begins at (column, row) and is as large as the map says.
__device__ __forceinline__ void copy_part(std::uint32_t to, const CUtensorMap& map, int column, int row,
                                          std::uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

template <bool Backward>
__device__ __forceinline__ void produce(const CUtensorMap& a_map, const CUtensorMap& b_map,
                                        const Tiles& tiles, int sum_blocks, const ProductLayout& in) {
    RingPlace at;
    tiles.for_each([&](int tile, std::uint32_t) {
        const int row = tiles.row(tile), column = tiles.column(tile);
        for (int depth = 0; depth < sum_blocks * kDepth; depth += kDepth, at.next()) {
            const std::uint32_t a = in.stage(at.stage), b = a + ProductLayout::kABytes,
                                full = in.full(at.stage);
            wait_barrier(in.empty(at.stage), at.parity ^ 1);
            arrive_expecting(full, ProductLayout::kStageBytes);
            copy_part(a, a_map, depth, row, full);
            if constexpr (Backward)
#pragma unroll
                for (int i = 0; i < kTileColumns / 64; ++i)
                    copy_part(b + i * 64 * kDepth * 2, b_map, column + 64 * i, depth, full);
            else
                copy_part(b, b_map, depth, column, full);
        }
    });
}

// ---- consumers ------------------------------------------------------------------------------------------
// Of two neighbouring columns; zeros where there are none.
__device__ __forceinline__ float2 load_bias(const GeluProductArgs& args, int column) {
    if (args.bias == nullptr || column >= args.cols) return {};
    if (!args.bias_is_bf16) return static_cast<const float2*>(args.bias)[column / 2];
    const std::uint32_t pair = static_cast<const std::uint32_t*>(args.bias)[column / 2];
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

// Four 8 x 8 matrices of 16-bit elements, as load_matrices (warp.cuh) reads them.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Piece p of 16 bytes of row r of the rounded sums lies at p ^ (r % 8): no two lanes meet in a bank.
template <bool Backward>
__device__ __forceinline__ void consume(const GeluProductArgs& args, const Tiles& tiles,
                                        const ProductLayout& in, float* biases, int warp, int lane) {
    const int group = warp / 4, thread = warp % 4 * 32 + lane;
    float* const bias = biases + group * kTileColumns;
    // Where the lane's row of four matrices goes: rows 0 to 7 and 8 to 15 of the warp, of 8 columns and of
    // the next 8.
    const std::uint32_t rounded = in.rounded(group) + (warp % 4 * 16 + lane % 16) * kTileColumns * 2;
    const int low_piece = (lane / 16) ^ (lane % 8);
    RingPlace at;
    Sums<kTileColumns> sums;
    tiles.for_each([&](int tile, std::uint32_t odd) {
        float2 bias_of_two = {};
        const bool has_bias = !Backward && 2 * thread < kTileColumns;
        if (has_bias) bias_of_two = load_bias(args, tiles.column(tile) + 2 * thread);
        int before = 0;
        for (int block = 0; block < args.sum_blocks; ++block) {
            wait_barrier(in.full(at.stage), at.parity);
            const std::uint64_t a = operand(in.stage(at.stage) + group * 64 * kDepth * 2);
            const std::uint64_t b =
                operand(in.stage(at.stage) + ProductLayout::kABytes, Backward ? 64 * kDepth * 2 : 16);
            begin_products();
#pragma unroll
            for (int k = 0; k < kDepth / 16; ++k)
                multiply<0, Backward>(sums, a + moved(32 * k), b + moved((Backward ? 2048 : 32) * k),
                                      block > 0 || k > 0);
            commit_products();
            if (block > 0) {
                wait_products<1>();
                if (thread == 0) arrive(in.empty(before));
            }
            before = at.stage;
            at.next();
        }
        if (has_bias) reinterpret_cast<float2*>(bias)[thread] = bias_of_two;
        wait_products<0>();
        if (thread == 0) arrive(in.empty(before));
        if constexpr (!Backward) sync_group(1 + group);  // the group's bias is there
        wait_barrier(in.taken(group), odd ^ 1);
#pragma unroll
        for (int j = 0; j < kTileColumns / 8; j += 2) {
            std::uint32_t pairs[4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float2 more = {};
                if constexpr (!Backward)
                    more = *reinterpret_cast<const float2*>(bias + 8 * (j + i) + 2 * (lane % 4));
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int at_sum = 4 * (j + i) + 2 * h;
                    pairs[2 * i + h] = Backward ? pack2(sums[at_sum], sums[at_sum + 1])
                                                : pack2(sums[at_sum] + more.x, sums[at_sum + 1] + more.y);
                }
            }
            store_matrices(rounded + (j & ~7) * 16 + (((j & 6) ^ low_piece) << 4), pairs);
        }
        arrive(in.ready(group));
        if constexpr (!Backward) sync_group(1 + group);  // its bias is used up
    });
}

// ---- finishers ------------------------------------------------------------------------------------------
constexpr int kPieces = kTileColumns / 8;  // of 16 bytes in a row
constexpr int kSlots = kFinishers / kPieces, kSlotRows = 64 / kSlots;
static_assert(kSlots == 8);

// Pieces of half a tile go to the finishers in turn.
__device__ __forceinline__ void finish_forward(const GeluProductArgs& args, const Tiles& tiles,
                                               const ProductLayout& in, int thread) {
    constexpr int kBatch = 4, kEach = (64 * kPieces + kForwardFinishers - 1) / kForwardFinishers;
    tiles.for_each([&](int tile, std::uint32_t odd) {
        const int rows = static_cast<int>(min(args.rows - tiles.row(tile), std::int64_t{kTileRows}));
        const int cols = args.cols - tiles.column(tile);
        const std::int64_t origin = std::int64_t{tiles.row(tile)} * args.cols + tiles.column(tile);
        for (int half = 0; half < 2; ++half) {
            wait_barrier(in.ready(half), odd);
#pragma unroll
            for (int first = 0; first < kEach; first += kBatch) {
                uint4 raw[kBatch];
#pragma unroll
                for (int i = first; i < first + kBatch && i < kEach; ++i) {
                    const int number = thread + i * kForwardFinishers, row = number / kPieces;
                    if (row < 64)
                        raw[i - first] = load_shared(in.rounded(half) + row * kTileColumns * 2 +
                                                     ((number % kPieces ^ row % 8) << 4));
                }
                if (first + kBatch >= kEach) arrive(in.taken(half));
#pragma unroll
                for (int i = first; i < first + kBatch && i < kEach; ++i) {
                    const int number = thread + i * kForwardFinishers, row = number / kPieces,
                              column = number % kPieces * 8;
                    if (row >= 64 || half * 64 + row >= rows || column >= cols) continue;
                    const Packed<8, bf16> sums{raw[i - first]};
                    const std::int64_t place = origin + std::int64_t{half * 64 + row} * args.cols + column;
                    if (args.pre != nullptr) store_packed(args.pre + place, sums);
                    if (args.codes != nullptr)
                        *reinterpret_cast<uint2*>(args.codes + place) = pre_codes(sums);
                    if (args.out == nullptr) continue;
                    float x[8];
                    unpack(sums, x);
#pragma unroll
                    for (float& one : x) one *= phi(one);
                    store8(args.out + place, x);
                }
            }
        }
    });
}

// A finisher's part of half a tile: eight columns of rows s, s + 8, s + 16 and so on, s being its slot.
struct Part {
    std::int64_t place = 0;  // of the first row
    int rows = 0;            // of those up to kSlotRows that exist
};
__device__ __forceinline__ Part part_of(const GeluProductArgs& args, const Tiles& tiles, int tile, int half,
                                        int slot, int piece) {
    if (tile >= tiles.count) return {};
    const std::int64_t row = tiles.row(tile) + half * 64 + slot;
    const int column = tiles.column(tile) + piece * 8;
    if (row >= args.rows || column >= args.cols) return {};
    return {row * args.cols + column,
            static_cast<int>(min((args.rows - row + kSlots - 1) / kSlots, std::int64_t{kSlotRows}))};
}

__device__ __forceinline__ void sync_finishers() {
    asm volatile("bar.sync 3, %0;\n" ::"n"(kFinishers) : "memory");
}

// What a backward sees of a number: the slope of GELU there, and GELU.
struct SlopeAndGelu {
    float slope, gelu;
};
__device__ __forceinline__ SlopeAndGelu slope_and_gelu(float pre) {
    const float share = phi(pre);
    return {slope(pre, share), pre * share};
}
// Of all codes, by the finishers.
__device__ __forceinline__ void fill_table(SlopeAndGelu* table, int thread) {
    for (int code = thread; code < 256; code += kFinishers)
        table[code] = slope_and_gelu(pre_of(static_cast<std::uint8_t>(code)));
    sync_finishers();
}

// pre of half a tile, or its codes, are on their way while the half before is processed. Rows are processed
// two at a time: what one waits for, the other fills. (In the forward that gains nothing.)
template <bool Codes>
__device__ __forceinline__ void finish_backward(const GeluProductArgs& args, const Tiles& tiles,
                                                const ProductLayout& in, float* sums, SlopeAndGelu* table,
                                                int thread) {
    constexpr int kTogether = 2;
    using Seen = std::conditional_t<Codes, Bytes<8>, Packed<8, bf16>>;
    const int piece = thread % kPieces, slot = thread / kPieces;
    const std::int64_t next = std::int64_t{kSlots} * args.cols;
    const std::uint32_t offset = slot * kTileColumns * 2 + ((piece ^ slot) << 4);
    Seen seen[kSlotRows];
    const auto fetch = [&](const Part& part, int i) {
        if (i >= part.rows) return;
        if constexpr (Codes)
            seen[i] = *reinterpret_cast<const uint2*>(args.codes + part.place + i * next);
        else
            seen[i] = load_packed<8>(args.pre + part.place + i * next);
    };
    Part now = part_of(args, tiles, static_cast<int>(blockIdx.x), 0, slot, piece);
#pragma unroll
    for (int i = 0; i < kSlotRows; ++i) fetch(now, i);
    if constexpr (Codes) fill_table(table, thread);
    tiles.for_each([&](int tile, std::uint32_t odd) {
        float sum[8] = {};
        for (int half = 0; half < 2; ++half) {
            const Part then = part_of(args, tiles, half == 0 ? tile : tile + static_cast<int>(gridDim.x),
                                      1 - half, slot, piece);
            wait_barrier(in.ready(half), odd);
#pragma unroll
            for (int first = 0; first < kSlotRows; first += kTogether) {
                float gelu[kTogether][8], d[kTogether][8];
                Seen of[kTogether];
#pragma unroll
                for (int r = 0; r < kTogether; ++r) {
                    const int i = first + r;
                    of[r] = seen[i];
                    fetch(then, i);
                    unpack8(load_shared(in.rounded(half) + offset + i * kSlots * kTileColumns * 2), d[r]);
                }
                if (first + kTogether == kSlotRows) arrive(in.taken(half));
#pragma unroll
                for (int r = 0; r < kTogether; ++r) {
                    if constexpr (!Codes) unpack(of[r], gelu[r]);
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        SlopeAndGelu found;
                        if constexpr (Codes)
                            found = table[byte_of(of[r], j)];
                        else
                            found = slope_and_gelu(gelu[r][j]);
                        d[r][j] *= found.slope;
                        gelu[r][j] = found.gelu;
                    }
                }
#pragma unroll
                for (int r = 0; r < kTogether; ++r) {
                    if (first + r >= now.rows) continue;
                    const std::int64_t place = now.place + (first + r) * next;
                    store_packed(args.out + place, round_packed<bf16>(d[r]));
                    if (args.again != nullptr) store8(args.again + place, gelu[r]);
#pragma unroll
                    for (int j = 0; j < 8; ++j) sum[j] += d[r][j];
                }
            }
            now = then;
        }
        if (args.partials == nullptr) return;
        sync_finishers();  // the sums before are read
        store8(sums + slot * kTileColumns + piece * 8, sum);
        sync_finishers();  // all are there
        static_assert(kFinishers == kTileColumns);
        if (tiles.column(tile) + thread >= args.cols) return;
        float total = 0;
#pragma unroll
        for (int s = 0; s < kSlots; ++s) total += sums[s * kTileColumns + thread];
        args.partials[tiles.row(tile) / kTileRows * std::int64_t{args.cols} + tiles.column(tile) + thread] =
            total;
    });
}

// From here on the threads of this warpgroup have so many registers; more if `More`, once others gave them.
template <int Registers, bool More>
__device__ __forceinline__ void set_registers() {
    if constexpr (More)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Registers));
    else
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

// a [rows, sum] comes in parts of 128 rows; b is [cols, sum] in parts of 192 rows or, in the backward,
// [sum, cols] in parts of 64; all parts have 64 columns. Grid: as many blocks as run at a time.
template <End kEnd>
__global__ void __launch_bounds__(kProductThreads, 1)
    gelu_product_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                        const GeluProductArgs args) {
#ifdef ELMO_HOPPER
    extern __shared__ __align__(1024) unsigned char shared[];
    const ProductLayout in{shared_address(shared)};
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < kProductStages; ++i) {
            init_barrier(in.full(i), 1);
            init_barrier(in.empty(i), 2);
        }
        for (int half = 0; half < 2; ++half) {
            init_barrier(in.ready(half), 128);
            init_barrier(in.taken(half), is_backward(kEnd) ? kFinishers : kForwardFinishers);
        }
        publish_barriers();
    }
    __syncthreads();
    let_next_begin();
    wait_for_previous();
    const Tiles tiles(args);
    if (warp < kConsumers / 32) {
        set_registers<kConsumerRegisters, true>();
        consume<is_backward(kEnd)>(args, tiles, in, reinterpret_cast<float*>(shared + ProductLayout::kBias),
                                   warp, lane);
    } else {
        set_registers<kOtherRegisters, false>();
        const int thread = static_cast<int>(threadIdx.x) - kConsumers;
        if (warp == kProducerWarp) {
            if (lane == 0) produce<is_backward(kEnd)>(a_map, b_map, tiles, args.sum_blocks, in);
        } else if constexpr (is_backward(kEnd)) {
            if (thread < kFinishers)
                finish_backward<kEnd == End::kDerivativeOfCodes>(
                    args, tiles, in, reinterpret_cast<float*>(shared + ProductLayout::kSums),
                    reinterpret_cast<SlopeAndGelu*>(shared + ProductLayout::kTable), thread);
        } else {
            finish_forward(args, tiles, in, thread);
        }
    }
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
