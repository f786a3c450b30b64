// Attention with BF16 storage and heads of 32 or 64, for texts of any length: products on the tensor cores,
// scores never in memory.
//
// A block serves one head of one text and 16 * Warps of its rows, 16 per warp; it walks over the other side
// of the score matrix in tiles in shared memory, two of them so that the next loads while one is used. In the
// forward and for dQ a warp's rows are queries and the tiles are keys; for dK and dV it is the other way
// round. Every result is summed by one warp in one order: no atomics, the same bits each time.
//
// Rows past the end of a text are zeros in shared memory, and their weights are set to zero.
//
// Roundings, u = 2^-24 (FP32), w = 2^-9 (BF16): every product of two BF16 numbers is exact, every sum FP32
// (the tensor cores may truncate when they add: up to 2u per term instead of u). The comment above each
// kernel lists what it rounds to BF16.
#pragma once

#include "backend/cuda/attention/rows.cuh"

namespace elmo::cuda {

// Rows of the tiles that a block of so many warps walks over.
constexpr int walked_rows(int warps) {
    return warps < 4 ? 16 * warps : 64;
}

// Shared bytes of a block before its tiles, all of them multiples of 128: its own rows of one matrix or two,
// and numbers that belong to rows. The kernels declare no other shared memory, because its size would shift
// these offsets.
constexpr int own_bytes(int size, int warps) {
    return 2 * size * 16 * warps;
}
constexpr int delta_bytes(int warps) {
    return 128 * warps;  // a number for each own row, and room
}
constexpr int query_bytes(int warps) {
    return 4 * 4 * walked_rows(warps);  // lse and delta of the rows of two tiles
}
// ... of `stages` tiles of the two matrices it walks over.
constexpr int tiles_bytes(int size, int warps, int stages) {
    return stages * 2 * 2 * size * walked_rows(warps);
}

// Starts the copy of a tile of a text's keys and values to its stage.
template <int Size, int Tile, int Threads>
__device__ __forceinline__ void copy_keys(std::uint32_t tiles, const bf16* text, std::int64_t width,
                                          int length, int tile) {
    using Rows = SharedRows<Size>;
    constexpr int kTileBytes = Tile * Rows::kRowBytes;
    const std::uint32_t to = tiles + static_cast<std::uint32_t>((tile & 1) * 2 * kTileBytes);
    const bf16* from = text + tile * Tile * 3 * width + width;
    Rows::template copy<Tile, Threads>(to, from, 3 * width, length - tile * Tile);
    Rows::template copy<Tile, Threads>(to + kTileBytes, from + width, 3 * width, length - tile * Tile);
    commit_copies();
}

// Adds the bias to a lane's scores. Rows and columns of the tile begin at these places of the text.
template <bool RowsAreKeys>
__device__ __forceinline__ void add_bias(float (&score)[2][4], const AttentionShape& shape, int head, int row,
                                         int column, int lane) {
    const int g = lane >> 2, q = lane & 3;
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int ahead = column + 8 * j + 2 * q + (i & 1) - (row + g + 8 * (i >> 1));
            score[j][i] += bias_of(shape, head, RowsAreKeys ? -ahead : ahead);
        }
}

// Roundings: scores and weights stay FP32. With c = fl(scale * log2 e), a weight is 2^fma(score, c, -m),
// where m is the largest score seen so far times c; a later, larger one multiplies the sums by 2^(m - m'),
// which is one exponential and one product more on the terms before it. The sum of the weights is of FP32
// numbers; for the product with V each weight (in [0, 1], before the division by the sum) is rounded to BF16:
// w relative, each. The context is sum * (dropout scale / sum of weights), rounded to BF16. lse = (m +
// log2(sum)) * ln 2.
// A bias is divided by the scale and added to the score: two roundings more.
template <int Size, int Warps, bool Biased = false>
__global__ void __launch_bounds__(32 * Warps, 16 / Warps) attention_forward_mma(const ForwardArgs args) {
    using Rows = SharedRows<Size>;
    constexpr int kOwn = 16 * Warps, kTile = walked_rows(Warps), kThreads = 32 * Warps;
    constexpr int kTileBytes = kTile * Rows::kRowBytes;
    extern __shared__ __align__(1024) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const BlockOfText block(shape, kOwn);
    if (block.left <= 0) return;

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int q = lane & 3;
    const std::int64_t stride = 3 * shape.width;
    const bf16* text = args.qkv + block.begin * stride + block.head * Size;
    const std::uint32_t own = shared_address(shared);
    const std::uint32_t tiles = own + own_bytes(Size, Warps);  // per stage: keys, values
    const auto copy_tile = [&](int tile) {
        copy_keys<Size, kTile, kThreads>(tiles, text, shape.width, block.length, tile);
    };
    Rows::template copy<kOwn, kThreads>(own, text + block.first * stride, stride, block.left);
    copy_tile(0);

    const int row0 = block.first + 16 * warp;  // of the text
    const bool active = row0 < block.length;
    const float factor = shape.scale * kLog2e;
    const std::int64_t noise_row = (block.begin + row0 + (lane & 15)) * shape.heads + block.head;
    std::uint32_t query[Size / 16][4];
    float sum[Size / 8][4] = {};
    float top[2] = {-INFINITY, -INFINITY};    // largest scores of rows lane / 4 and eight below
    float shift[2] = {-INFINITY, -INFINITY};  // top * factor
    float total[2] = {0, 0};                  // of the weights this lane has seen

    const int num_tiles = (block.length + kTile - 1) / kTile;
    for (int tile = 0; tile < num_tiles; ++tile) {
        if (tile + 1 < num_tiles) {
            copy_tile(tile + 1);
            wait_copies<1>();
        } else {
            wait_copies<0>();
        }
        __syncthreads();
        if (active) {
            if (tile == 0) load_rows<Size>(query, own + warp * 16 * Rows::kRowBytes, lane);
            const std::uint32_t keys = tiles + static_cast<std::uint32_t>((tile & 1) * 2 * kTileBytes);
            const std::uint32_t key_address = keys + Rows::lane_of_columns(lane);
            const std::uint32_t value_address = keys + kTileBytes + Rows::lane_of_rows(lane);
            const int left = block.length - tile * kTile;
            float score[kTile / 16][2][4];
            float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
            for (int k = 0; k < kTile / 16; ++k) {
                if (16 * k >= left) continue;
                multiply_columns<Size>(score[k], query, key_address + k * 16 * Rows::kRowBytes);
                if (Biased) add_bias<false>(score[k], shape, block.head, row0, tile * kTile + 16 * k, lane);
                if (16 * k + 16 > left) {
#pragma unroll
                    for (int j = 0; j < 2; ++j)
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            if (16 * k + 8 * j + 2 * q + (i & 1) >= left) score[k][j][i] = -INFINITY;
                }
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i) largest[i >> 1] = fmaxf(largest[i >> 1], score[k][j][i]);
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                top[r] = fmaxf(top[r], max_of_quad(largest[r]));
                const float next = top[r] * factor;
                const float shrink = exp2_fast(shift[r] - next);
                shift[r] = next;
                total[r] *= shrink;
#pragma unroll
                for (int j = 0; j < Size / 8; ++j) {
                    sum[j][2 * r] *= shrink;
                    sum[j][2 * r + 1] *= shrink;
                }
            }
#pragma unroll
            for (int k = 0; k < kTile / 16; ++k) {
                if (16 * k >= left) continue;
                KeptOfQueries kept;
                if (shape.dropout.threshold > 0)
                    kept.draw(shape, noise_row, (tile * kTile + 16 * k) / 8, lane);
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float weight = exp2_fast(__fmaf_rn(score[k][j][i], factor, -shift[i >> 1]));
                        total[i >> 1] += weight;
                        score[k][j][i] = kept(j, i) ? weight : 0.0f;
                    }
                add_product<Size>(sum, score[k], value_address + k * 16 * Rows::kRowBytes);
            }
        }
        if (tile + 1 < num_tiles) __syncthreads();  // the next copy overwrites this stage
    }
    if (!active) return;

    float inverse[2];
    finish_rows(args, block, row0, shift, total, inverse, lane);
    store_rows<Size>(args.context + (block.begin + row0) * shape.width + block.head * Size, shape.width,
                     block.length - row0, sum, inverse[0], inverse[1], shared + warp * 16 * Rows::kRowBytes,
                     lane);
}

// Roundings: delta = sum(dcontext * context), from the context as stored (w relative in each of its elements,
// beside the error it was computed with). Scores, weights 2^fma(score, c, -fl(lse * log2 e)) with
// c = fl(scale * log2 e), and dP = (dcontext V^T) * dropout scale stay FP32. dS = weight * (dP - delta) is
// rounded to BF16 for the product with K: w relative, each. dQ = sum * scale, rounded to BF16.
template <int Size, int Warps, bool Biased = false>
__global__ void __launch_bounds__(32 * Warps, 16 / Warps) attention_dq_mma(const BackwardArgs args) {
    using Rows = SharedRows<Size>;
    constexpr int kOwn = 16 * Warps, kTile = walked_rows(Warps), kThreads = 32 * Warps;
    constexpr int kTileBytes = kTile * Rows::kRowBytes, kOwnBytes = own_bytes(Size, Warps);
    extern __shared__ __align__(1024) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const BlockOfText block(shape, kOwn);
    if (block.left <= 0) return;

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane >> 2, q = lane & 3;
    const std::int64_t stride = 3 * shape.width;
    const bf16* text = args.qkv + block.begin * stride + block.head * Size;
    float* own_delta = reinterpret_cast<float*>(shared + 2 * kOwnBytes);
    const std::uint32_t own = shared_address(shared);                      // queries, then dcontext
    const std::uint32_t tiles = own + 2 * kOwnBytes + delta_bytes(Warps);  // per stage: keys, values
    const auto copy_tile = [&](int tile) {
        copy_keys<Size, kTile, kThreads>(tiles, text, shape.width, block.length, tile);
    };
    const std::int64_t context_at = block.begin * shape.width + block.head * Size;  // of the text's first row
    Rows::template copy<kOwn, kThreads>(own, text + block.first * stride, stride, block.left);
    Rows::template copy<kOwn, kThreads>(
        own + kOwnBytes, args.dcontext + context_at + block.first * shape.width, shape.width, block.left);
    commit_copies();
    copy_tile(0);

    const int row0 = block.first + 16 * warp;  // of the text
    const bool active = row0 < block.length;
    const float factor = shape.scale * kLog2e;
    const std::int64_t noise_row = (block.begin + row0 + (lane & 15)) * shape.heads + block.head;

    // While the copies run: the context, and lse.
    const ContextPieces<Size> context(args, block, row0, lane);
    float shift[2] = {0, 0}, delta[2] = {0, 0};  // of rows g, g + 8
#pragma unroll
    for (int r = 0; r < 2; ++r)
        if (row0 + g + 8 * r < block.length)
            shift[r] = args.lse[(block.begin + row0 + g + 8 * r) * shape.heads + block.head] * kLog2e;

    std::uint32_t query[Size / 16][4], dcontext[Size / 16][4];
    float sum[Size / 8][4] = {};
    wait_copies<1>();  // the block's own rows are there
    __syncthreads();
    if (active) {
        load_rows<Size>(query, own + warp * 16 * Rows::kRowBytes, lane);
        load_rows<Size>(dcontext, own + kOwnBytes + warp * 16 * Rows::kRowBytes, lane);
        context.multiply(shared + kOwnBytes + warp * 16 * Rows::kRowBytes, lane, [&](int row, float dot) {
            own_delta[16 * warp + row] = dot;
            if (row0 + row < block.length)
                args.delta[(block.begin + row0 + row) * shape.heads + block.head] = dot;
        });
        __syncwarp();
        delta[0] = own_delta[16 * warp + g];
        delta[1] = own_delta[16 * warp + g + 8];
    }

    const int num_tiles = (block.length + kTile - 1) / kTile;
    for (int tile = 0; tile < num_tiles; ++tile) {
        if (tile + 1 < num_tiles) {
            copy_tile(tile + 1);
            wait_copies<1>();
        } else {
            wait_copies<0>();
        }
        __syncthreads();
        if (active) {
            const std::uint32_t keys = tiles + static_cast<std::uint32_t>((tile & 1) * 2 * kTileBytes);
            const int left = block.length - tile * kTile;
#pragma unroll 1
            for (int k = 0; k < kTile / 16 && 16 * k < left; ++k) {
                const std::uint32_t rows = keys + static_cast<std::uint32_t>(k * 16 * Rows::kRowBytes);
                KeptOfQueries kept;
                if (shape.dropout.threshold > 0)
                    kept.draw(shape, noise_row, (tile * kTile + 16 * k) / 8, lane);
                float score[2][4], dweight[2][4];
                multiply_columns<Size>(score, query, rows + Rows::lane_of_columns(lane));
                if (Biased) add_bias<false>(score, shape, block.head, row0, tile * kTile + 16 * k, lane);
                multiply_columns<Size>(dweight, dcontext, rows + kTileBytes + Rows::lane_of_columns(lane));
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const bool there = 16 * k + 8 * j + 2 * q + (i & 1) < left;
                        const float weight = exp2_fast(__fmaf_rn(score[j][i], factor, -shift[i >> 1]));
                        const float dp = kept(j, i) ? dweight[j][i] * shape.dropout.scale : 0.0f;
                        score[j][i] = there ? weight * (dp - delta[i >> 1]) : 0.0f;
                    }
                add_product<Size>(sum, score, rows + Rows::lane_of_rows(lane));
            }
        }
        if (tile + 1 < num_tiles) __syncthreads();  // the next copy overwrites this stage
    }
    if (!active) return;
    store_rows<Size>(args.dqkv + (block.begin + row0) * stride + block.head * Size, stride,
                     block.length - row0, sum, shape.scale, shape.scale, shared + warp * 16 * Rows::kRowBytes,
                     lane);
}

// The transposed scores: a warp's 16 rows are keys. Roundings: weights and dS as for dQ (the same FP32
// operations). Each weight that dropout keeps is rounded to BF16 for the product with dcontext, each dS for
// the product with Q: w relative. dV = sum * dropout scale, dK = sum * scale, rounded to BF16.
template <int Size, int Warps, bool Biased = false>
__global__ void __launch_bounds__(32 * Warps, 12 / Warps) attention_dkv_mma(const BackwardArgs args) {
    using Rows = SharedRows<Size>;
    constexpr int kOwn = 16 * Warps, kTile = walked_rows(Warps), kThreads = 32 * Warps;
    constexpr int kTileBytes = kTile * Rows::kRowBytes, kOwnBytes = own_bytes(Size, Warps);
    extern __shared__ __align__(1024) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const BlockOfText block(shape, kOwn);
    if (block.left <= 0) return;

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int q = lane & 3;
    const std::int64_t stride = 3 * shape.width;
    const bf16* text = args.qkv + block.begin * stride + block.head * Size;
    const bf16* text_dcontext = args.dcontext + block.begin * shape.width + block.head * Size;
    float* query_lse = reinterpret_cast<float*>(shared + 2 * kOwnBytes);  // [stage][row]
    float* query_delta = query_lse + 2 * kTile;
    const std::uint32_t own = shared_address(shared);                      // keys, then values
    const std::uint32_t tiles = own + 2 * kOwnBytes + query_bytes(Warps);  // per stage: queries, dcontext
    const auto copy_tile = [&](int tile) {
        const int stage = tile & 1, first = tile * kTile, valid = block.length - first;
        const std::uint32_t to = tiles + static_cast<std::uint32_t>(stage * 2 * kTileBytes);
        Rows::template copy<kTile, kThreads>(to, text + first * stride, stride, valid);
        Rows::template copy<kTile, kThreads>(to + kTileBytes, text_dcontext + first * shape.width,
                                             shape.width, valid);
        for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
            const bool there = i < valid;
            const std::int64_t at = (block.begin + first + (there ? i : 0)) * shape.heads + block.head;
            copy4(shared_address(query_lse + stage * kTile + i), in_global(args.lse + at), there);
            copy4(shared_address(query_delta + stage * kTile + i), in_global(args.delta + at), there);
        }
        commit_copies();
    };
    const bf16* own_keys = text + block.first * stride + shape.width;
    Rows::template copy<kOwn, kThreads>(own, own_keys, stride, block.left);
    Rows::template copy<kOwn, kThreads>(own + kOwnBytes, own_keys + shape.width, stride, block.left);
    commit_copies();
    copy_tile(0);

    const int row0 = block.first + 16 * warp;  // of the text
    const bool active = row0 < block.length;
    const float factor = shape.scale * kLog2e;
    std::uint32_t key[Size / 16][4], value[Size / 16][4];
    float dkey[Size / 8][4] = {}, dvalue[Size / 8][4] = {};
    wait_copies<1>();  // the block's own rows are there
    __syncthreads();
    if (active) {
        load_rows<Size>(key, own + warp * 16 * Rows::kRowBytes, lane);
        load_rows<Size>(value, own + kOwnBytes + warp * 16 * Rows::kRowBytes, lane);
    }

    const int num_tiles = (block.length + kTile - 1) / kTile;
    for (int tile = 0; tile < num_tiles; ++tile) {
        if (tile + 1 < num_tiles) {
            copy_tile(tile + 1);
            wait_copies<1>();
        } else {
            wait_copies<0>();
        }
        __syncthreads();
        if (active) {
            const int stage = tile & 1, left = block.length - tile * kTile;
            const std::uint32_t queries = tiles + static_cast<std::uint32_t>(stage * 2 * kTileBytes);
#pragma unroll 1
            for (int k = 0; k < kTile / 16 && 16 * k < left; ++k) {
                const std::uint32_t rows = queries + static_cast<std::uint32_t>(k * 16 * Rows::kRowBytes);
                KeptOfKeys kept;
                if (shape.dropout.threshold > 0) {
                    const std::int64_t token = block.begin + tile * kTile + 16 * k + (lane & 15);
                    kept.draw(shape, token * shape.heads + block.head, row0 / 8, lane);
                }
                float weight[2][4], dscore[2][4];
                multiply_columns<Size>(weight, key, rows + Rows::lane_of_columns(lane));
                if (Biased) add_bias<true>(weight, shape, block.head, row0, tile * kTile + 16 * k, lane);
                multiply_columns<Size>(dscore, value, rows + kTileBytes + Rows::lane_of_columns(lane));
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int column = 16 * k + 8 * j + 2 * q;
                    const float2 lse = *reinterpret_cast<const float2*>(query_lse + stage * kTile + column);
                    const float2 delta =
                        *reinterpret_cast<const float2*>(query_delta + stage * kTile + column);
                    const float shifts[2] = {lse.x * kLog2e, lse.y * kLog2e}, deltas[2] = {delta.x, delta.y};
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const bool there = column + (i & 1) < left, keep = kept(j, i);
                        const float p = exp2_fast(__fmaf_rn(weight[j][i], factor, -shifts[i & 1]));
                        const float dp = keep ? dscore[j][i] * shape.dropout.scale : 0.0f;
                        weight[j][i] = there && keep ? p : 0.0f;
                        dscore[j][i] = there ? p * (dp - deltas[i & 1]) : 0.0f;
                    }
                }
                add_product<Size>(dvalue, weight, rows + kTileBytes + Rows::lane_of_rows(lane));
                add_product<Size>(dkey, dscore, rows + Rows::lane_of_rows(lane));
            }
        }
        if (tile + 1 < num_tiles) __syncthreads();  // the next copy overwrites this stage
    }
    if (!active) return;
    bf16* to = args.dqkv + (block.begin + row0) * stride + shape.width + block.head * Size;
    unsigned char* rows = shared + warp * 16 * Rows::kRowBytes;
    store_rows<Size>(to, stride, block.length - row0, dkey, shape.scale, shape.scale, rows, lane);
    store_rows<Size>(to + shape.width, stride, block.length - row0, dvalue, shape.dropout.scale,
                     shape.dropout.scale, rows + kOwnBytes, lane);
}

}  // namespace elmo::cuda
