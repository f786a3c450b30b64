// Attention of texts of at most 128 tokens with BF16 storage and heads of 32 or 64: a block serves one head
// of one text, whole, in 16 rows per warp. Everything it reads is loaded to shared memory once; meanwhile the
// warps draw their dropout masks.
//
// Rows from the text's end to a multiple of 16 are zeros in shared memory; those past that are not touched,
// and what is computed from them is not stored. Every result is summed by one warp in one order.
//
// Roundings, u = 2^-24 (FP32), w = 2^-9 (BF16): every product of two BF16 numbers is exact, every sum FP32
// (the tensor cores may truncate when they add: up to 2u per term instead of u). The comment above each
// kernel lists what it rounds to BF16.
#include "backend/cuda/attention/short.h"

#include "backend/cuda/attention/codes.cuh"
#include "backend/cuda/device/launch.cuh"

namespace elmo::cuda {
namespace {

// Tokens of the longest text that blocks of so many warps take.
constexpr int short_rows(int warps) {
    return 16 * warps;
}

// Shared memory, in bytes from its begin. The kernels declare no other, because its size would shift these
// offsets. All multiples of 256.
template <int Size, int Warps>
struct ShortLayout {
    static constexpr int kRows = short_rows(Warps);
    static constexpr int kMatrix = kRows * SharedRows<Size>::kRowBytes;
    // Forward.
    static constexpr int kQueries = 0, kKeys = kMatrix, kValues = 2 * kMatrix;
    static constexpr int kForwardBytes = 3 * kMatrix;
    // Backward: two matrices more, of which one is dS^T, and two numbers per query.
    static constexpr int kDContext = 3 * kMatrix;
    static constexpr int kDScores = 4 * kMatrix;
    static constexpr int kDScoresBytes = kRows * SharedRows<kRows>::kRowBytes;
    // In the place of dS^T, before it: the context, and a vote per key of a block and pair of blocks.
    static constexpr int kContext = kDScores, kVotes = kContext + kMatrix;
    static constexpr int kVotesEnd = kVotes + (Warps < 4 ? 256 : 32 * Warps * Warps);
    // ... and after it: column sums, a row of dV's per warp, then one of dK's or dQ's.
    static constexpr int kSums = kDScores;
    static constexpr int kSumsEnd = kSums + 2 * Warps * Size * 4;
    static constexpr int kNumbers =
        kDScores + kDScoresBytes > kVotesEnd ? kDScores + kDScoresBytes : kVotesEnd;
    static_assert(kSumsEnd <= kNumbers);
    static constexpr int kBackwardBytes = kNumbers + 8 * kRows;
};

// What a block serves.
struct ShortText {
    int head, length;
    std::int64_t begin;  // its first token
    std::int64_t number;

    explicit __device__ __forceinline__ ShortText(const AttentionShape& shape) {
        head = static_cast<int>(blockIdx.x % static_cast<unsigned>(shape.heads));
        const unsigned text = blockIdx.x / static_cast<unsigned>(shape.heads);
        number = text;
        begin = shape.offsets[text];
        length = static_cast<int>(shape.offsets[text + 1] - begin);
    }
};

// The context of a warp's 16 queries from row0 on, before the factors of rows g and g + 8, and their lse.
// Waits for queries and keys, then for values, after which `Later` more groups of copies may be under way.
// Called by the whole block; warps past the text's end get nothing.
//
// Roundings: scores and weights stay FP32. With c = fl(scale * log2 e), a weight is 2^fma(score, c, -m),
// where m is the largest score times c. The sum of the weights is of FP32 numbers; for the product with V
// each weight (in [0, 1], before the division by the sum) is rounded to BF16: w relative, each. The context
// is sum * (dropout scale / sum of weights), rounded to BF16. lse = (m + log2(sum)) * ln 2.
template <int Size, int Warps, bool Drops, int Later>
__device__ __forceinline__ void attend(const AttentionShape& shape, int length, std::uint32_t start,
                                       const QueryMask& mask, int row0, int lane, float (&sum)[Size / 8][4],
                                       float (&inverse)[2], float (&lse)[2]) {
    using Rows = SharedRows<Size>;
    using Layout = ShortLayout<Size, Warps>;
    const int q = lane & 3, blocks = (length + 15) / 16;
    const bool active = row0 < length;
    const float factor = shape.scale * kLog2e;
    float score[Warps][2][4];
    float top[2] = {-INFINITY, -INFINITY};  // largest scores of rows g, g + 8
    wait_copies<Later + 1>();
    __syncthreads();
    if (active) {
        std::uint32_t query[Size / 16][4];
        load_rows<Size>(query, start + Layout::kQueries + row0 * Rows::kRowBytes, lane);
        const std::uint32_t keys = start + Layout::kKeys + Rows::lane_of_columns(lane);
#pragma unroll
        for (int k = 0; k < Warps; ++k) {
            if (k >= blocks) continue;
            multiply_columns<Size>(score[k], query, keys + k * 16 * Rows::kRowBytes);
            if (16 * k + 16 > length) {
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (16 * k + 8 * j + 2 * q + (i & 1) >= length) score[k][j][i] = -INFINITY;
            }
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int i = 0; i < 4; ++i) top[i >> 1] = fmaxf(top[i >> 1], score[k][j][i]);
        }
    }
    wait_copies<Later>();
    __syncthreads();
    if (!active) return;

    const float shift[2] = {max_of_quad(top[0]) * factor, max_of_quad(top[1]) * factor};
    float total[2] = {0, 0};  // of the weights this lane has seen
    const std::uint32_t values = start + Layout::kValues + Rows::lane_of_rows(lane);
#pragma unroll
    for (int k = 0; k < Warps; ++k) {
        if (k >= blocks) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                score[k][j][i] = exp2_fast(__fmaf_rn(score[k][j][i], factor, -shift[i >> 1]));
                total[i >> 1] += score[k][j][i];
            }
        std::uint32_t weights[4];
        pack(weights, score[k]);
        if (Drops) mask.apply(weights, k);
        add_product<Size>(sum, weights, values + k * 16 * Rows::kRowBytes);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        total[r] = sum_of_quad(total[r]);
        inverse[r] = shape.dropout.scale / total[r];
        lse[r] = (shift[r] + log2f(total[r])) * kLn2;
    }
}

// Codes of the queries, keys and values of a block, by the pieces of rows that each thread has copied.
template <int Size, int Warps>
struct TextCodes {
    using Pieces = ThreadPieces<Size, 32 * Warps, 16 * Warps>;
    static constexpr int kMatrix = ShortLayout<Size, Warps>::kMatrix;  // q, k and v lie one after another
    const QkvCodes& all;
    std::int64_t codes_at, exponents_at, head_step;  // of this thread's first row of q, and from q to k to v
    int width, length;

    __device__ __forceinline__ TextCodes(const QkvCodes& codes, const AttentionShape& shape,
                                         const ShortText& text, const Pieces& pieces)
        : all(codes),
          codes_at(3 * (text.begin + pieces.row) * shape.width + text.head * Size + 8 * pieces.piece),
          exponents_at(text.head * codes.tokens + text.begin + pieces.row),
          head_step(shape.heads * codes.tokens),
          width(static_cast<int>(shape.width)),
          length(text.length - pieces.row) {}

    // Each thread's pieces at once, so that it does not wait for one after another.
    __device__ __forceinline__ void write(const Pieces& pieces, const unsigned char* queries) const {
        constexpr int kGroups = Pieces::kGroups;
        static_assert(kGroups % 2 == 0);
#pragma unroll 1
        for (int part = 0; part < 3; ++part) {
            uint4 x[kGroups];
            std::uint32_t largest[kGroups / 2];
#pragma unroll
            for (int i = 0; i < kGroups; ++i)
                x[i] = *reinterpret_cast<const uint4*>(queries + part * kMatrix + pieces.shared_at(i));
#pragma unroll
            for (int i = 0; i < kGroups / 2; ++i) largest[i] = largest_of(x[2 * i], x[2 * i + 1]);
#pragma unroll
            for (int lanes = 1; lanes < SharedRows<Size>::kPieces; lanes *= 2)
#pragma unroll
                for (int i = 0; i < kGroups / 2; ++i)
                    largest[i] = __vmaxu2(largest[i], __shfl_xor_sync(kWarp, largest[i], lanes));
#pragma unroll
            for (int i = 0; i < kGroups; ++i) {
                const int row = i * Pieces::kStep;
                const std::uint32_t bits = i % 2 == 0 ? largest[i / 2] << 16 : largest[i / 2] & 0xffff0000u;
                const std::uint32_t exponent = qkv_exponent(bits);
                const uint2 bytes = qkv_codes(x[i], exponent);
                if (row < length)
                    *reinterpret_cast<uint2*>(all.codes + codes_at + (3 * row + part) * width) = bytes;
                if (row < length && pieces.piece == 0)
                    all.exponents[exponents_at + part * head_step + row] =
                        static_cast<std::uint8_t>(exponent);
            }
        }
    }
};

// The same, loaded while the thread does something else. Rows past the text's end are zeros.
template <int Size, int Warps>
struct LoadedCodes {
    using Pieces = ThreadPieces<Size, 32 * Warps, 16 * Warps>;
    uint2 codes[3][Pieces::kGroups];
    std::uint32_t exponents[3][Pieces::kGroups];

    __device__ __forceinline__ void load(const TextCodes<Size, Warps>& from) {
#pragma unroll
        for (int part = 0; part < 3; ++part)
#pragma unroll
            for (int i = 0; i < Pieces::kGroups; ++i) {
                const int row = i * Pieces::kStep;
                codes[part][i] = make_uint2(0, 0);
                exponents[part][i] = 8;
                if (row >= from.length) continue;
                codes[part][i] = *reinterpret_cast<const uint2*>(from.all.codes + from.codes_at +
                                                                 (3 * row + part) * from.width);
                exponents[part][i] = from.all.exponents[from.exponents_at + part * from.head_step + row];
            }
    }
    __device__ __forceinline__ void place(const Pieces& pieces, unsigned char* queries) const {
#pragma unroll
        for (int part = 0; part < 3; ++part)
#pragma unroll
            for (int i = 0; i < Pieces::kGroups; ++i)
                *reinterpret_cast<uint4*>(queries + part * TextCodes<Size, Warps>::kMatrix +
                                          pieces.shared_at(i)) =
                    qkv_of_codes(codes[part][i], exponents[part][i]);
    }
};

template <int Size, int Warps, bool Drops>
__global__ void __launch_bounds__(32 * Warps, 16 / Warps)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
    after_previous();
    using Rows = SharedRows<Size>;
    using Layout = ShortLayout<Size, Warps>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const ShortText text(shape);
    if (text.length == 0) return;

    const int width = static_cast<int>(shape.width), stride = 3 * width;
    const bf16* from = args.qkv + 3 * text.begin * shape.width + text.head * Size;
    const std::uint32_t start = shared_address(shared);
    const ThreadPieces<Size, 32 * Warps, 16 * Warps> pieces;
    pieces.copy(start + Layout::kQueries, from, stride, text.length);
    pieces.copy(start + Layout::kKeys, from + width, stride, text.length);
    commit_copies();
    pieces.copy(start + Layout::kValues, from + 2 * width, stride, text.length);
    commit_copies();

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int row0 = 16 * warp, blocks = (text.length + 15) / 16;
    const bool active = row0 < text.length;
    QueryMask mask;
    if (Drops && active)
        mask.draw(shape, (text.begin + row0 + (lane & 15)) * shape.heads + text.head, 0, blocks, lane);
    if (args.codes.codes != nullptr) {
        wait_copies<0>();
        TextCodes<Size, Warps>(args.codes, shape, text, pieces).write(pieces, shared + Layout::kQueries);
    }
    float sum[Size / 8][4] = {}, inverse[2], lse[2];
    attend<Size, Warps, Drops, 0>(shape, text.length, start, mask, row0, lane, sum, inverse, lse);
    if (!active) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = row0 + (lane >> 2) + 8 * r;
        if (args.lse != nullptr && (lane & 3) == 0 && row < text.length)
            args.lse[(text.begin + row) * shape.heads + text.head] = lse[r];
    }
    store_rows<Size>(args.context + (text.begin + row0) * shape.width + text.head * Size, shape.width,
                     text.length - row0, sum, inverse[0], inverse[1],
                     shared + Layout::kQueries + row0 * Rows::kRowBytes, lane);
}

// Column sums of what store_rows stores of a warp's rows.
template <int Size>
struct StoredSums {
    float x[Size / 4] = {};  // of column 8 * (n / 2) + 2q + n % 2 at n; in the end a lane's own come first

    // `valid` of 16 rows.
    __device__ __forceinline__ void add(const float (&sum)[Size / 8][4], float factor, int valid, int lane) {
        const int g = lane >> 2;
#pragma unroll
        for (int j = 0; j < Size / 8; ++j) {
            const std::uint32_t upper = pack2(sum[j][0] * factor, sum[j][1] * factor),
                                lower = pack2(sum[j][2] * factor, sum[j][3] * factor);
            const std::uint32_t a = g < valid ? upper : 0u, b = g + 8 < valid ? lower : 0u;
            x[2 * j] += __uint_as_float(a << 16) + __uint_as_float(b << 16);
            x[2 * j + 1] += __uint_as_float(a & 0xffff0000u) + __uint_as_float(b & 0xffff0000u);
        }
    }
    // Adds up over the rows of all lanes: of two lanes that have the same columns each keeps half of them.
    __device__ __forceinline__ void add_lanes(int lane) {
        halve<Size / 8, 16>(lane);
        halve<Size / 16, 8>(lane);
        halve<Size / 32, 4>(lane);
    }
    template <int Half, int Bit>
    __device__ __forceinline__ void halve(int lane) {
        const bool upper = (lane & Bit) != 0;
#pragma unroll
        for (int i = 0; i < Half; ++i) {
            const float mine = upper ? x[Half + i] : x[i], other = upper ? x[i] : x[Half + i];
            x[i] = mine + __shfl_xor_sync(kWarp, other, Bit);
        }
    }
    __device__ __forceinline__ void place(float* to, int lane) const {
#pragma unroll
        for (int i = 0; i < Size / 32; ++i) {
            const int n =
                (lane >> 4) * (Size / 8) + (lane >> 3 & 1) * (Size / 16) + (lane >> 2 & 1) * (Size / 32) + i;
            to[8 * (n / 2) + 2 * (lane & 3) + n % 2] = x[i];
        }
    }
};

// sum (32 x Size, two halves of 16 rows) = dS^T (or dS, where Transposed), its rows from `first` on, times
// 16 * blocks shared rows. `dscores` is dS^T: a row per key, a column per query.
template <int Size, int Warps, bool Transposed>
__device__ __forceinline__ void multiply_dscores(float (&sum)[2][Size / 8][4], std::uint32_t dscores,
                                                 int first, std::uint32_t rows, int blocks, int lane) {
    using Rows = SharedRows<Size>;
    using DScores = SharedRows<short_rows(Warps)>;
    // Operands of rows first .. first + 15 and of the next 16, inner dimension 0 .. 15. Transposed on the
    // way, a stored row is the inner dimension: the lanes' addresses are those of b operands that are not.
    std::uint32_t a_address[2];
#pragma unroll
    for (int m = 0; m < 2; ++m)
        a_address[m] = Transposed
                           ? (dscores + DScores::lane_of_columns(lane)) ^ (2 * (first + 16 * m))
                           : dscores + DScores::lane_of_rows(lane) + (first + 16 * m) * DScores::kRowBytes;
    const std::uint32_t b_address = rows + Rows::lane_of_rows(lane);
#pragma unroll 2
    for (int t = 0; t < blocks; ++t) {
        std::uint32_t a[2][4];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            if (Transposed)
                load_matrices_transposed(a[m], a_address[m] + t * 16 * DScores::kRowBytes);
            else
                load_matrices(a[m], a_address[m] ^ (32 * t));
        }
#pragma unroll
        for (int i = 0; i < Size / 16; ++i) {
            std::uint32_t b[4];
            load_matrices_transposed(b, (b_address + t * 16 * Rows::kRowBytes) ^ (32 * i));
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                multiply_add(sum[m][2 * i], a[m], b[0], b[1]);
                multiply_add(sum[m][2 * i + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// First each warp takes 16 keys: weights and dS, transposed, against all queries; dV is summed, dS goes to
// shared memory. Then half of the warps take 32 keys each for dK and half 32 queries each for dQ. With Again
// the context and lse come first, as the forward computes them, 16 queries per warp. With Coded, too,
// queries, keys and values come from codes, which are exact.
//
// Roundings: delta = sum(dcontext * context), from the context as stored (w relative in each of its elements,
// beside the error it was computed with). Scores, weights 2^fma(score, c, -fl(lse * log2 e)) with
// c = fl(scale * log2 e), and dP = dcontext V^T stay FP32; the dropout's scale is left out and
// delta' = delta * fl(1 / scale). dS' = fma(kept weight, dP, -fl(weight * delta')) is rounded to BF16 for the
// products with Q and K, each kept weight for the product with dcontext: w relative, each. dV = sum * dropout
// scale, dQ and dK = sum * fl(scale * dropout scale), rounded to BF16.
template <int Size, int Warps, bool Drops, bool Again, bool Coded>
__global__ void __launch_bounds__(32 * Warps, 16 / Warps)
    backward_kernel(const __grid_constant__ BackwardArgs args) {
    after_previous();
    using Rows = SharedRows<Size>;
    using DScores = SharedRows<short_rows(Warps)>;
    using Layout = ShortLayout<Size, Warps>;
    using Pieces = ThreadPieces<Size, 32 * Warps, 16 * Warps>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const AttentionShape& shape = args.shape;
    const ShortText text(shape);
    const int width = static_cast<int>(shape.width), stride = 3 * width;
    // The sum of a column of this head's q, k and v, in this order.
    const auto place_of_sum = [&](int column) {
        return args.dqkv_sums + 3 * text.number * shape.width + column / Size * width + text.head * Size +
               column % Size;
    };
    if (text.length == 0) {
        if (args.dqkv_sums != nullptr)
            for (int c = static_cast<int>(threadIdx.x); c < 3 * Size; c += 32 * Warps) *place_of_sum(c) = 0;
        return;
    }

    const std::int64_t context_at = text.begin * shape.width + text.head * Size;
    const std::int64_t lse_at = text.begin * shape.heads + text.head;
    const bf16* from = args.qkv + 3 * text.begin * shape.width + text.head * Size;
    const std::uint32_t start = shared_address(shared);
    const Pieces pieces;
    uint4 context[Pieces::kGroups];
    float lse[Pieces::kGroups];
    LoadedCodes<Size, Warps> loaded;
    if constexpr (Coded) {
        loaded.load(TextCodes<Size, Warps>(args.codes, shape, text, pieces));
        pieces.copy(start + Layout::kDContext, args.dcontext + context_at, width, text.length);
        commit_copies();
    } else if constexpr (Again) {
        pieces.copy(start + Layout::kQueries, from, stride, text.length);
        pieces.copy(start + Layout::kKeys, from + width, stride, text.length);
        commit_copies();
        pieces.copy(start + Layout::kValues, from + 2 * width, stride, text.length);
        commit_copies();
        pieces.copy(start + Layout::kDContext, args.dcontext + context_at, width, text.length);
        commit_copies();
    } else {
        pieces.copy(start + Layout::kDContext, args.dcontext + context_at, width, text.length);
        pieces.copy(start + Layout::kQueries, from, stride, text.length);
        pieces.copy(start + Layout::kKeys, from + width, stride, text.length);
        pieces.copy(start + Layout::kValues, from + 2 * width, stride, text.length);
        commit_copies();
#pragma unroll
        for (int i = 0; i < Pieces::kGroups; ++i) {
            context[i] = *reinterpret_cast<const uint4*>(args.context + context_at +
                                                         pieces.global_at(i, width, text.length));
            lse[i] = args.lse[lse_at + min(pieces.row + i * Pieces::kStep, text.length - 1) * shape.heads];
        }
    }

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane >> 2, q = lane & 3;
    const int row0 = 16 * warp, blocks = (text.length + 15) / 16;
    const bool active = row0 < text.length;
    float2* numbers = reinterpret_cast<float2*>(shared + Layout::kNumbers);
    KeyMask mask;
    if constexpr (Again) {
        QueryMask of_queries;
        constexpr int kStep = 8 * Warps;  // words of a query block's votes
        auto* votes = reinterpret_cast<std::uint32_t*>(shared + Layout::kVotes);
        if (Drops && active)
            of_queries.draw(shape, (text.begin + row0 + (lane & 15)) * shape.heads + text.head, 0, blocks,
                            lane, reinterpret_cast<uint4*>(votes + warp * kStep));
        if constexpr (Coded) loaded.place(pieces, shared + Layout::kQueries);
        float sum[Size / 8][4] = {}, inverse[2], row_lse[2];
        attend<Size, Warps, Drops, 1>(shape, text.length, start, of_queries, row0, lane, sum, inverse,
                                      row_lse);
        if (active) {
            place_rows<Size>(shared + Layout::kContext + row0 * Rows::kRowBytes, sum, inverse[0], inverse[1],
                             lane);
            if (q == 0) {
                numbers[row0 + g].x = row_lse[0];
                numbers[row0 + g + 8].x = row_lse[1];
            }
        }
        wait_copies<0>();
        __syncthreads();  // context, lse and votes of all warps are there
        if (Drops && active) mask.read(votes + 8 * warp, kStep, blocks, lane);
#pragma unroll
        for (int i = 0; i < Pieces::kGroups; ++i) {
            const int row = pieces.row + i * Pieces::kStep;
            context[i] = *reinterpret_cast<const uint4*>(shared + Layout::kContext + pieces.shared_at(i));
            lse[i] = numbers[row].x;
            if (row < text.length)
                *reinterpret_cast<uint4*>(args.context_again + context_at +
                                          pieces.global_at(i, width, text.length)) = context[i];
        }
        __syncwarp();  // a row's numbers are read by the lanes that share it, and written by one
    } else {
        if (Drops && active)
            mask.draw(shape, (text.begin + (lane & 15)) * shape.heads + text.head, 16 * shape.heads, row0 / 8,
                      blocks, lane);
        wait_copies<0>();
    }

    // -lse * log2 e and -delta' of each query: of the pieces of dcontext that the thread has copied itself.
    const float unscale = -1.0f / shape.dropout.scale;
#pragma unroll
    for (int i = 0; i < Pieces::kGroups; ++i) {
        const int row = pieces.row + i * Pieces::kStep;
        float x[8], y[8], dot = 0;
        unpack8(context[i], x);
        unpack8(*reinterpret_cast<const uint4*>(shared + Layout::kDContext + pieces.shared_at(i)), y);
#pragma unroll
        for (int e = 0; e < 8; ++e) dot = __fmaf_rn(x[e], y[e], dot);
#pragma unroll
        for (int lanes = 1; lanes < Rows::kPieces; lanes *= 2) dot += __shfl_xor_sync(kWarp, dot, lanes);
        // Past the text's end dcontext is zero; the weights must be zero too.
        const float shift = row < text.length ? -lse[i] * kLog2e : -INFINITY;
        if (pieces.piece == 0) numbers[row] = make_float2(shift, dot * unscale);
    }
    __syncthreads();

    StoredSums<Size> value_sums;
    if (active) {
        const float factor = shape.scale * kLog2e;
        std::uint32_t key[Size / 16][4], value[Size / 16][4];
        load_rows<Size>(key, start + Layout::kKeys + row0 * Rows::kRowBytes, lane);
        load_rows<Size>(value, start + Layout::kValues + row0 * Rows::kRowBytes, lane);
        // Keys past the text's end have weights of any size; in dS they are zeros.
        const std::uint32_t there[2] = {row0 + g < text.length ? kWarp : 0u,
                                        row0 + g + 8 < text.length ? kWarp : 0u};
        const std::uint32_t column_lane = Rows::lane_of_columns(lane), row_lane = Rows::lane_of_rows(lane);
        const std::uint32_t dscores_lane = DScores::at(row0 + g, 0) + 4 * q;
        float dvalue[Size / 8][4] = {};
#pragma unroll 1
        for (int t = 0; t < blocks; ++t) {
            const std::uint32_t queries = start + Layout::kQueries + t * 16 * Rows::kRowBytes;
            const std::uint32_t dcontext = queries + (Layout::kDContext - Layout::kQueries);
            float weight[2][4], dscore[2][4];
            multiply_columns<Size>(weight, key, queries + column_lane);
            multiply_columns<Size>(dscore, value, dcontext + column_lane);
            const KeptOfKeys kept = mask.of(t);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float4 two = *reinterpret_cast<const float4*>(numbers + 16 * t + 8 * j + 2 * q);
                const float shift[2] = {two.x, two.z}, delta[2] = {two.y, two.w};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float p = exp2_fast(__fmaf_rn(weight[j][i], factor, shift[i & 1]));
                    weight[j][i] = !Drops || kept(j, i) ? p : 0.0f;
                    dscore[j][i] = __fmaf_rn(weight[j][i], dscore[j][i], p * delta[i & 1]);
                }
            }
            add_product<Size>(dvalue, weight, dcontext + row_lane);
            std::uint32_t packed[4];  // of key g + 8 * (i & 1), queries 8 * (i >> 1) + 2q, + 1
            pack(packed, dscore);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                *reinterpret_cast<std::uint32_t*>(
                    shared + Layout::kDScores + (dscores_lane ^ (32 * t + 16 * (i >> 1))) +
                    8 * (i & 1) * DScores::kRowBytes) = packed[i] & there[i & 1];
        }
        store_rows<Size>(args.dqkv + (text.begin + row0) * stride + 2 * shape.width + text.head * Size,
                         stride, text.length - row0, dvalue, shape.dropout.scale, shape.dropout.scale,
                         shared + Layout::kValues + row0 * Rows::kRowBytes, lane);
        if (args.dqkv_sums != nullptr) {
            value_sums.add(dvalue, shape.dropout.scale, text.length - row0, lane);
            value_sums.add_lanes(lane);
        }
    }
    __syncthreads();

    const bool of_queries = warp >= Warps / 2;
    const int first = 32 * (warp % (Warps / 2)), rows = text.length - first;
    float sum[2][Size / 8][4] = {};
    if (rows > 0) {
        if (of_queries)
            multiply_dscores<Size, Warps, true>(sum, start + Layout::kDScores, first, start + Layout::kKeys,
                                                blocks, lane);
        else
            multiply_dscores<Size, Warps, false>(sum, start + Layout::kDScores, first,
                                                 start + Layout::kQueries, blocks, lane);
    }
    const float factor = shape.scale * shape.dropout.scale;
    float* sums = reinterpret_cast<float*>(shared + Layout::kSums);
    if (args.dqkv_sums != nullptr) {
        __syncthreads();  // dS is dead now
        value_sums.place(sums + warp * Size, lane);
        StoredSums<Size> others;
        if (rows > 0) {
#pragma unroll
            for (int m = 0; m < 2; ++m) others.add(sum[m], factor, rows - 16 * m, lane);
            others.add_lanes(lane);
        }
        others.place(sums + (Warps + warp) * Size, lane);
    }
    if (rows > 0) {
        // Values and dcontext are dead now: each warp takes 32 rows of them.
        bf16* to =
            args.dqkv + 3 * (text.begin + first) * shape.width + (of_queries ? 0 : width) + text.head * Size;
#pragma unroll
        for (int m = 0; m < 2; ++m)
            store_rows<Size>(to + 16 * m * stride, stride, rows - 16 * m, sum[m], factor, factor,
                             shared + Layout::kValues + (32 * warp + 16 * m) * Rows::kRowBytes, lane);
    }
    if (args.dqkv_sums == nullptr) return;
    __syncthreads();  // all warps' sums are there
    for (int c = static_cast<int>(threadIdx.x); c < 3 * Size; c += 32 * Warps) {
        // q is of the upper half of the warps' second rows, k of the lower half, v of all first rows.
        const int kind = c / Size, count = kind == 2 ? Warps : Warps / 2;
        const float* row = sums + (kind == 0 ? Warps + Warps / 2 : kind == 1 ? Warps : 0) * Size + c % Size;
        float total = 0;
        for (int i = 0; i < count; ++i) total += row[i * Size];
        *place_of_sum(c) = total;
    }
}

template <int Size, int Warps, class Args>
void launch(void (*kernel)(Args), const char* op, const Args& args, const DeviceTexts& texts, int bytes,
            const Launch& how) {
    if (bytes > 48 * 1024)
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), op);
    launch_early(how.early, kernel, static_cast<unsigned>(texts.num_texts * args.shape.heads), 32 * Warps,
                 static_cast<std::size_t>(bytes), how.stream, op, args);
}

template <int Size, int Warps>
void launch(const ForwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    launch<Size, Warps>(args.shape.dropout.threshold > 0 ? forward_kernel<Size, Warps, true>
                                                         : forward_kernel<Size, Warps, false>,
                        "attention forward", args, texts, ShortLayout<Size, Warps>::kForwardBytes, how);
}
template <int Size, int Warps>
void launch(const BackwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    const auto kernel = [&](auto drops) {
        return args.codes.codes != nullptr     ? backward_kernel<Size, Warps, drops(), true, true>
               : args.context_again != nullptr ? backward_kernel<Size, Warps, drops(), true, false>
                                               : backward_kernel<Size, Warps, drops(), false, false>;
    };
    launch<Size, Warps>(
        args.shape.dropout.threshold > 0 ? kernel(std::true_type{}) : kernel(std::false_type{}),
        "attention backward", args, texts, ShortLayout<Size, Warps>::kBackwardBytes, how);
}

template <int Size, class Args>
void run_size(const Args& args, const DeviceTexts& texts, const Launch& how) {
    if (texts.longest <= short_rows(2))
        launch<Size, 2>(args, texts, how);
    else if (texts.longest <= short_rows(4))
        launch<Size, 4>(args, texts, how);
    else
        launch<Size, 8>(args, texts, how);
}
template <class Args>
void run(const Args& args, const DeviceTexts& texts, const Launch& how) {
    if (args.shape.width / args.shape.heads == 32)
        run_size<32>(args, texts, how);
    else
        run_size<64>(args, texts, how);
}

}  // namespace

void attention_forward_short(const ForwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    run(args, texts, how);
}
void attention_backward_short(const BackwardArgs& args, const DeviceTexts& texts, const Launch& how) {
    run(args, texts, how);
}

}  // namespace elmo::cuda
