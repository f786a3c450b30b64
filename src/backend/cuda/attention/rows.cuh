// What the attention kernels of BF16 storage have in common: their arguments, rows of BF16 numbers in shared
// memory, and products of a warp that take them as operands (layouts in ptx/warp.cuh).
#pragma once

#include "backend/cuda/device/math.cuh"
#include "backend/cuda/device/texts.h"
#include "backend/cuda/ptx/warp.cuh"
#include "backend/ops/attention.h"

namespace elmo::cuda {

// What the kernels have in common.
struct AttentionShape {
    const std::int32_t* offsets;  // [B + 1]
    int heads;
    std::int64_t width;  // D
    float scale;         // 1 / sqrt(size of a head)
    DropoutArgs dropout;
    PhiloxKeys noise;             // of dropout.key.seed
    const float* bias = nullptr;  // [H, kBiasColumns]: by distance, divided by the scale; null: none
    int row_blocks = 1;           // of the longest text: see grid_of
};

// All keys that are farther than this from a query have one bias on each side.
inline constexpr int kBiasReach = 91;
inline constexpr int kBiasColumns = 2 * kBiasReach + 1;
static_assert(relative_bucket(kBiasReach) == relative_bucket(1 << 20) &&
              relative_bucket(-kBiasReach) == relative_bucket(-(1 << 20)));

// What is added to the product of a query and a key before it is scaled.
__device__ __forceinline__ float bias_of(const AttentionShape& shape, int head,
                                         std::int64_t key_minus_query) {
    const std::int64_t reach = kBiasReach;
    const std::int64_t near = key_minus_query < -reach  ? -reach
                              : key_minus_query > reach ? reach
                                                        : key_minus_query;
    return shape.bias[head * kBiasColumns + kBiasReach + near];
}

// What dropout keeps, from the forward for the backward: only of warpgroups (warpgroups.h).
struct KeptBits {
    std::uint32_t* words = nullptr;  // [blocks of 16 queries, H, key_tiles, 32]: QueryMask::word
    int key_tiles = 0;               // of 64 keys, of the longest text
};

// Queries, keys and values as bytes (ops/attention.h).
struct QkvCodes {
    std::uint8_t* codes = nullptr;      // [T, 3D]; null: none
    std::uint8_t* exponents = nullptr;  // [3H, T]
    std::int64_t tokens = 0;            // T
};

struct ForwardArgs {
    AttentionShape shape;
    const bf16* qkv;
    bf16* context;
    float* lse;        // may be null
    KeptBits kept{};   // without words: not wanted
    QkvCodes codes{};  // written, only by kernels of short texts
};
struct BackwardArgs {
    AttentionShape shape;
    const bf16 *dcontext, *qkv, *context;
    const float* lse;
    float* delta;  // [T, H]: written by the kernel of dQ, read by that of dK and dV
    bf16* dqkv;
    // Only of short texts; either may be null.
    bf16* context_again = nullptr;  // written; context and lse are not read then
    float* dqkv_sums = nullptr;     // [B, 3D]: column sums of each text's dqkv
    KeptBits kept{};
    QkvCodes codes{};  // in place of qkv, with context_again
};

// Blocks of `rows` rows of every head of every text. Those of one head follow one another, so that what they
// all read is in the cache.
inline unsigned grid_of(AttentionShape& shape, const DeviceTexts& texts, int rows) {
    shape.row_blocks = static_cast<int>((texts.longest + rows - 1) / rows);
    return static_cast<unsigned>(texts.num_texts * shape.heads * shape.row_blocks);
}

// What a block works on: `left` rows of a text from its row `first` on.
struct BlockOfText {
    int text, head, length, first, left;
    std::int64_t begin;  // the text's first token

    __device__ __forceinline__ BlockOfText(const AttentionShape& shape, int rows) {
        const int which = static_cast<int>(blockIdx.x) / shape.row_blocks;
        head = which % shape.heads;
        text = which / shape.heads;
        begin = shape.offsets[text];
        length = static_cast<int>(shape.offsets[text + 1] - begin);
        first = (static_cast<int>(blockIdx.x) - which * shape.row_blocks) * rows;
        left = length - first;
    }
};

inline constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
inline constexpr unsigned kWarp = 0xffffffffu;

// A matrix of rows of Size BF16 numbers in shared memory that begins at a multiple of 128 bytes and of a row.
// The 16-byte pieces of a row are permuted so that eight rows' pieces of one column lie in different banks.
// Neither eight rows on nor two pieces on changes the permutation, so `address ^ (32 * i)` is 2i pieces from
// piece 0 or 1.
template <int Size>
struct SharedRows {
    static constexpr int kPieces = Size / 8;
    static constexpr int kRowBytes = 2 * Size;
    static constexpr int kTurns = kPieces < 8 ? kPieces : 8;  // rows of 64 bytes share a permutation by twos

    static __device__ __forceinline__ std::uint32_t at(int row, int piece) {
        const int turn = (row / (8 / kTurns)) & (kTurns - 1);
        return static_cast<std::uint32_t>(row * kRowBytes + ((piece ^ turn) << 4));
    }
    // Where a lane finds its row of the four matrices of an a operand, or of b operands that are transposed
    // on the way (16 rows are the inner dimension, columns the outer).
    static __device__ __forceinline__ std::uint32_t lane_of_rows(int lane) {
        return at(lane & 15, lane >> 4);
    }
    // ... of the b operands of two tiles whose outer dimension is rows.
    static __device__ __forceinline__ std::uint32_t lane_of_columns(int lane) {
        return at((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
    }

    // Starts the copy of rows [0, valid) of a matrix in global memory, and of zeros up to a multiple of 16
    // rows; at most Rows, which is a multiple of 16. valid > 0.
    template <int Rows, int Threads>
    static __device__ __forceinline__ void copy(std::uint32_t to, const bf16* from, std::int64_t stride,
                                                int valid) {
        static_assert(Threads % kPieces == 0);
        const int rows = min(Rows, (valid + 15) & ~15), piece = static_cast<int>(threadIdx.x) % kPieces;
        from += piece * 8;
#pragma unroll 1
        for (int row = static_cast<int>(threadIdx.x) / kPieces; row < rows; row += Threads / kPieces) {
            const bool there = row < valid;
            copy16(to + at(row, piece), in_global(from + (there ? row : 0) * stride), there);
        }
    }
};

// The piece of 16 bytes that a thread copies in each group of rows, and how many groups a matrix of Count
// rows has. Threads of a row are neighbours.
template <int Size, int Threads, int Count>
struct ThreadPieces {
    using Rows = SharedRows<Size>;
    static constexpr int kStep = Threads / Rows::kPieces;  // rows of a group
    static constexpr int kGroups = Count / kStep;
    static_assert(kStep % 8 == 0 && Count % kStep == 0);  // the permutation is that of the first group
    int row, piece;

    __device__ __forceinline__ ThreadPieces()
        : row(static_cast<int>(threadIdx.x) / Rows::kPieces),
          piece(static_cast<int>(threadIdx.x) % Rows::kPieces) {}
    __device__ __forceinline__ std::uint32_t shared_at(int group) const {
        return Rows::at(row, piece) + static_cast<std::uint32_t>(group * kStep * Rows::kRowBytes);
    }
    // Where the thread reads in a group of a matrix of `valid` rows: in the last one instead of past it.
    __device__ __forceinline__ int global_at(int group, int stride, int valid) const {
        return min(row + group * kStep, valid - 1) * stride + piece * 8;
    }
    // Starts the copy of `valid` rows, and of zeros up to a multiple of 16. valid > 0.
    __device__ __forceinline__ void copy(std::uint32_t to, const bf16* from, int stride, int valid) const {
        const int padded = (valid + 15) & ~15;
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            const int at = row + i * kStep;
            if (at < padded) copy16(to + shared_at(i), from + global_at(i, stride, valid), at < valid);
        }
    }
    // ... and of zeros to all other rows.
    __device__ __forceinline__ void copy_all(std::uint32_t to, const bf16* from, int stride,
                                             int valid) const {
#pragma unroll
        for (int i = 0; i < kGroups; ++i)
            copy16(to + shared_at(i), from + global_at(i, stride, valid), row + i * kStep < valid);
    }
};

// a: 16 rows of Size columns, as operands.
template <int Size>
__device__ __forceinline__ void load_rows(std::uint32_t (&a)[Size / 16][4], std::uint32_t rows, int lane) {
    const std::uint32_t address = rows + SharedRows<Size>::lane_of_rows(lane);
#pragma unroll
    for (int i = 0; i < Size / 16; ++i) load_matrices(a[i], address ^ (32 * i));
}

// c (16 x 16) = a (16 x Size) times the transpose of 16 shared rows; address is of lane_of_columns.
template <int Size>
__device__ __forceinline__ void multiply_columns(float (&c)[2][4], const std::uint32_t (&a)[Size / 16][4],
                                                 std::uint32_t address) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) c[j][i] = 0;
#pragma unroll
    for (int i = 0; i < Size / 16; ++i) {
        std::uint32_t b[4];
        load_matrices(b, address ^ (32 * i));
        multiply_add(c[0], a[i], b[0], b[1]);
        multiply_add(c[1], a[i], b[2], b[3]);
    }
}

// Two c tiles, rounded to BF16, as an a operand.
__device__ __forceinline__ void pack(std::uint32_t (&a)[4], const float (&c)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = pack2(c[i >> 1][2 * (i & 1)], c[i >> 1][2 * (i & 1) + 1]);
}

// sum (16 x Size) += a (16 x 16) times 16 shared rows; address is of lane_of_rows.
template <int Size>
__device__ __forceinline__ void add_product(float (&sum)[Size / 8][4], const std::uint32_t (&a)[4],
                                            std::uint32_t address) {
#pragma unroll
    for (int i = 0; i < Size / 16; ++i) {
        std::uint32_t b[4];
        load_matrices_transposed(b, address ^ (32 * i));
        multiply_add(sum[2 * i], a, b[0], b[1]);
        multiply_add(sum[2 * i + 1], a, b[2], b[3]);
    }
}

// ... a rounded to BF16.
template <int Size>
__device__ __forceinline__ void add_product(float (&sum)[Size / 8][4], const float (&c)[2][4],
                                            std::uint32_t address) {
    std::uint32_t a[4];
    pack(a, c);
    add_product<Size>(sum, a, address);
}

// A warp's 16 rows, times a factor for the upper and one for the lower eight, to shared rows.
template <int Size>
__device__ __forceinline__ void place_rows(unsigned char* rows, const float (&sum)[Size / 8][4], float upper,
                                           float lower, int lane) {
    using Rows = SharedRows<Size>;
    const int g = lane >> 2, q = lane & 3;
#pragma unroll
    for (int j = 0; j < Size / 8; ++j) {
        *reinterpret_cast<std::uint32_t*>(rows + Rows::at(g, j) + 4 * q) =
            pack2(sum[j][0] * upper, sum[j][1] * upper);
        *reinterpret_cast<std::uint32_t*>(rows + Rows::at(g + 8, j) + 4 * q) =
            pack2(sum[j][2] * lower, sum[j][3] * lower);
    }
}

// Writes the first `valid` of a warp's 16 rows, times the factors. They pass through 16 shared rows that only
// this warp uses, so that whole cache lines are written.
template <int Size>
__device__ __forceinline__ void store_rows(bf16* to, std::int64_t stride, int valid,
                                           const float (&sum)[Size / 8][4], float upper, float lower,
                                           unsigned char* rows, int lane) {
    using Rows = SharedRows<Size>;
    __syncwarp();
    place_rows<Size>(rows, sum, upper, lower, lane);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Size / 16; ++i) {
        const int row = (32 * i + lane) / Rows::kPieces, piece = (32 * i + lane) % Rows::kPieces;
        if (row < valid)
            *reinterpret_cast<uint4*>(to + row * static_cast<int>(stride) + piece * 8) =
                *reinterpret_cast<const uint4*>(rows + Rows::at(row, piece));
    }
}

// The context of a warp's 16 rows from row0 of a text on, pieces of rows by lane; zeros past the text's end.
template <int Size>
struct ContextPieces {
    using Rows = SharedRows<Size>;
    uint4 pieces[Size / 16];

    __device__ __forceinline__ ContextPieces(const BackwardArgs& args, const BlockOfText& block, int row0,
                                             int lane) {
        const bf16* text = args.context + block.begin * args.shape.width + block.head * Size;
#pragma unroll
        for (int i = 0; i < Size / 16; ++i) {
            const int row = row0 + (32 * i + lane) / Rows::kPieces, piece = (32 * i + lane) % Rows::kPieces;
            pieces[i] = make_uint4(0, 0, 0, 0);
            if (row < block.length)
                pieces[i] = *reinterpret_cast<const uint4*>(text + row * args.shape.width + piece * 8);
        }
    }
    // Calls give(row, sum(dcontext * context)) of each row, by one lane. `dcontext`: the warp's shared rows.
    template <class Give>
    __device__ __forceinline__ void multiply(const unsigned char* dcontext, int lane,
                                             const Give& give) const {
#pragma unroll
        for (int i = 0; i < Size / 16; ++i) {
            const int row = (32 * i + lane) / Rows::kPieces, piece = (32 * i + lane) % Rows::kPieces;
            float x[8], y[8], dot = 0;
            unpack8(pieces[i], x);
            unpack8(*reinterpret_cast<const uint4*>(dcontext + Rows::at(row, piece)), y);
#pragma unroll
            for (int e = 0; e < 8; ++e) dot = __fmaf_rn(x[e], y[e], dot);
#pragma unroll
            for (int lanes = 1; lanes < Rows::kPieces; lanes *= 2) dot += __shfl_xor_sync(kWarp, dot, lanes);
            if (piece == 0) give(row, dot);
        }
    }
};

// Which of 16 queries x 16 keys a dropout keeps. Each lane computes one Philox block, of query lane % 16 and
// of keys 0-7 (lanes below 16) or 8-15, and the warp votes: bit l of votes[i] is key i of lane l's block.
// `noise_row` is that of the lane's query, key_block the first of the two blocks.
__device__ __forceinline__ void vote_kept(const AttentionShape& shape, std::int64_t noise_row, int key_block,
                                          int lane, std::uint32_t (&votes)[8]) {
    const PhiloxBlock block =
        philox4x32(noise_counter(shape.dropout.key, noise_row, key_block + (lane >> 4)), shape.noise);
    const std::uint32_t limit = shape.dropout.threshold << 16;  // compares upper halves
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        votes[2 * i] = __ballot_sync(kWarp, (block[i] << 16) >= limit);
        votes[2 * i + 1] = __ballot_sync(kWarp, block[i] >= limit);
    }
}

// What a lane keeps of its c tiles [2][4], whose rows are queries and columns keys.
struct KeptOfQueries {
    std::uint32_t even = kWarp, odd = kWarp;  // keys 2q, 2q + 1; query g at bit 0

    __device__ __forceinline__ void draw(const AttentionShape& shape, std::int64_t noise_row, int key_block,
                                         int lane) {
        std::uint32_t v[8];
        vote_kept(shape, noise_row, key_block, lane, v);
        take(v, lane);
    }
    __device__ __forceinline__ void take(const std::uint32_t (&v)[8], int lane) {
        const int g = lane >> 2, q = lane & 3;
        even = (q < 2 ? (q == 0 ? v[0] : v[2]) : (q == 2 ? v[4] : v[6])) >> g;
        odd = (q < 2 ? (q == 0 ? v[1] : v[3]) : (q == 2 ? v[5] : v[7])) >> g;
    }
    __device__ __forceinline__ bool operator()(int tile, int i) const {
        return ((i & 1 ? odd : even) >> (16 * tile + 8 * (i >> 1))) & 1;
    }
};
// ... whose rows are keys and columns queries.
struct KeptOfKeys {
    std::uint32_t word = kWarp;  // key g; query 2q at bit 0, key g + 8 from bit 16

    __device__ __forceinline__ void draw(const AttentionShape& shape, std::int64_t noise_row, int key_block,
                                         int lane) {
        std::uint32_t v[8];
        vote_kept(shape, noise_row, key_block, lane, v);
        const int g = lane >> 2, q = lane & 3;
        const std::uint32_t a = g & 1 ? v[1] : v[0], b = g & 1 ? v[3] : v[2], c = g & 1 ? v[5] : v[4],
                            e = g & 1 ? v[7] : v[6];
        const std::uint32_t low = g & 2 ? b : a, high = g & 2 ? e : c;
        word = (g & 4 ? high : low) >> (2 * q);
    }
    __device__ __forceinline__ bool operator()(int tile, int i) const {
        return (word >> (16 * (i >> 1) + 8 * tile + (i & 1))) & 1;
    }
};

// Bytes of a and b, by a selector of four digits; a digit from 8 on spreads the sign of byte (digit - 8).
__device__ __forceinline__ std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b,
                                                       std::uint32_t digits) {
    std::uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(digits));
    return result;
}

// The dropout mask of a warp's 16 queries and up to 8 blocks of 16 keys, as its lanes need it for a operands.
struct QueryMask {
    std::uint32_t even = 0, odd = 0;  // keys 2q, 2q + 1: bit k of byte i is of a[i] of key block k

    // Of key blocks from `first` on. `votes`, where given, receives the eight words of each of them.
    __device__ __forceinline__ void draw(const AttentionShape& shape, std::int64_t noise_row, int first,
                                         int blocks, int lane, uint4* votes = nullptr) {
#pragma unroll 2
        for (int k = 0; k < blocks; ++k) {
            std::uint32_t v[8];
            vote_kept(shape, noise_row, 2 * (first + k), lane, v);
            if (votes != nullptr && lane == 0) {
                votes[2 * k] = make_uint4(v[0], v[1], v[2], v[3]);
                votes[2 * k + 1] = make_uint4(v[4], v[5], v[6], v[7]);
            }
            KeptOfQueries kept;
            kept.take(v, lane);
            even |= (kept.even & 0x01010101u) << k;
            odd |= (kept.odd & 0x01010101u) << k;
        }
    }
    __device__ __forceinline__ void apply(std::uint32_t (&a)[4], int k) const {
        const std::uint32_t low = even << (7 - k), high = odd << (7 - k);  // the bits at the bytes' signs
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i) a[i] &= permute_bytes(low, high, 0xcc88u + 0x1111u * i);
    }
    // Of 4 blocks, in one word.
    __device__ __forceinline__ std::uint32_t word() const {
        return even | odd << 4;
    }
    // Of key block k's c tiles [2][4].
    static __device__ __forceinline__ bool keeps(std::uint32_t word, int k, int tile, int i) {
        return (word >> (16 * tile + 8 * (i >> 1) + 4 * (i & 1) + k)) & 1;
    }
};

// ... of a warp's 16 keys and up to 8 blocks of 16 queries.
struct KeyMask {
    std::uint32_t words[2] = {0, 0};  // query block t: KeptOfKeys's word of words[t / 4] >> (2 * (t % 4))

    // noise_row: of query lane % 16 of block 0; row_step: from a block to the next.
    __device__ __forceinline__ void draw(const AttentionShape& shape, std::int64_t noise_row,
                                         std::int64_t row_step, int key_block, int blocks, int lane) {
#pragma unroll 2
        for (int t = 0; t < blocks; ++t) {
            KeptOfKeys kept;
            kept.draw(shape, noise_row + t * row_step, key_block, lane);
            take(kept.word, t);
        }
    }
    // From QueryMask::word of query block t: `upper` of the lane with queries 2q and 2q + 8 and keys g and
    // g + 8, `lower` of that with queries 2q + 1 and 2q + 9, moved so that the lane's key is at bit 0.
    __device__ __forceinline__ void take(std::uint32_t upper, std::uint32_t lower, int t) {
        take((upper & 0x01010101u) | (lower & 0x01010101u) << 1, t);
    }
    // From the votes that QueryMask::draw left of all query blocks, `step` words from one to the next;
    // `votes` is of query block 0.
    __device__ __forceinline__ void read(const std::uint32_t* votes, int step, int blocks, int lane) {
        for (int t = 0; t < blocks; ++t) take(votes[t * step + (lane >> 2)] >> (2 * (lane & 3)), t);
    }
    __device__ __forceinline__ void take(std::uint32_t word, int t) {
        const std::uint32_t bits = (word & 0x03030303u) << (2 * (t & 3));
        if (t < 4)
            words[0] |= bits;
        else
            words[1] |= bits;
    }
    __device__ __forceinline__ KeptOfKeys of(int t) const {
        return {(t < 4 ? words[0] : words[1]) >> (2 * (t & 3))};
    }
};

__device__ __forceinline__ float sum_of_quad(float x) {
    x += __shfl_xor_sync(kWarp, x, 1);
    return x + __shfl_xor_sync(kWarp, x, 2);
}
__device__ __forceinline__ float max_of_quad(float x) {
    x = fmaxf(x, __shfl_xor_sync(kWarp, x, 1));
    return fmaxf(x, __shfl_xor_sync(kWarp, x, 2));
}

// The end of a forward: the factors of the sums of a warp's rows g and g + 8, and their lse, where asked for.
// `total` has the weights that this lane has seen.
__device__ __forceinline__ void finish_rows(const ForwardArgs& args, const BlockOfText& block, int row0,
                                            const float (&shift)[2], const float (&total)[2],
                                            float (&inverse)[2], int lane) {
    const AttentionShape& shape = args.shape;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float sum = sum_of_quad(total[r]);
        inverse[r] = shape.dropout.scale / sum;
        const int row = row0 + (lane >> 2) + 8 * r;
        if (args.lse != nullptr && (lane & 3) == 0 && row < block.length)
            args.lse[(block.begin + row) * shape.heads + block.head] = (shift[r] + log2f(sum)) * kLn2;
    }
}

}  // namespace elmo::cuda
