#include <cuda_fp8.h>

#include <algorithm>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/column_sums.cuh"
#include "backend/cuda/device/early.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/linear/fp8_cast.h"
#include "backend/cuda/linear/gelu.cuh"
#include "backend/ops/linear.h"
#include "numerics/minifloat.h"

namespace elmo::cuda {
namespace {

// The largest magnitude of what a thread has seen, of even and of odd columns. The bits of |x| order as the
// numbers do, with infinity and NaN above all others.
struct Largest {
    std::uint32_t pair = 0;
    __device__ __forceinline__ void see(std::uint32_t other) { pair = __vmaxu2(pair, other & 0x7fff7fffu); }
    __device__ __forceinline__ void see(const uint4& eight) {
        see(eight.x), see(eight.y), see(eight.z), see(eight.w);
    }
    __device__ __forceinline__ std::uint32_t bits() const { return max(pair & 0xffff0000u, pair << 16); }
};

// From all threads of all `blocks` blocks that share the state to the last block to arrive: there deliver(the
// largest) runs on one thread, and the state is as it was.
template <class Deliver>
__device__ __forceinline__ void gather(const Largest& seen, AmaxState& state, unsigned blocks,
                                       const Deliver& deliver) {
    __shared__ std::uint32_t of_warp[kThreads / 32];
    std::uint32_t largest = __reduce_max_sync(0xffffffffu, seen.bits());
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
    __syncthreads();  // every warp's largest is there
    if (threadIdx.x != 0) return;
    for (const std::uint32_t other : of_warp) largest = max(largest, other);
    atomicMax(&state.largest, largest);
    __threadfence();  // the maximum is seen before the arrival is
    if (atomicInc(&state.arrived, blocks - 1) != blocks - 1) return;
    __threadfence();  // what other blocks read, they have read
    deliver(__uint_as_float(atomicExch(&state.largest, 0u)));
}

// ---- Codes ----

// Powers of two: the factor before rounding and its inverse.
struct Scale {
    float up, down;
    bool finite;  // no number of the matrix is infinite or NaN
};
template <bool kE5>
__device__ __forceinline__ Scale scale_of(float amax) {
    constexpr MiniFloat format = kE5 ? kE5M2 : kE4M3;
    const std::uint32_t bits = __float_as_uint(amax);
    const int power = scale_exponent(format, bits);
    return {__uint_as_float(static_cast<std::uint32_t>(127 + power) << 23),
            __uint_as_float(static_cast<std::uint32_t>(127 - power) << 23), bits < 0x7f800000u};
}

// Four BF16 numbers as a word of codes, the first lowest. The product by a power of two is exact, or below
// all codes.
template <bool kE5>
__device__ __forceinline__ std::uint32_t code4(std::uint32_t ab, std::uint32_t cd, const Scale& scale) {
    constexpr __nv_fp8_interpretation_t kKind = kE5 ? __NV_E5M2 : __NV_E4M3;
    const auto code2 = [&](std::uint32_t pair) -> std::uint32_t {
        const std::uint32_t both = __float_as_uint(scale.up) >> 16;
        const std::uint32_t up2 = both | both << 16;
        const __nv_bfloat162 scaled = __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair),
                                              reinterpret_cast<const __nv_bfloat162&>(up2));
        const std::uint32_t x = reinterpret_cast<const std::uint32_t&>(scaled);
        return __nv_cvt_float2_to_fp8x2(
            make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u)), __NV_SATFINITE, kKind);
    };
    return __byte_perm(code2(ab), code2(cd), 0x5410);
}
// An infinity becomes NaN, as codes have it.
__device__ __forceinline__ std::uint32_t nan_if_infinite(std::uint32_t pair) {
    const auto& x = reinterpret_cast<const __nv_bfloat162&>(pair);
    const __nv_bfloat162 sum = __hadd2(x, __hsub2(x, x));
    return reinterpret_cast<const std::uint32_t&>(sum);
}

// Words of four rows, four columns each, become words of four columns, four rows each.
__device__ __forceinline__ void transpose4(std::uint32_t (&w)[4]) {
    const std::uint32_t a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[0], w[1], 0x7362);
    const std::uint32_t c = __byte_perm(w[2], w[3], 0x5140), d = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(a, c, 0x5410);
    w[1] = __byte_perm(a, c, 0x7632);
    w[2] = __byte_perm(b, d, 0x5410);
    w[3] = __byte_perm(b, d, 0x7632);
}

constexpr unsigned kBlocksAtOnce = 4;  // of a multiprocessor

// What is cast: a matrix as it is, what GELU makes of it, its product with slopes; and the last two of codes
// of what the GELU saw.
enum class Kind { kPlain, kGelu, kProduct, kSeen, kSeenProduct };
constexpr bool is_product(Kind kind) {
    return kind == Kind::kProduct || kind == Kind::kSeenProduct;
}

struct CastJob {
    const bf16* x = nullptr;
    std::int64_t rows = 0, cols = 0, padded_rows = 0;
    float *amax = nullptr, *scale = nullptr;
    float* guess = nullptr;  // where amax is not known: receives what was taken for it
    float* drift = nullptr;  // of gradients
    AmaxState* state = nullptr;
    std::uint8_t *codes = nullptr, *transposed = nullptr, *slope = nullptr, *seen = nullptr;
    const std::uint8_t *pre = nullptr, *times = nullptr;
    bf16* product = nullptr;
    float* sums = nullptr;
    bool e5m2 = false;
    __device__ bool has_gelu() const { return slope != nullptr || seen != nullptr; }
    unsigned tiles = 0, tiles_across = 0, blocks = 0;
};
struct CastJobs {
    CastJob job[kMostFp8Operands];
};

// ---- GELU by a table ----

// A BF16 number has few bits: what GELU and its slope need of one is in a table, for magnitudes from 2^-9 to
// 16 of both signs. Smaller ones share an entry (there BF16 has GELU(x) = x / 2, slope 1/2), and so do larger
// ones (x or 0). An entry is phi as a float whose last eight bits are the slope's code, but for one bit: as 0
// for a slope of 0, so that phi stays 0. It is made so that x * entry rounds to the BF16 number that
// x * phi(x) rounds to (results of at most 2^-126 may differ in their last bit). Slopes of what is not finite
// are not in it. A second table has pre_code(x) (ops/linear.h) there, but not of what is above 16.
constexpr std::uint32_t kSmaller = ((127 - 9) << 7) - 1, kLarger = (127 + 4) << 7;  // bits of magnitudes
constexpr std::uint32_t kSlopeBit = slope_code(0.0f);
static_assert(kLarger - kSmaller < kGeluEntries / 2 && pre_code(-16.0f) == 0);

__global__ void __launch_bounds__(kThreads) gelu_table_kernel(std::uint32_t* entries, bool seen) {
    constexpr std::uint32_t kHalf = kGeluEntries / 2;
    const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x, size = min(kSmaller + i % kHalf, kLarger);
    const float x = __uint_as_float((i / kHalf << 15 | size) << 16), share = phi(x);
    const std::uint32_t code = seen ? pre_code(x) : slope_code(slope(x, share)) ^ kSlopeBit;
    const auto rounded = [&](float by) { return __bfloat16_as_ushort(__float2bfloat16_rn(x * by)); };
    std::uint32_t entry = (__float_as_uint(share) & ~0xffu) | code;
    if (rounded(__uint_as_float(entry)) != rounded(share)) entry += 0x100;
    if (rounded(__uint_as_float(entry)) != rounded(share)) entry -= 0x200;
    entries[i] = entry;
}

// The lowest bytes of four words as a word, the first lowest.
__device__ __forceinline__ std::uint32_t low_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                   std::uint32_t d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Eight numbers become what GELU makes of them, in BF16; the last bytes of their entries.
__device__ __forceinline__ uint2 apply_gelu(uint4& raw, const std::uint32_t (&table)[kGeluEntries]) {
    std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w}, entry[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const std::uint32_t size = words[i] & 0x7fff7fffu;
        const std::uint32_t held = __vminu2(__vmaxu2(size, kSmaller * 0x10001u), kLarger * 0x10001u);
        // Of both numbers at once: the places of their entries, in bytes.
        static_assert(kGeluEntries / 2 * sizeof(entry[0]) == 0x8000 >> 2);
        const std::uint32_t places = (held - kSmaller * 0x10001u) * 4 | (words[i] >> 2 & 0x20002000u);
        const auto at = [&](std::uint32_t place) {
            return *reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const char*>(table) + place);
        };
        entry[2 * i] = at(places & 0xffffu);
        entry[2 * i + 1] = at(places >> 16);
        words[i] = pack2(__uint_as_float(words[i] << 16) * __uint_as_float(entry[2 * i]),
                         __uint_as_float(words[i] & 0xffff0000u) * __uint_as_float(entry[2 * i + 1]));
    }
    raw = make_uint4(words[0], words[1], words[2], words[3]);
    return make_uint2(low_bytes(entry[0], entry[1], entry[2], entry[3]),
                      low_bytes(entry[4], entry[5], entry[6], entry[7]));
}

// ---- Products with slopes ----

// Eight numbers are multiplied by slopes (slope_of, ops/linear.h) and rounded to BF16; the results are added
// to the sums. A code among the bits of 2^23 counts units.
__device__ __forceinline__ void multiply_slopes(uint4& raw, const uint2& codes, float (&sums)[8]) {
    float v[8];
    unpack8(raw, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const std::uint32_t word = i < 4 ? codes.x : codes.y;
        const float counted = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + i % 4));
        v[i] *= fmaf(counted, 0x1p-7f, -(0x1p23f + kSlopeBit) * 0x1p-7f);
    }
    // Of all codes only NaN's has both of its highest bits.
    static_assert(slope_code(1.13f) < 0xc0 && kSlopeNan >= 0xc0);
    if (((codes.x & codes.x << 1) | (codes.y & codes.y << 1)) & 0x80808080u)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (byte_of(codes, i) == kSlopeNan) v[i] = __uint_as_float(0x7fffffffu);
    raw = make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
    unpack8(raw, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] += v[i];
}

// The same with GELU's derivatives, by codes of what it saw.
__device__ __forceinline__ void multiply_derivatives(uint4& raw, const uint2& codes,
                                                     const float (&by_code)[256 * 32], float (&sums)[8]) {
    float v[8];
    unpack8(raw, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= by_code[32 * byte_of(codes, i) + threadIdx.x % 32];
    raw = make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
    unpack8(raw, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] += v[i];
}

// ---- Tiles ----

// A tile is 128 rows by 64 columns; a thread has four rows of eight columns.
constexpr int kTileRows = 128, kTileCols = 64;
constexpr int kTileStride = kTileRows / 4 + 1;  // words of a column in shared memory

// What the threads of a block share.
template <Kind kKind>
struct CastShared {
    std::uint32_t columns[kTileCols * kTileStride];
};
template <>
struct CastShared<Kind::kGelu> {
    std::uint32_t columns[kTileCols * kTileStride];
    alignas(16) std::uint32_t gelu[kGeluEntries];
};
// By code; every lane has its own, so that reads never wait for one another.
template <>
struct CastShared<Kind::kSeen> {
    std::uint32_t columns[kTileCols * kTileStride];
    std::uint32_t by_code[256 * 32];
};
template <>
struct CastShared<Kind::kSeenProduct> {
    std::uint32_t columns[kTileCols * kTileStride];
    float by_code[256 * 32];
};
// A thread's entry for the code with its number goes to all lanes.
template <class T>
__device__ __forceinline__ void fill_by_code(T (&by_code)[256 * 32], T entry) {
    static_assert(kThreads == 256);
    for (unsigned i = 0; i < 32; ++i) by_code[32 * threadIdx.x + (threadIdx.x + i) % 32] = entry;
}

// A thread's part of a tile: where it is, and what is there.
template <Kind kKind>
struct Part {
    int row0, column0;    // of the tile
    int rows;             // of the part that the matrix has
    std::int64_t offset;  // of its first element
    uint4 raw[4];
    uint2 slopes[4];  // only of products

    __device__ __forceinline__ Part(const CastJob& job, unsigned tile) {
        row0 = static_cast<int>(tile / job.tiles_across) * kTileRows;
        column0 = static_cast<int>(tile % job.tiles_across) * kTileCols;
        const int row = row0 + 4 * static_cast<int>(threadIdx.x / 8);
        const int column = column0 + 8 * static_cast<int>(threadIdx.x % 8);
        rows = column < job.cols ? min(static_cast<int>(job.rows) - row, 4) : 0;
        offset = row * job.cols + column;
#pragma unroll
        for (int r = 0; r < 4; ++r)
            raw[r] = r < rows ? *reinterpret_cast<const uint4*>(job.x + offset + r * job.cols)
                              : make_uint4(0, 0, 0, 0);
        if constexpr (is_product(kKind))
#pragma unroll
            for (int r = 0; r < 4; ++r)
                slopes[r] = r < rows ? *reinterpret_cast<const uint2*>(job.times + offset + r * job.cols)
                                     : make_uint2(kSlopeBit * 0x01010101u, kSlopeBit * 0x01010101u);
    }
};

// Codes of a thread's four rows, columns 0 to 3 and 4 to 7, go to their places in the transposed matrix.
template <class Shared>
__device__ __forceinline__ void store_transposed(const CastJob& job, int row0, int column0,
                                                 std::uint32_t (&left)[4], std::uint32_t (&right)[4],
                                                 Shared& shared) {
    transpose4(left);
    transpose4(right);
    const int quad = static_cast<int>(threadIdx.x) / 8, eighth = static_cast<int>(threadIdx.x) % 8;
    __syncthreads();  // the tile before has been read
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        shared.columns[(8 * eighth + c) * kTileStride + quad] = left[c];
        shared.columns[(8 * eighth + 4 + c) * kTileStride + quad] = right[c];
    }
    __syncthreads();  // the columns are whole
    // Sixteen rows of a column at a time.
    const int rows_left = static_cast<int>(job.padded_rows) - row0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int c = quad + 32 * i;
        if (column0 + c >= job.cols || 16 * eighth >= rows_left) continue;
        const std::uint32_t* words = shared.columns + c * kTileStride + 4 * eighth;
        *reinterpret_cast<uint4*>(job.transposed + (column0 + c) * job.padded_rows + row0 + 16 * eighth) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
}

template <bool kE5, Kind kKind, class Shared>
__device__ __forceinline__ void cast_part(const CastJob& job, Part<kKind>& part, const Scale& scale,
                                          Shared& shared, Largest& seen, float (&sums)[8]) {
    const auto at = [&](int r) { return part.offset + r * job.cols; };
    Largest here;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        if constexpr (kKind == Kind::kGelu) {
            const uint2 bytes = apply_gelu(part.raw[r], shared.gelu);
            constexpr std::uint32_t kBits = kSlopeBit * 0x01010101u;
            if (r >= part.rows) {  // nothing to store
            } else if (job.seen != nullptr)
                *reinterpret_cast<uint2*>(job.seen + at(r)) = bytes;
            else
                *reinterpret_cast<uint2*>(job.slope + at(r)) = make_uint2(bytes.x ^ kBits, bytes.y ^ kBits);
        }
        if constexpr (is_product(kKind)) {
            if constexpr (kKind == Kind::kProduct)
                multiply_slopes(part.raw[r], part.slopes[r], sums);
            else
                multiply_derivatives(part.raw[r], part.slopes[r], shared.by_code, sums);
            if (job.product != nullptr && r < part.rows)
                *reinterpret_cast<uint4*>(job.product + at(r)) = part.raw[r];
        }
        here.see(part.raw[r]);
    }
    seen.see(here.pair);
    if constexpr (kKind == Kind::kGelu)
        if (here.bits() > (job.seen != nullptr ? kLarger << 16 : 0x7f7fffffu))
#pragma unroll 1
            for (int i = 0; i < 8 * part.rows; ++i) {  // rare
                const std::int64_t place = at(i / 8) + i % 8;
                const float x = load_float(job.x, place);
                if (job.seen != nullptr)
                    job.seen[place] = pre_code(x);
                else if (!isfinite(x))
                    job.slope[place] = kSlopeNan;
            }
    if (!scale.finite)
#pragma unroll
        for (uint4& eight : part.raw)
            for (std::uint32_t* pair : {&eight.x, &eight.y, &eight.z, &eight.w})
                *pair = nan_if_infinite(*pair);
    std::uint32_t left[4], right[4];  // of each row: columns 0 to 3, 4 to 7
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        left[r] = code4<kE5>(part.raw[r].x, part.raw[r].y, scale);
        right[r] = code4<kE5>(part.raw[r].z, part.raw[r].w, scale);
        if (job.codes != nullptr && r < part.rows)
            *reinterpret_cast<uint2*>(job.codes + at(r)) = make_uint2(left[r], right[r]);
    }
    if (job.transposed == nullptr) return;
    store_transposed(job, part.row0, part.column0, left, right, shared);
}

// By how much the largest magnitude of a gradient has changed, in a form that is safe to multiply by.
__device__ __forceinline__ float drift_of(float before, float now) {
    const float drift = now / before;
    return drift > 0x1p-60f && drift < 0x1p60f ? drift : 1.0f;
}

// The blocks of a job divide its tiles, from the last to the first: what was written last is still in the L2
// cache. A tile loads while the one before it is cast. The first launch finds the largest magnitude while it
// casts with that of the guess; the second (`again`) casts if the guess had another scale, or if some numbers
// are not finite. Gradients of a step grow or shrink together, from batch to batch by factors: the guess is
// what the last step had, times what became of the gradient that was cast before this one.
template <bool kE5, Kind kKind, class Shared>
__device__ __forceinline__ void cast_job(const CastJob& job, unsigned block, bool again, Shared& shared) {
    const float before = *job.amax;
    const float amax = again || job.drift == nullptr ? before : before * *job.drift;
    const Scale scale = scale_of<kE5>(amax);
    if (again && scale.finite && scale.up == scale_of<kE5>(*job.guess).up) return;
    if (block == 0 && threadIdx.x == 0) *job.scale = scale.down;
    Largest seen;
    float sums[8] = {};
    Part<kKind> next(job, job.tiles - 1 - block);
    for (unsigned i = block; i < job.tiles; i += job.blocks) {
        constexpr bool kAhead = !is_product(kKind);  // there are no registers for more of those
        if (!kAhead && i > block) next = Part<kKind>(job, job.tiles - 1 - i);
        Part<kKind> part = next;
        if (kAhead && i + job.blocks < job.tiles) next = Part<kKind>(job, job.tiles - 1 - (i + job.blocks));
        cast_part<kE5>(job, part, scale, shared, seen, sums);
    }
    if constexpr (is_product(kKind))
        if (job.sums != nullptr)  // all its tiles have the same columns
            write_partial<8, kThreads / 8, 8>(sums, reinterpret_cast<float*>(shared.columns), next.column0,
                                              job.cols, job.sums + block / job.tiles_across * job.cols);
    if (again || job.guess == nullptr) return;
    gather(seen, *job.state, job.blocks, [&](float largest) {
        *job.guess = amax;
        *job.amax = largest;
        if (job.drift != nullptr) *job.drift = drift_of(before, largest);
    });
}

// The job of codes of what a GELU saw: transposed codes of what it makes of them, with a scale that is known.
template <class Shared>
__device__ __forceinline__ void cast_seen(const CastJob& job, unsigned block, Shared& shared) {
    const Scale scale = scale_of<false>(*job.amax);
    if (block == 0 && threadIdx.x == 0) *job.scale = scale.down;
    const float x = pre_of(static_cast<std::uint8_t>(threadIdx.x));
    const std::uint32_t gelu = __bfloat16_as_ushort(__float2bfloat16_rn(x * phi(x)));
    fill_by_code(shared.by_code, code4<false>(gelu, 0, scale));
    __syncthreads();  // the table is whole
    const auto row0 = [&](unsigned tile) { return static_cast<int>(tile / job.tiles_across) * kTileRows; };
    const auto column0 = [&](unsigned tile) { return static_cast<int>(tile % job.tiles_across) * kTileCols; };
    uint2 next[4];
    int next_rows = 0;
    const auto fetch = [&](unsigned tile) {
        const int row = row0(tile) + 4 * static_cast<int>(threadIdx.x / 8);
        const int column = column0(tile) + 8 * static_cast<int>(threadIdx.x % 8);
        next_rows = column < job.cols ? min(static_cast<int>(job.rows) - row, 4) : 0;
        const std::uint8_t* from = job.pre + row * job.cols + column;
#pragma unroll
        for (int r = 0; r < 4; ++r)
            if (r < next_rows) next[r] = *reinterpret_cast<const uint2*>(from + r * job.cols);
    };
    fetch(job.tiles - 1 - block);
    for (unsigned i = block; i < job.tiles; i += job.blocks) {
        const unsigned tile = job.tiles - 1 - i;
        const int rows = next_rows;
        uint2 pre[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) pre[r] = next[r];
        if (i + job.blocks < job.tiles) fetch(tile - job.blocks);
        std::uint32_t left[4] = {}, right[4] = {};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (r >= rows) continue;
            std::uint32_t entry[8];
#pragma unroll
            for (int j = 0; j < 8; ++j) entry[j] = shared.by_code[32 * byte_of(pre[r], j) + threadIdx.x % 32];
            left[r] = low_bytes(entry[0], entry[1], entry[2], entry[3]);
            right[r] = low_bytes(entry[4], entry[5], entry[6], entry[7]);
        }
        store_transposed(job, row0(tile), column0(tile), left, right, shared);
    }
}

// Some of the jobs may be of that kind, the others are plain.
template <Kind kKind>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    cast_kernel(const __grid_constant__ CastJobs jobs, bool again, const std::uint32_t* gelu_table) {
    __shared__ CastShared<kKind> shared;
    let_next_begin();
    unsigned block = blockIdx.x;
    int j = 0;
    while (block >= jobs.job[j].blocks) block -= jobs.job[j++].blocks;
    const CastJob& job = jobs.job[j];
    if constexpr (kKind == Kind::kGelu) {
        if (job.has_gelu()) {
            // The table is older than the kernel before.
            if (job.seen != nullptr) gelu_table += kGeluEntries;
            for (unsigned i = threadIdx.x; i < kGeluEntries / 4; i += kThreads)
                reinterpret_cast<uint4*>(shared.gelu)[i] = reinterpret_cast<const uint4*>(gelu_table)[i];
            wait_for_previous();
            __syncthreads();  // the table is whole
            return cast_job<false, kKind>(job, block, again, shared);
        }
    }
    if constexpr (kKind == Kind::kSeenProduct) {
        const float x = pre_of(static_cast<std::uint8_t>(threadIdx.x));
        fill_by_code(shared.by_code, slope(x, phi(x)));
        __syncthreads();  // the table is whole
    }
    wait_for_previous();
    if constexpr (kKind == Kind::kSeen)
        if (job.pre != nullptr) return cast_seen(job, block, shared);
    if constexpr (is_product(kKind))
        if (job.times != nullptr) return cast_job<true, kKind>(job, block, again, shared);
    if (job.e5m2)
        cast_job<true, Kind::kPlain>(job, block, again, shared);
    else
        cast_job<false, Kind::kPlain>(job, block, again, shared);
}

// ---- Any number of columns ----

// What is cast, in BF16.
__device__ __forceinline__ bf16 number(const CastJob& job, std::int64_t i) {
    if (!job.has_gelu() && job.pre == nullptr) return job.x[i];
    const float x = job.pre != nullptr ? pre_of(job.pre[i]) : load_float(job.x, i), share = phi(x);
    if (job.seen != nullptr)
        job.seen[i] = pre_code(x);
    else if (job.slope != nullptr)
        job.slope[i] = slope_code(slope(x, share));
    return __float2bfloat16_rn(x * share);
}

__global__ void __launch_bounds__(kThreads) amax_kernel(const CastJob job) {
    Largest seen;
    for_each<1>(job.rows * job.cols, [&](std::int64_t i) { seen.see(__bfloat16_as_ushort(number(job, i))); });
    gather(seen, *job.state, gridDim.x, [&](float largest) { *job.amax = largest; });
}

template <bool kE5>
__global__ void __launch_bounds__(kThreads) code_kernel(const CastJob job) {
    const Scale scale = scale_of<kE5>(*job.amax);
    if (blockIdx.x == 0 && threadIdx.x == 0) *job.scale = scale.down;
    for_each<1>(job.padded_rows * job.cols, [&](std::int64_t i) {
        const std::int64_t row = i / job.cols;
        const std::uint32_t x = row < job.rows ? __bfloat16_as_ushort(number(job, i)) : 0;
        const auto code = static_cast<std::uint8_t>(code4<kE5>(nan_if_infinite(x), 0, scale));
        if (job.codes != nullptr && row < job.rows) job.codes[i] = code;
        if (job.transposed != nullptr) job.transposed[i % job.cols * job.padded_rows + row] = code;
    });
}

// What a card with 132 multiprocessors runs at once; of these, for a job that sums columns, which leaves some
// for an input that is cast beside it.
constexpr unsigned kBlocks = 132 * kBlocksAtOnce, kSummingBlocks = kBlocks * 3 / 4;

// Blocks for the jobs that have any, by their tiles: at most as many as `most`, or a block more for a job.
// The blocks of a job that sums columns have their own columns, and their number depends only on the shape.
unsigned share_blocks(std::span<CastJob> jobs, unsigned most) {
    unsigned blocks = 0;
    std::uint64_t tiles = 0;
    for (CastJob& job : jobs) {
        if (job.sums != nullptr)
            blocks += job.blocks =
                job.tiles_across * static_cast<unsigned>(fp8_cast_sums(job.rows, job.cols));
        else if (job.blocks > 0)
            tiles += job.tiles;
    }
    const unsigned left = most - std::min(most, blocks);
    for (CastJob& job : jobs) {
        if (job.sums != nullptr || job.blocks == 0) continue;
        const auto share = static_cast<unsigned>(left * std::uint64_t{job.tiles} / tiles);
        blocks += job.blocks = std::clamp(share, 1u, job.tiles);
    }
    return blocks;
}

}  // namespace

std::int64_t fp8_cast_sums(std::int64_t rows, std::int64_t cols) {
    return std::clamp<std::int64_t>(kSummingBlocks / blocks_for(cols, kTileCols), 1,
                                    blocks_for(rows, kTileRows));
}

void prepare_cast_fp8(Fp8CastScratch* scratch, cudaStream_t stream) {
    check(cudaMemsetAsync(scratch, 0, sizeof(Fp8CastScratch), stream), "preparing casts to FP8");
    for (const bool seen : {false, true})
        gelu_table_kernel<<<kGeluEntries / kThreads, kThreads, 0, stream>>>(scratch->gelu[seen], seen);
    check_launch("preparing casts to FP8");
}

void cast_fp8(std::span<const Fp8Operand> operands, Fp8CastScratch* scratch, const CudaContext& context) {
    const cudaStream_t stream = context.stream();
    CastJobs jobs;
    const std::span<CastJob> used(jobs.job, operands.size());
    bool all_known = true, in_sixteens_of_columns = true;
    auto kernel = cast_kernel<Kind::kPlain>;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const Fp8Operand& operand = operands[i];
        CastJob& job = jobs.job[i];
        if (operand.x.dtype == DType::kU8)
            job.pre = operand.x.codes();
        else
            job.x = static_cast<const bf16*>(operand.x.data);
        job.rows = operand.x.rows;
        job.cols = operand.x.cols;
        job.padded_rows = operand.pads ? in_sixteens(operand.x.rows) : operand.x.rows;
        job.amax = operand.amax;
        job.scale = operand.scale;
        job.guess = operand.amax_known ? nullptr : &scratch->guesses[i];
        job.state = &scratch->states[i];
        job.codes = operand.codes;
        job.transposed = operand.transposed;
        job.slope = operand.slope;
        job.seen = operand.seen;
        job.times = operand.times;
        job.product = static_cast<bf16*>(operand.product);
        job.sums = operand.sums;
        job.e5m2 = operand.e5m2;
        if (operand.e5m2 && !operand.amax_known) job.drift = &scratch->drift;
        job.tiles_across = blocks_for(job.cols, kTileCols);
        job.tiles = job.tiles_across * blocks_for(job.rows, kTileRows);
        job.blocks = 1;
        all_known = all_known && operand.amax_known;
        in_sixteens_of_columns = in_sixteens_of_columns && job.cols % 16 == 0;
        if (job.pre != nullptr)
            kernel = cast_kernel<Kind::kSeen>;
        else if (job.slope != nullptr || job.seen != nullptr)
            kernel = cast_kernel<Kind::kGelu>;
        if (job.times != nullptr)
            kernel = operand.times_seen ? cast_kernel<Kind::kSeenProduct> : cast_kernel<Kind::kProduct>;
    }
    if (!in_sixteens_of_columns) {
        for (const CastJob& job : used) {
            const std::int64_t count = job.padded_rows * job.cols;
            if (job.guess != nullptr)
                amax_kernel<<<blocks_up_to(kBlocks, count, kThreads * 8), kThreads, 0, stream>>>(job);
            const auto code = job.e5m2 ? code_kernel<true> : code_kernel<false>;
            code<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(job);
        }
        return check_launch("casting to FP8");
    }
    const auto launch = [&](unsigned blocks, bool again) {
        launch_early(context.starts_early(), kernel, blocks, kThreads, 0, stream, "casting to FP8", jobs,
                     again, scratch->gelu[0]);
    };
    launch(share_blocks(used, kBlocks), false);
    if (all_known) return;
    // Usually without anything to do, so fewer.
    for (CastJob& job : used) {
        job.blocks = job.guess != nullptr;
        job.sums = nullptr;
        if (job.product == nullptr) continue;
        job.x = job.product;
        job.times = nullptr;
    }
    launch(share_blocks(used, kBlocks / 2), true);
}

}  // namespace elmo::cuda
