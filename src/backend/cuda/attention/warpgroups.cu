// Attention with BF16 storage and heads of 32 or 64 on Hopper's warpgroup instructions, for texts of any
// length; made for those that short.cu does not take.
//
// A warpgroup serves 64 rows of one head of one text, 16 per warp, and walks over the other side of the score
// matrix in tiles of 64 rows. In the forward and for dQ its rows are queries and the tiles are keys; for dK
// and dV it is the other way round. Three tiles have room: while one is multiplied the next two are on their
// way. Every result is summed by one warp in one order: no atomics, the same bits each time.
//
// Rows from a text's end to a multiple of 64 are zeros in shared memory.
//
// The compiler lets products run on only if it sees that nothing else writes their sums: loops over tiles
// have no way around them, since a text has at least one, and sums are pinned after each wait. If it does not
// see it, it says so (C7515 of ptxas) and waits after each product.
//
// Roundings, u = 2^-24 (FP32), w = 2^-9 (BF16): every product of two BF16 numbers is exact, every sum FP32
// (the tensor cores may truncate when they add: up to 2u per term instead of u). The comment above each
// kernel lists what it rounds to BF16.
#include "backend/cuda/attention/warpgroups.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/ptx/async.cuh"
#include "backend/cuda/ptx/warpgroup_columns.cuh"

namespace elmo::cuda {
namespace {

using hopper::begin_products;
using hopper::block_operand;
using hopper::commit_products;
using hopper::moved;
using hopper::publish_shared;
using hopper::Sums;
using hopper::wait_products;

constexpr int kTile = 64, kStages = 3;
[[maybe_unused]] constexpr int kAlign = 1024;  // of operands of products

// Warpgroups of a block, and blocks of a multiprocessor: as many as their registers allow.
constexpr int kForwardGroups = 2, kForwardBlocks = 2;
constexpr int kBackwardGroups = 1, kBackwardBlocks = 3;

// Shared memory, in bytes from its begin: a block's own rows of one or two matrices, then stages, each a tile
// of two matrices, then two numbers for each row of the stages.
template <int Size, int Groups, int Own>
struct GroupLayout {
    static constexpr int kRowBytes = SharedRows<Size>::kRowBytes;
    static constexpr int kOwn = 64 * Groups * kRowBytes;  // of one matrix
    static constexpr int kTileBytes = kTile * kRowBytes;
    static constexpr int kTiles = Own * kOwn;
    static constexpr int kNumbers = kTiles + kStages * 2 * kTileBytes;
    static constexpr int kBytes =
        kNumbers + 8 * (kStages * kTile > 64 * Groups ? kStages * kTile : 64 * Groups);
};

[[maybe_unused]] __device__ __forceinline__ std::uint32_t stage_offset(int tile, int bytes) {
    return static_cast<std::uint32_t>(tile % kStages * 2 * bytes);
}

// Starts the copy of a tile of a text's keys and values to its stage; past the end, of nothing.
template <int Size, int Threads>
__device__ __forceinline__ void copy_keys(std::uint32_t tiles, const bf16* text, int width, int length,
                                          int tile) {
    constexpr int kTileBytes = kTile * SharedRows<Size>::kRowBytes;
    const ThreadPieces<Size, Threads, kTile> pieces;
    const std::uint32_t to = tiles + stage_offset(tile, kTileBytes);
    const bf16* from = text + tile * kTile * 3 * width + width;
    if (tile * kTile < length) {
        pieces.copy_all(to, from, 3 * width, length - tile * kTile);
        pieces.copy_all(to + kTileBytes, from + width, 3 * width, length - tile * kTile);
    }
    commit_copies();
}

// Keeps what reads or writes the sums on its side of this: the instructions that start products and wait for
// them do not name the registers that are in use meanwhile.
template <int N>
__device__ __forceinline__ void pin(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// c (64 x 64) = 64 shared rows of a times the transpose of 64 shared rows of b.
template <int Size>
__device__ __forceinline__ void multiply_rows(Sums<64>& c, std::uint32_t a, std::uint32_t b) {
    const std::uint64_t from = block_operand<Size>(a), with = block_operand<Size>(b);
    hopper::multiply_first(c, from, with);
#pragma unroll
    for (int k = 1; k < Size / 16; ++k)
        hopper::multiply<0, 0>(c, from + moved(32 * k), with + moved(32 * k), true);
    commit_products();
}

// sum (64 x Size) += a (64 x 64, of registers) times 64 shared rows.
template <int Size>
__device__ __forceinline__ void add_rows(Sums<Size>& sum, const std::uint32_t (&a)[4][4], std::uint32_t b) {
    const std::uint64_t with = block_operand<Size>(b);
    begin_products();
#pragma unroll
    for (int k = 0; k < 4; ++k)
        hopper::add_transposed(sum, a[k], with + moved(16 * SharedRows<Size>::kRowBytes * k));
    commit_products();
}

// 16 columns of c, rounded to BF16, as an a operand.
[[maybe_unused]] __device__ __forceinline__ void pack_columns(std::uint32_t (&a)[4], const Sums<64>& c,
                                                              int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = pack2(c[8 * k + 2 * i], c[8 * k + 2 * i + 1]);
}

template <int Size>
__device__ __forceinline__ void store_sums(bf16* to, std::int64_t stride, int valid, const Sums<Size>& sum,
                                           float upper, float lower, unsigned char* rows, int lane) {
    float c[Size / 8][4];
#pragma unroll
    for (int i = 0; i < Size / 2; ++i) c[i / 4][i % 4] = sum[i];
    store_rows<Size>(to, stride, valid, c, upper, lower, rows, lane);
}

// Where the words of a block of 16 queries of a text and head begin: no two blocks share a place.
[[maybe_unused]] __device__ __forceinline__ std::uint32_t* words_of(const KeptBits& kept, int heads,
                                                                    const BlockOfText& block,
                                                                    int query_block) {
    const std::int64_t row = block.begin / 16 + block.text + query_block;
    return kept.words + (row * heads + block.head) * kept.key_tiles * 32;
}

// Where among the words of a tile that of a lane is: lanes of queries 2q and 2q + 1 beside each other.
[[maybe_unused]] __device__ __forceinline__ int place_of(int lane) {
    return (lane & 24) | (lane & 3) << 1 | (lane >> 2 & 1);
}

// Leaves what dropout keeps for the backward, where asked for.
//
// Roundings: scores and weights stay FP32. With c = fl(scale * log2 e), a weight is 2^fma(score, c, -m),
// where m is the largest score seen so far times c; a later, larger one multiplies the sums by 2^(m - m'),
// which is one exponential and one product more on the terms before it. The sum of the weights is of FP32
// numbers; for the product with V each weight (in [0, 1], before the division by the sum) is rounded to BF16:
// w relative, each. The context is sum * (dropout scale / sum of weights), rounded to BF16. lse = (m +
// log2(sum)) * ln 2.
template <int Size, bool Drops>
__global__ void __launch_bounds__(128 * kForwardGroups, kForwardBlocks)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
#ifdef ELMO_HOPPER
    after_previous();
    using Rows = SharedRows<Size>;
    using Layout = GroupLayout<Size, kForwardGroups, 1>;
    constexpr int kOwnRows = 64 * kForwardGroups, kThreads = 128 * kForwardGroups;
    extern __shared__ __align__(kAlign) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const BlockOfText block(shape, kOwnRows);
    if (block.left <= 0) return;

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int q = lane & 3;
    const int width = static_cast<int>(shape.width), stride = 3 * width;
    const bf16* text = args.qkv + block.begin * stride + block.head * Size;
    const std::uint32_t own = shared_address(shared);
    const auto copy_tile = [&](int tile) {
        copy_keys<Size, kThreads>(own + Layout::kTiles, text, width, block.length, tile);
    };
    ThreadPieces<Size, kThreads, kOwnRows>().copy_all(own, text + block.first * stride, stride, block.left);
    copy_tile(0);
    copy_tile(1);

    const int row0 = block.first + 16 * warp;  // of the text
    const float factor = shape.scale * kLog2e;
    const std::int64_t noise_row = (block.begin + row0 + (lane & 15)) * shape.heads + block.head;
    const std::uint32_t queries = own + warp / 4 * 64 * Rows::kRowBytes;
    std::uint32_t* const kept = Drops && args.kept.words != nullptr && row0 < block.length
                                    ? words_of(args.kept, shape.heads, block, row0 / 16) + place_of(lane)
                                    : nullptr;
    Sums<Size> sum = {};
    float top[2] = {-INFINITY, -INFINITY};    // largest scores of rows lane / 4 and eight below
    float shift[2] = {-INFINITY, -INFINITY};  // top * factor
    float total[2] = {0, 0};                  // of the weights this lane has seen

    const int num_tiles = (block.length + kTile - 1) / kTile;
    int tile = 0;
    do {
        wait_copies<1>();
        wait_products<0>();
        publish_shared();
        __syncthreads();  // the tile is there, and the one before is used up
        copy_tile(tile + 2);
        const std::uint32_t keys = own + Layout::kTiles + stage_offset(tile, Layout::kTileBytes);
        Sums<64> score;
        begin_products();
        multiply_rows<Size>(score, queries, keys);
        const int left = block.length - tile * kTile;
        QueryMask mask;
        if (Drops) {
            mask.draw(shape, noise_row, tile * (kTile / 16), kTile / 16, lane);
            if (kept != nullptr) kept[32 * tile] = mask.word();
        }
        wait_products<0>();
        pin(score);
        pin(sum);
        if (left < kTile) {
#pragma unroll
            for (int i = 0; i < 32; ++i)
                if (8 * (i / 4) + 2 * q + (i & 1) >= left) score[i] = -INFINITY;
        }
        float largest[2] = {score[0], score[2]};
#pragma unroll
        for (int i = 0; i < 32; ++i) largest[i >> 1 & 1] = fmaxf(largest[i >> 1 & 1], score[i]);
        float shrink[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            top[r] = fmaxf(top[r], max_of_quad(largest[r]));
            const float next = top[r] * factor;
            shrink[r] = exp2_fast(shift[r] - next);
            shift[r] = next;
            total[r] *= shrink[r];
        }
#pragma unroll
        for (int i = 0; i < Size / 2; ++i) sum[i] *= shrink[i >> 1 & 1];
        std::uint32_t weights[4][4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int i = 8 * k; i < 8 * k + 8; ++i) {
                score[i] = exp2_fast(__fmaf_rn(score[i], factor, -shift[i >> 1 & 1]));
                total[i >> 1 & 1] += score[i];
            }
            pack_columns(weights[k], score, k);
            if (Drops) mask.apply(weights[k], k);
        }
        add_rows<Size>(sum, weights, keys + Layout::kTileBytes);
    } while (++tile < num_tiles);
    wait_products<0>();
    pin(sum);
    __syncthreads();  // the block's own rows are used up
    float inverse[2];
    finish_rows(args, block, row0, shift, total, inverse, lane);
    store_sums<Size>(args.context + (block.begin + row0) * shape.width + block.head * Size, shape.width,
                     block.length - row0, sum, inverse[0], inverse[1], shared + warp * 16 * Rows::kRowBytes,
                     lane);
#else
    __trap();  // the host asks has_code() first
#endif
}

// Leaves what dK and dV need of each query: -lse * log2 e and -delta'.
//
// Roundings: delta = sum(dcontext * context), from the context as stored (w relative in each of its elements,
// beside the error it was computed with). Scores, weights 2^fma(score, c, -fl(lse * log2 e)) with
// c = fl(scale * log2 e), and dP = dcontext V^T stay FP32; the dropout's scale is left out and
// delta' = delta * fl(1 / scale). dS' = fma(kept weight, dP, -fl(weight * delta')) is rounded to BF16 for the
// product with K: w relative, each. dQ = sum * fl(scale * dropout scale), rounded to BF16.
template <int Size, bool Drops>
__global__ void __launch_bounds__(128 * kBackwardGroups, kBackwardBlocks)
    query_kernel(const __grid_constant__ BackwardArgs args) {
#ifdef ELMO_HOPPER
    after_previous();
    using Rows = SharedRows<Size>;
    using Layout = GroupLayout<Size, kBackwardGroups, 2>;
    constexpr int kOwnRows = 64 * kBackwardGroups, kThreads = 128 * kBackwardGroups;
    extern __shared__ __align__(kAlign) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const BlockOfText block(shape, kOwnRows);
    if (block.left <= 0) return;

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane >> 2, q = lane & 3;
    const int width = static_cast<int>(shape.width), stride = 3 * width;
    const bf16* text = args.qkv + block.begin * stride + block.head * Size;
    const std::uint32_t own = shared_address(shared);  // queries, then dcontext
    const ThreadPieces<Size, kThreads, kTile> pieces;
    const auto copy_tile = [&](int tile) {
        copy_keys<Size, kThreads>(own + Layout::kTiles, text, width, block.length, tile);
    };
    const std::int64_t context_at = block.begin * shape.width + block.head * Size;  // of the text's first row
    pieces.copy_all(own, text + block.first * stride, stride, block.left);
    pieces.copy_all(own + Layout::kOwn, args.dcontext + context_at + block.first * width, width, block.left);
    copy_tile(0);
    copy_tile(1);

    const int row0 = block.first + 16 * warp;  // of the text
    const float factor = shape.scale * kLog2e;
    // Past the text's end any words do.
    const std::uint32_t* const words =
        Drops ? words_of(args.kept, shape.heads, block, min(row0, block.length - 1) / 16) + place_of(lane)
              : nullptr;

    const ContextPieces<Size> context(args, block, row0, lane);  // while the copies run
    float shift[2] = {0, 0}, delta[2] = {0, 0};                  // -lse * log2 e, -delta' of rows g, g + 8
    wait_copies<1>();
    __syncthreads();  // the block's own rows are there
    {
        float2* numbers = reinterpret_cast<float2*>(shared + Layout::kNumbers) + 16 * warp;
        const float unscale = -1.0f / shape.dropout.scale;
        context.multiply(shared + Layout::kOwn + warp * 16 * Rows::kRowBytes, lane, [&](int row, float dot) {
            if (row0 + row >= block.length) return;
            const std::int64_t at = (block.begin + row0 + row) * shape.heads + block.head;
            numbers[row] = make_float2(-args.lse[at] * kLog2e, dot * unscale);
            reinterpret_cast<float2*>(args.delta)[at] = numbers[row];
        });
        __syncwarp();
#pragma unroll
        for (int r = 0; r < 2; ++r)
            if (row0 + g + 8 * r < block.length) {
                shift[r] = numbers[g + 8 * r].x;
                delta[r] = numbers[g + 8 * r].y;
            }
    }
    Sums<Size> sum = {};

    const int num_tiles = (block.length + kTile - 1) / kTile;
    int tile = 0;
    do {
        wait_copies<1>();
        wait_products<0>();
        publish_shared();
        __syncthreads();  // the tile is there, and the one before is used up
        copy_tile(tile + 2);
        const std::uint32_t word = Drops ? words[32 * tile] : 0;
        const std::uint32_t keys = own + Layout::kTiles + stage_offset(tile, Layout::kTileBytes);
        Sums<64> score, dweight;
        begin_products();
        multiply_rows<Size>(score, own, keys);
        multiply_rows<Size>(dweight, own + Layout::kOwn, keys + Layout::kTileBytes);
        const int left = block.length - tile * kTile;
        wait_products<1>();
        pin(score);
#pragma unroll
        for (int i = 0; i < 32; ++i) score[i] = exp2_fast(__fmaf_rn(score[i], factor, shift[i >> 1 & 1]));
        if (left < kTile) {  // keys past the end have weights of any size
#pragma unroll
            for (int i = 0; i < 32; ++i)
                if (8 * (i / 4) + 2 * q + (i & 1) >= left) score[i] = 0;
        }
        wait_products<0>();
        pin(dweight);
        std::uint32_t dscores[4][4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float p = score[8 * k + i];
                const float kept = !Drops || QueryMask::keeps(word, k, i >> 2, i & 3) ? p : 0.0f;
                score[8 * k + i] = __fmaf_rn(kept, dweight[8 * k + i], p * delta[i >> 1 & 1]);
            }
            pack_columns(dscores[k], score, k);
        }
        add_rows<Size>(sum, dscores, keys);
    } while (++tile < num_tiles);
    wait_products<0>();
    pin(sum);
    __syncthreads();  // the block's own rows are used up
    const float scale = shape.scale * shape.dropout.scale;
    store_sums<Size>(args.dqkv + (block.begin + row0) * stride + block.head * Size, stride,
                     block.length - row0, sum, scale, scale, shared + warp * 16 * Rows::kRowBytes, lane);
#else
    __trap();  // the host asks has_code() first
#endif
}

// The transposed scores: a warpgroup's rows are keys. Roundings: weights and dS' as for dQ (the same FP32
// operations). Each weight that dropout keeps is rounded to BF16 for the product with dcontext, each dS' for
// the product with Q: w relative. dV = sum * dropout scale, dK = sum * fl(scale * dropout scale), rounded to
// BF16. A query past the text's end has zeros for dcontext, -lse and delta', so it adds nothing.
template <int Size, bool Drops>
__global__ void __launch_bounds__(128 * kBackwardGroups, kBackwardBlocks)
    key_kernel(const __grid_constant__ BackwardArgs args) {
#ifdef ELMO_HOPPER
    after_previous();
    using Rows = SharedRows<Size>;
    using Layout = GroupLayout<Size, kBackwardGroups, 2>;
    constexpr int kOwnRows = 64 * kBackwardGroups, kThreads = 128 * kBackwardGroups;
    extern __shared__ __align__(kAlign) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const BlockOfText block(shape, kOwnRows);
    if (block.left <= 0) return;

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int q = lane & 3;
    const int width = static_cast<int>(shape.width), stride = 3 * width;
    const bf16* text = args.qkv + block.begin * stride + block.head * Size;
    const bf16* text_dcontext = args.dcontext + block.begin * shape.width + block.head * Size;
    const float* text_numbers = args.delta + 2 * (block.begin * shape.heads + block.head);
    const std::uint32_t own = shared_address(shared);  // keys, then values
    const ThreadPieces<Size, kThreads, kTile> pieces;
    const auto copy_tile = [&](int tile) {
        const int first = tile * kTile, valid = block.length - first;
        if (valid > 0) {
            const std::uint32_t to = own + Layout::kTiles + stage_offset(tile, Layout::kTileBytes);
            pieces.copy_all(to, text + first * stride, stride, valid);
            pieces.copy_all(to + Layout::kTileBytes, text_dcontext + first * width, width, valid);
            static_assert(kThreads == 2 * kTile);
            const int row = static_cast<int>(threadIdx.x) / 2, which = static_cast<int>(threadIdx.x) % 2;
            copy4(own + Layout::kNumbers + ((tile % kStages * 2 + which) * kTile + row) * 4,
                  text_numbers + 2 * (first + min(row, valid - 1)) * shape.heads + which, row < valid);
        }
        commit_copies();
    };
    const bf16* own_keys = text + block.first * stride + width;
    pieces.copy_all(own, own_keys, stride, block.left);
    pieces.copy_all(own + Layout::kOwn, own_keys + width, stride, block.left);
    copy_tile(0);
    copy_tile(1);

    const int row0 = block.first + 16 * warp;  // of the text
    const float factor = shape.scale * kLog2e;
    Sums<Size> dkey = {}, dvalue = {};
    // The words of the lanes with queries 2q and 2q + 1 of this warp's keys; past the text's end any do.
    const int last_block = (block.length - 1) / 16, query_step = shape.heads * args.kept.key_tiles * 16;
    const int key_bit = warp % 4 + (lane & 4);  // g is odd: the second half of a byte
    const uint2* const words =
        Drops ? reinterpret_cast<const uint2*>(words_of(args.kept, shape.heads, block, 0)) +
                    block.first / kTile * 16 + 4 * q + (lane >> 3)
              : nullptr;

    const int num_tiles = (block.length + kTile - 1) / kTile;
    int tile = 0;
    do {
        uint2 pairs[kTile / 16];
        if (Drops) {
#pragma unroll
            for (int t = 0; t < kTile / 16; ++t)
                pairs[t] = words[min(tile * (kTile / 16) + t, last_block) * query_step];
        }
        wait_copies<1>();
        wait_products<0>();
        publish_shared();
        __syncthreads();  // the tile is there, and the one before is used up
        copy_tile(tile + 2);
        KeyMask mask;
        if (Drops) {
#pragma unroll
            for (int t = 0; t < kTile / 16; ++t) mask.take(pairs[t].x >> key_bit, pairs[t].y >> key_bit, t);
        }
        const std::uint32_t queries = own + Layout::kTiles + stage_offset(tile, Layout::kTileBytes);
        Sums<64> weight, dscore;
        begin_products();
        multiply_rows<Size>(weight, own, queries);
        multiply_rows<Size>(dscore, own + Layout::kOwn, queries + Layout::kTileBytes);
        // Of columns 2q, 2q + 1 of a c tile: shifts, and kTile numbers on deltas.
        const float* numbers =
            reinterpret_cast<const float*>(shared + Layout::kNumbers) + tile % kStages * 2 * kTile + 2 * q;
        wait_products<0>();
        pin(weight);
        pin(dscore);
        std::uint32_t kept[4][4], dscores[4][4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float c[2][4];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float2 shifts = *reinterpret_cast<const float2*>(numbers + 16 * k + 8 * j);
                const float2 deltas = *reinterpret_cast<const float2*>(numbers + kTile + 16 * k + 8 * j);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int at = 8 * k + 4 * j + i;
                    const float p = exp2_fast(__fmaf_rn(weight[at], factor, i & 1 ? shifts.y : shifts.x));
                    c[j][i] = !Drops || mask.of(k)(j, i) ? p : 0.0f;
                    dscore[at] = __fmaf_rn(c[j][i], dscore[at], p * (i & 1 ? deltas.y : deltas.x));
                }
            }
            pack(kept[k], c);
            pack_columns(dscores[k], dscore, k);
        }
        add_rows<Size>(dvalue, kept, queries + Layout::kTileBytes);
        add_rows<Size>(dkey, dscores, queries);
    } while (++tile < num_tiles);
    wait_products<0>();
    pin(dkey);
    pin(dvalue);
    __syncthreads();  // the block's own rows are used up
    bf16* to = args.dqkv + (block.begin + row0) * stride + shape.width + block.head * Size;
    unsigned char* rows = shared + warp * 16 * Rows::kRowBytes;
    const float scale = shape.scale * shape.dropout.scale;
    store_sums<Size>(to, stride, block.length - row0, dkey, scale, scale, rows, lane);
    store_sums<Size>(to + shape.width, stride, block.length - row0, dvalue, shape.dropout.scale,
                     shape.dropout.scale, rows + Layout::kOwn, lane);
#else
    __trap();  // the host asks has_code() first
#endif
}

template <class Layout, int Groups, class Args>
void launch(void (*kernel)(Args), const char* op, Args args, const DeviceTexts& texts, const Launch& how) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Layout::kBytes), op);
    launch_early(how.early, kernel, grid_of(args.shape, texts, 64 * Groups), 128 * Groups, Layout::kBytes,
                 how.stream, op, args);
}

template <int Size, bool Drops>
void run(const ForwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    launch<GroupLayout<Size, kForwardGroups, 1>, kForwardGroups>(forward_kernel<Size, Drops>,
                                                                 "attention forward", args, texts, how);
}
template <int Size, bool Drops>
void run(const BackwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    launch<GroupLayout<Size, kBackwardGroups, 2>, kBackwardGroups>(
        query_kernel<Size, Drops>, "attention backward, queries", args, texts, how);
    launch<GroupLayout<Size, kBackwardGroups, 2>, kBackwardGroups>(
        key_kernel<Size, Drops>, "attention backward, keys", args, texts, how);
}
template <class Args>
void run_any(const Args& args, const DeviceTexts& texts, const Launch& how) {
    const bool drops = args.shape.dropout.threshold > 0;
    if (args.shape.width / args.shape.heads == 32)
        drops ? run<32, true>(args, texts, how) : run<32, false>(args, texts, how);
    else
        drops ? run<64, true>(args, texts, how) : run<64, false>(args, texts, how);
}

}  // namespace

void attention_forward_warpgroups(const ForwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    run_any(args, texts, how);
}
void attention_backward_warpgroups(const BackwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    run_any(args, texts, how);
}

}  // namespace elmo::cuda
