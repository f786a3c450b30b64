#include <cuda_fp8.h>

#include <algorithm>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/linear/fp8_cast.h"
#include "backend/cuda/linear/gelu.cuh"
#include "backend/ops/linear.h"
#include "numerics/minifloat.h"

namespace elmo::cuda {
namespace {

// The largest magnitude of what a thread has seen. The bits of |x| order as the numbers do, with infinity and
// NaN above all others.
struct Largest {
    std::uint32_t high = 0, low = 0;
    __device__ __forceinline__ void see(std::uint32_t pair) {
        high = max(high, pair & 0x7fff0000u);
        low = max(low, (pair << 16) & 0x7fff0000u);
    }
    __device__ __forceinline__ void see(const uint4& eight) {
        see(eight.x), see(eight.y), see(eight.z), see(eight.w);
    }
};

// From all threads of all `blocks` blocks that share the state to the last block to arrive: there deliver(the
// largest) runs on one thread, and the state is as it was.
template <class Deliver>
__device__ __forceinline__ void gather(const Largest& seen, AmaxState& state, unsigned blocks,
                                       const Deliver& deliver) {
    __shared__ std::uint32_t of_warp[kThreads / 32];
    std::uint32_t largest = __reduce_max_sync(0xffffffffu, max(seen.high, seen.low));
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

// Four numbers as a word of codes, the first lowest.
template <bool kE5>
__device__ __forceinline__ std::uint32_t code4(float a, float b, float c, float d) {
    constexpr __nv_fp8_interpretation_t kKind = kE5 ? __NV_E5M2 : __NV_E4M3;
    const std::uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kKind);
    const std::uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kKind);
    return low | high << 16;
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

struct CastJob {
    const bf16* x = nullptr;
    std::int64_t rows = 0, cols = 0, padded_rows = 0;
    float *amax = nullptr, *scale = nullptr;
    float* guess = nullptr;  // where amax is not known: receives what it held
    AmaxState* state = nullptr;
    std::uint8_t *codes = nullptr, *transposed = nullptr, *slope = nullptr;
    bool e5m2 = false;
    unsigned tiles = 0, tiles_across = 0, blocks = 0;
};
struct CastJobs {
    CastJob job[kMostFp8Operands];
};

// A tile is 128 rows by 64 columns; a thread has four rows of eight columns.
constexpr int kTileRows = 128, kTileCols = 64;
constexpr int kTileStride = kTileRows / 4 + 1;  // words of a column in shared memory

// Eight numbers become what GELU makes of them, in BF16; their slopes as codes.
__device__ __forceinline__ uint2 apply_gelu(uint4& raw) {
    float v[8];
    unpack8(raw, v);
    std::uint32_t slopes[2] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float share = phi(v[i]);
        slopes[i / 4] |= std::uint32_t{slope_code(slope(v[i], share))} << i % 4 * 8;
        v[i] *= share;
    }
    raw = make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
    return make_uint2(slopes[0], slopes[1]);
}

template <bool kE5, bool kGelu>
__device__ __forceinline__ void cast_tile(const CastJob& job, unsigned tile, const Scale& scale,
                                          std::uint32_t (&columns)[kTileCols * kTileStride], Largest& seen) {
    const std::int64_t row0 = static_cast<std::int64_t>(tile / job.tiles_across) * kTileRows;
    const std::int64_t column0 = static_cast<std::int64_t>(tile % job.tiles_across) * kTileCols;
    const int quad = static_cast<int>(threadIdx.x) / 8, eighth = static_cast<int>(threadIdx.x) % 8;
    const std::int64_t row = row0 + 4 * quad, column = column0 + 8 * eighth;
    const bool inside = column < job.cols;
    uint4 raw[4];
#pragma unroll
    for (int r = 0; r < 4; ++r)
        raw[r] = inside && row + r < job.rows
                     ? *reinterpret_cast<const uint4*>(job.x + (row + r) * job.cols + column)
                     : make_uint4(0, 0, 0, 0);
    std::uint32_t left[4], right[4];  // of each row: columns 0 to 3, 4 to 7
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        if constexpr (kGelu) {
            const uint2 slopes = apply_gelu(raw[r]);
            if (inside && row + r < job.rows)
                *reinterpret_cast<uint2*>(job.slope + (row + r) * job.cols + column) = slopes;
        }
        seen.see(raw[r]);
        float v[8];
        unpack8(raw[r], v);
#pragma unroll
        for (float& x : v) {
            if (!scale.finite) x += x - x;  // an infinity becomes NaN, as codes have it
            x *= scale.up;
        }
        left[r] = code4<kE5>(v[0], v[1], v[2], v[3]);
        right[r] = code4<kE5>(v[4], v[5], v[6], v[7]);
        if (job.codes != nullptr && inside && row + r < job.rows)
            *reinterpret_cast<uint2*>(job.codes + (row + r) * job.cols + column) =
                make_uint2(left[r], right[r]);
    }
    if (job.transposed == nullptr) return;
    transpose4(left);
    transpose4(right);
    __syncthreads();  // the tile before has been read
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        columns[(8 * eighth + c) * kTileStride + quad] = left[c];
        columns[(8 * eighth + 4 + c) * kTileStride + quad] = right[c];
    }
    __syncthreads();  // the columns are whole
    // Sixteen rows of a column at a time.
    const std::int64_t rows_left = job.padded_rows - row0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int c = quad + 32 * i, part = eighth;
        if (column0 + c >= job.cols || 16 * part >= rows_left) continue;
        const std::uint32_t* words = columns + c * kTileStride + 4 * part;
        *reinterpret_cast<uint4*>(job.transposed + (column0 + c) * job.padded_rows + row0 + 16 * part) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// The blocks of a job divide its tiles, from the last to the first: what was written last is still in the L2
// cache. The first launch finds the largest magnitude while it casts with that of the guess; the second
// (`again`) casts if the guess had another scale, or if some numbers are not finite.
template <bool kE5, bool kGelu = false>
__device__ __forceinline__ void cast_job(const CastJob& job, unsigned block, bool again,
                                         std::uint32_t (&columns)[kTileCols * kTileStride]) {
    const float amax = *job.amax;
    const Scale scale = scale_of<kE5>(amax);
    if (again && scale.finite && scale.up == scale_of<kE5>(*job.guess).up) return;
    if (block == 0 && threadIdx.x == 0) *job.scale = scale.down;
    Largest seen;
    for (unsigned i = block; i < job.tiles; i += job.blocks)
        cast_tile<kE5, kGelu>(job, job.tiles - 1 - i, scale, columns, seen);
    if (again || job.guess == nullptr) return;
    gather(seen, *job.state, job.blocks, [&](float largest) {
        *job.guess = amax;
        *job.amax = largest;
    });
}

// kGelu: some of the jobs have slopes.
template <bool kGelu>
__global__ void __launch_bounds__(kThreads, kGelu ? 4 : 5)
    cast_kernel(const __grid_constant__ CastJobs jobs, bool again) {
    __shared__ std::uint32_t columns[kTileCols * kTileStride];
    unsigned block = blockIdx.x;
    int j = 0;
    while (block >= jobs.job[j].blocks) block -= jobs.job[j++].blocks;
    const CastJob& job = jobs.job[j];
    if constexpr (kGelu)
        if (job.slope != nullptr) return cast_job<false, true>(job, block, again, columns);
    if (job.e5m2)
        cast_job<true>(job, block, again, columns);
    else
        cast_job<false>(job, block, again, columns);
}

// ---- Any number of columns ----

// What is cast, in BF16.
__device__ __forceinline__ bf16 number(const CastJob& job, std::int64_t i) {
    if (job.slope == nullptr) return job.x[i];
    const float x = load_float(job.x, i), share = phi(x);
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
        float x = row < job.rows ? __bfloat162float(number(job, i)) : 0.0f;
        x += x - x;  // an infinity becomes NaN
        const auto code = static_cast<std::uint8_t>(code4<kE5>(x * scale.up, 0, 0, 0));
        if (job.codes != nullptr && row < job.rows) job.codes[i] = code;
        if (job.transposed != nullptr) job.transposed[i % job.cols * job.padded_rows + row] = code;
    });
}

// For kernels whose blocks have much or (usually) nothing to do: about four per multiprocessor.
constexpr unsigned kFewBlocks = 528;

}  // namespace

void cast_fp8(std::span<const Fp8Operand> operands, Fp8CastScratch* scratch, cudaStream_t stream) {
    CastJobs jobs;
    unsigned blocks = 0;
    bool all_known = true, in_sixteens_of_columns = true, with_gelu = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const Fp8Operand& operand = operands[i];
        CastJob& job = jobs.job[i];
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
        job.e5m2 = operand.e5m2;
        job.tiles_across = blocks_for(job.cols, kTileCols);
        job.tiles = job.tiles_across * blocks_for(job.rows, kTileRows);
        job.blocks = blocks_for(job.tiles, 2);
        blocks += job.blocks;
        all_known = all_known && operand.amax_known;
        in_sixteens_of_columns = in_sixteens_of_columns && job.cols % 16 == 0;
        with_gelu = with_gelu || job.slope != nullptr;
    }
    if (!in_sixteens_of_columns) {
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const CastJob& job = jobs.job[i];
            const std::int64_t count = job.padded_rows * job.cols;
            if (job.guess != nullptr)
                amax_kernel<<<blocks_up_to(kFewBlocks, count, kThreads * 8), kThreads, 0, stream>>>(job);
            const auto code = job.e5m2 ? code_kernel<true> : code_kernel<false>;
            code<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(job);
        }
        return check_launch("casting to FP8");
    }
    const auto kernel = with_gelu ? cast_kernel<true> : cast_kernel<false>;
    kernel<<<blocks, kThreads, 0, stream>>>(jobs, false);
    check_launch("casting to FP8");
    if (all_known) return;
    blocks = 0;
    for (std::size_t i = 0; i < operands.size(); ++i)
        blocks += jobs.job[i].blocks = operands[i].amax_known ? 0 : std::min(jobs.job[i].blocks, kFewBlocks);
    kernel<<<blocks, kThreads, 0, stream>>>(jobs, true);
    check_launch("casting to FP8");
}

}  // namespace elmo::cuda
