// The storage formats of W as the head's kernels use them: one element at a time on the simple path, eight at
// a time (one block of noise) on the fast one.
#pragma once

#include <cuda_fp16.h>
#include <type_traits>

#include "backend/cuda/device/math.cuh"
#include "backend/cuda/head/args.h"

namespace elmo::cuda {

// NaN where one of them is.
__device__ __forceinline__ float sum_of_squares(const float (&v)[8]) {
    float sum = 0;
#pragma unroll
    for (const float x : v) sum = fmaf(x, x, sum);
    return sum;
}

// The larger size; NaN where one of them is.
__device__ __forceinline__ float larger_size(float size, float x) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(size) : "f"(size), "f"(fabsf(x)));
    return size;
}

// Storages that take eight at a time unpack them times kUnpacked, and round numbers that are so multiplied.
// round8 is right for numbers within the format's range; within_range brings a number there, and counts it; a
// sum of squares below kSquares shows that all are, for formats with a range so wide (kWide) that this is
// usual. What round8 is given as `move`, a multiple of 2^16, moves the noise by its upper half.
struct StorageF32 {
    using Raw = float;
    static __device__ float load(const Raw* w, std::int64_t i) { return w[i]; }
    static __device__ void store(Raw* w, std::int64_t i, float x, std::uint32_t, std::uint32_t&) { w[i] = x; }
};

struct StorageBf16 {
    using Raw = std::uint16_t;
    static __device__ float load(const Raw* w, std::int64_t i) {
        return __uint_as_float(static_cast<std::uint32_t>(w[i]) << 16);
    }
    static __device__ void store(Raw* w, std::int64_t i, float x, std::uint32_t noise, std::uint32_t&) {
        w[i] = stochastic_bf16(x, noise);
    }
    // A number of the storage.
    static __device__ void store_exact(Raw* w, std::int64_t i, float x) { w[i] = stochastic_bf16(x, 0); }
    static __device__ __forceinline__ void store8_exact(Raw* w, const float (&v)[8]) {
        elmo::cuda::store8(reinterpret_cast<bf16*>(w), v);
    }
    // To nearest; whether x is beyond the largest number and is clipped.
    static __device__ __forceinline__ float nearest(float x, bool& beyond) {
        beyond = false;
        return __bfloat162float(__float2bfloat16_rn(x));
    }
    using Eight = uint4;  // eight weights
    static constexpr float kUnpacked = 1.0f;
    static __device__ __forceinline__ void unpack(const Eight& eight, float (&v)[8]) { unpack8(eight, v); }
    static __device__ __forceinline__ void load8(const Raw* w, float (&v)[8]) {
        unpack(*reinterpret_cast<const Eight*>(w), v);
    }
    static constexpr bool kWide = true;
    static constexpr float kSquares = 1e37f;
    // What noise would carry to infinity becomes the largest number; infinity stays, NaN stays NaN.
    static __device__ __forceinline__ float within_range(float x, std::uint32_t&) {
        constexpr std::uint32_t kLargest = 0x7f7f0000u, kInfinity = 0x7f800000u;
        const std::uint32_t size = __float_as_uint(x) & 0x7fffffffu;
        if (size > kInfinity) return __uint_as_float(0x7fc00000u);
        return size > kLargest && size < kInfinity ? copysignf(__uint_as_float(kLargest), x) : x;
    }
    static __device__ __forceinline__ Eight round8(const float (&v)[8], const PhiloxBlock& noise,
                                                   std::uint32_t move = 0) {
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = __byte_perm(__float_as_uint(v[2 * i]) + ((noise[i] * 65536u + move) >> 16),
                                   __float_as_uint(v[2 * i + 1]) + ((noise[i] + move) >> 16), 0x7632);
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
};

template <class F>
struct StorageCode {
    using Raw = std::uint8_t;
    using Format = F;
    static __device__ float load(const Raw* w, std::int64_t i) {
        std::uint32_t low, high;
        decode4<F>(w[i], low, high);
        return __uint_as_float(low << 16);
    }
    static __device__ void store(Raw* w, std::int64_t i, float x, std::uint32_t noise,
                                 std::uint32_t& saturated) {
        w[i] = static_cast<Raw>(stochastic_code<F>(x, noise, saturated));
    }
    static __device__ void store_exact(Raw* w, std::int64_t i, float x) {
        std::uint32_t saturated = 0;
        w[i] = static_cast<Raw>(stochastic_code<F>(x, 0, saturated));
    }
    static __device__ __forceinline__ void store8_exact(Raw* w, const float (&v)[8]) {
        float times[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) times[i] = v[i] * kUnpacked;
        *reinterpret_cast<Eight*>(w) = round8(times, PhiloxBlock{});
    }
    static __device__ __forceinline__ float nearest(float x, bool& beyond) {
        beyond = !(fabsf(x) <= F::kMax);
        return copysignf(nearest_size<F>(fminf(fabsf(x), F::kMax)), x);  // of NaN the largest
    }
    using Eight = uint2;  // eight weights
    static __device__ __forceinline__ void load8(const Raw* w, float (&v)[8]) {
        unpack(*reinterpret_cast<const Eight*>(w), v);
    }
    static constexpr float kUnpacked = 0x1p-8f;  // 2^(kMiniBias - 15): a code's bits, put where FP16 has them
    static __device__ __forceinline__ void unpack(const Eight& codes, float (&v)[8]) {
        unpack4(codes.x, v);
        unpack4(codes.y, v + 4);
    }
    static constexpr bool kWide = F::kMax > 16;
    static constexpr float kLargest = F::kMax * kUnpacked;
    static constexpr float kSquares =
        kLargest * kLargest * (1.0f - 0x1p-16f);  // with room for the sum's rounding
    static __device__ __forceinline__ float within_range(float x, std::uint32_t& saturated) {
        if (fabsf(x) <= kLargest) return x;
        ++saturated;
        return copysignf(kLargest, x);
    }
    static __device__ __forceinline__ Eight round8(const float (&v)[8], const PhiloxBlock& noise,
                                                   std::uint32_t move = 0) {
        return make_uint2(four_codes(v, noise[0], noise[1], move),
                          four_codes(v + 4, noise[2], noise[3], move));
    }

  private:
    static __device__ __forceinline__ void unpack4(std::uint32_t codes, float* v) {
        constexpr int kUp = 10 - F::kMantissa;
        constexpr std::uint32_t kSign = 0x80008000u, kSize = 0x007f007fu << kUp;
        const std::uint32_t even = ((codes << kUp) & kSize) | ((codes << 8) & kSign);
        const std::uint32_t odd = ((codes >> (8 - kUp)) & kSize) | (codes & kSign);
        const float2 a = __half22float2(reinterpret_cast<const __half2&>(even)),
                     b = __half22float2(reinterpret_cast<const __half2&>(odd));
        v[0] = a.x, v[1] = b.x, v[2] = a.y, v[3] = b.y;
    }

    // stochastic_code of four numbers within range, without its branches: multiplied by the difference of the
    // biases (towards zero, which drops only what the 17 bits do not see) a number has its code's bits, also
    // below the smallest normal one, where the product is subnormal as the code is.
    static __device__ __forceinline__ std::uint32_t four_codes(const float* v, std::uint32_t low,
                                                               std::uint32_t high, std::uint32_t move) {
        constexpr int kShift = 23 - F::kMantissa - 17, kCut = kShift + F::kUnused;
        constexpr float kBias = 0x1p-120f / kUnpacked;  // 2^(kMiniBias - 127)
        std::uint32_t code[4];                          // in the upper byte
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const std::uint32_t word = i < 2 ? low : high;
            // 16 bits of noise and the half that follows them, at the top.
            const std::uint32_t noise =
                i % 2 == 0 ? word * 65536u + (move + 0x8000u) : ((word + move) & 0xffff0000u) | 0x8000u;
            const std::uint32_t fixed =
                __float_as_uint(__fmul_rz(fabsf(v[i]), kBias)) + (noise >> (15 - kCut));
            code[i] = (fixed << (7 - kShift)) | (__float_as_uint(v[i]) & 0x80000000u);
        }
        constexpr std::uint32_t kUsed = 0x01010101u * (0xffu & ~((1u << F::kUnused) - 1));
        return __byte_perm(__byte_perm(code[0], code[1], 0x0073), __byte_perm(code[2], code[3], 0x0073),
                           0x5410) &
               kUsed;
    }
};

// Stores eight weights of a row, which begin at a multiple of eight columns.
template <class S>
__device__ __forceinline__ void store8(typename S::Raw* w, float (&v)[8], const PhiloxBlock& noise,
                                       std::uint32_t& saturated) {
    if (!(sum_of_squares(v) < S::kSquares))
        for (float& x : v) x = S::within_range(x, saturated);
    *reinterpret_cast<typename S::Eight*>(w) = S::round8(v, noise);
}

using StorageE4M3 = StorageCode<E4M3>;
using StorageE3M4 = StorageCode<E3M4>;

// Codes of a row with an exponent: the row's factor times the number of the code.
template <class F>
struct StorageRowCode : StorageCode<F> {};
using StorageRowE2M5 = StorageRowCode<E2M5>;
template <class S>
inline constexpr bool kRowCodes = false;
template <class F>
inline constexpr bool kRowCodes<StorageRowCode<F>> = true;
// Of fewer bits: the upper bits of E2M5's codes, and packed in a row (numerics/packed_codes.h).
using StorageRowE2M3 = StorageRowCode<E2M3>;
using StorageRowE2M1 = StorageRowCode<E2M1>;
// Bits of a weight.
template <class S>
inline constexpr int kBits = 8 * static_cast<int>(sizeof(typename S::Raw));
template <class F>
inline constexpr int kBits<StorageRowCode<F>> = 8 - F::kUnused;
// What so many columns take of a row, in elements (bytes of codes); of packed codes they are a multiple of 8.
template <class S, class Int>
__device__ __forceinline__ constexpr Int raws(Int columns) {
    return kBits<S> < 8 ? columns / 8 * kBits<S> : columns;
}

// 2^n of the row; codes have the bias kMiniBias, the grid its own.
__device__ __forceinline__ int power_of_row(const HeadArgs& a, std::uint8_t stored) {
    return decode_row_exponent(stored) + kMiniBias - a.grid.bias;
}
__device__ __forceinline__ int row_power(const HeadArgs& a, std::int64_t label) {
    return power_of_row(a, a.row_exponents[label]);
}
// What the codes of a row are multiplied by; 1 beyond the last label.
__device__ __forceinline__ float row_factor(const HeadArgs& a, std::int64_t label) {
    return label < a.labels ? power_of_two(row_power(a, label)) : 1.0f;
}
// Eight BF16 numbers times a power of two.
__device__ __forceinline__ void scale_pairs(uint4& pairs, float factor) {
    const __nv_bfloat162 both = __float2bfloat162_rn(factor);
    for (std::uint32_t* word : {&pairs.x, &pairs.y, &pairs.z, &pairs.w}) {
        const __nv_bfloat162 scaled = __hmul2(reinterpret_cast<const __nv_bfloat162&>(*word), both);
        *word = reinterpret_cast<const std::uint32_t&>(scaled);
    }
}
// Eight codes of a row, unpacked, times its factor.
template <class S>
__device__ __forceinline__ void scale_row(const HeadArgs& a, std::int64_t label, float (&v)[8]) {
    if constexpr (kRowCodes<S>) {
        const float factor = row_factor(a, label);
#pragma unroll
        for (float& x : v) x *= factor;
    }
}
// Weight i of W, of this label.
template <class S>
__device__ __forceinline__ float load_weight(const HeadArgs& a, const typename S::Raw* w, std::int64_t i,
                                             std::int64_t label) {
    if constexpr (kRowCodes<S>)
        return S::load(w, i) * row_factor(a, label);
    else
        return S::load(w, i);
}

// Weights on a grid, in BF16 or FP32: read like any, rounded to the grid of their row.
struct StorageGrid16 : StorageBf16 {
    static __device__ __forceinline__ Raw encode(float x) {  // exact
        return static_cast<Raw>(__float_as_uint(x) >> 16);
    }
};
struct StorageGrid32 : StorageF32 {
    static __device__ __forceinline__ Raw encode(float x) { return x; }
};
template <class S>
inline constexpr bool kOnGrid = std::is_same_v<S, StorageGrid16> || std::is_same_v<S, StorageGrid32>;
template <class S>  // whether its rows may be compensated
inline constexpr bool kCompensates = !std::is_same_v<S, StorageF32>;
template <class S>  // whether storing counts saturations
inline constexpr bool kSaturates = kOnGrid<S> || sizeof(typename S::Raw) == 1;

__device__ __forceinline__ GridRow grid_of(const HeadArgs& a, std::int64_t label) {
    return grid_row(a.grid, a.row_exponents == nullptr ? 0 : decode_row_exponent(a.row_exponents[label]));
}
__device__ __forceinline__ void note_saturation(const HeadArgs& a, std::int64_t label, std::uint32_t count,
                                                std::uint32_t& saturated) {
    saturated += count;
    if (count > 0 && a.row_flags != nullptr) a.row_flags[label] = 1;
}

// The number of a row of compensation: -1 where the label has none, and beyond the last label.
__device__ __forceinline__ std::int32_t compensated_row(const HeadArgs& a, std::int64_t label) {
    if (a.marks == nullptr || label >= a.labels) return -1;
    return static_cast<std::int32_t>(marked_number(a.marks, label));
}
// Where a row of compensation begins; null where there is none.
__device__ __forceinline__ bf16* compensation_at(const HeadArgs& a, std::int32_t row) {
    return row < 0 ? nullptr : reinterpret_cast<bf16*>(a.compensation) + row * a.width;
}
__device__ __forceinline__ bf16* compensation_of(const HeadArgs& a, std::int64_t label) {
    return compensation_at(a, compensated_row(a, label));
}

// Numbers rounded to nearest, to those that the storage has in a label's row.
template <class S>
struct NearestOf {
    GridRow grid;                   // kOnGrid
    float factor = 1, inverse = 1;  // kRowCodes
    bool rises = kRowCodes<S>;      // the row, where a number is beyond its largest
    __device__ __forceinline__ NearestOf(const HeadArgs& a, std::int64_t label) {
        if constexpr (kOnGrid<S>) {
            grid = grid_of(a, label);
            rises = a.row_exponents != nullptr;
        }
        if constexpr (kRowCodes<S>) {
            factor = row_factor(a, label);
            inverse = power_of_two(-row_power(a, label));
        }
    }
    __device__ __forceinline__ float operator()(float x, bool& beyond) const {
        if constexpr (kOnGrid<S>) {
            std::uint32_t count = 0;
            const float t = round_to_grid(grid, x, true, 0, count);
            beyond = count > 0;
            return t;
        } else if constexpr (kRowCodes<S>) {
            return S::nearest(x * inverse, beyond) * factor;
        } else {
            return S::nearest(x, beyond);
        }
    }
};

// The compensated update of one weight by the sum g X: w becomes the new one, c its compensation.
template <class Nearest>
__device__ __forceinline__ void compensate(const HeadArgs& a, const Nearest& nearest, float sum, float& w,
                                           float& c, std::uint32_t& saturated) {
    const float y = (-(a.decay * w) - a.lr * sum) + c;
    bool beyond;
    const float t = nearest(w + y, beyond);
    c = beyond && !nearest.rises ? 0.0f : y - (t - w);
    w = t;
    saturated += beyond;
}

// A weight that its row has, as it is stored.
template <class S>
__device__ __forceinline__ void store_exact(const HeadArgs& a, typename S::Raw* w, std::int64_t i, float x,
                                            std::int64_t label) {
    if constexpr (kOnGrid<S>)
        w[i] = S::encode(x);
    else
        S::store_exact(w, i, kRowCodes<S> ? x * power_of_two(-row_power(a, label)) : x);
}
template <class S>
__device__ __forceinline__ void store8_exact(const HeadArgs& a, typename S::Raw* w, float (&v)[8],
                                             std::int64_t label) {
    if constexpr (kRowCodes<S>) {
        const float inverse = power_of_two(-row_power(a, label));
#pragma unroll
        for (float& x : v) x *= inverse;
    }
    if constexpr (kOnGrid<S>)
        store8(reinterpret_cast<bf16*>(w), v);
    else
        S::store8_exact(w, v);
}

// The updated weight x of (label, column), element i of W, rounded and stored.
template <class S>
__device__ __forceinline__ void store_weight(const HeadArgs& a, typename S::Raw* w, std::int64_t i, float x,
                                             std::int64_t label, std::int64_t column,
                                             std::uint32_t& saturated) {
    if constexpr (kOnGrid<S>) {
        std::uint32_t count = 0;
        w[i] = S::encode(round_to_grid(grid_of(a, label), x, a.grid.nearest,
                                       rounding_noise(a.noise, a.rounding, a.first_label + label, column),
                                       count));
        note_saturation(a, label, count, saturated);
    } else if constexpr (kRowCodes<S>) {
        std::uint32_t count = 0;
        S::store(w, i, x * power_of_two(-row_power(a, label)),
                 rounding_noise(a.noise, a.rounding, a.first_label + label, column), count);
        note_saturation(a, label, count, saturated);
    } else {
        S::store(w, i, x, rounding_noise(a.noise, a.rounding, a.first_label + label, column), saturated);
    }
}
// Eight of them, from a column that is a multiple of eight on; w points to the first.
template <class S>
__device__ __forceinline__ void store_weights(const HeadArgs& a, typename S::Raw* w, float (&v)[8],
                                              std::int64_t label, std::int64_t column,
                                              std::uint32_t& saturated) {
    const PhiloxBlock noise = rounding_block(a.noise, a.rounding, a.first_label + label, column >> 3);
    if constexpr (kOnGrid<S>) {
        const GridRow row = grid_of(a, label);
        std::uint32_t count = 0;
        float rounded[8];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            rounded[i] = round_to_grid(row, v[i], a.grid.nearest, noise_word(noise, i), count);
        store8(reinterpret_cast<bf16*>(w), rounded);
        note_saturation(a, label, count, saturated);
    } else if constexpr (kRowCodes<S>) {
        const float inverse = power_of_two(-row_power(a, label));
        std::uint32_t count = 0;
        float scaled[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) scaled[i] = v[i] * inverse;
        store8<S>(w, scaled, noise, count);
        note_saturation(a, label, count, saturated);
    } else {
        store8<S>(w, v, noise, saturated);
    }
}

// sigmoid(z) - y, and what the loss adds. By the approximate exponential and reciprocal: relative error below
// 2^-21 + |z| 2^-23, far below the BF16 that g is rounded to. `to_power`: -log2(e), times the power of two
// that z still lacks.
inline constexpr float kToPower = -1.44269504f;
__device__ __forceinline__ float logit_gradient(float z, bool positive, float to_power = kToPower) {
    float p;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(p) : "f"(1.0f + exp2_fast(z * to_power)));
    return positive ? p - 1.0f : p;
}
// log(1 + e) of e = 2^(-|z| log2(e)) is e times a polynomial: relative error below 2^-21.4 for e from 0 to 1.
__device__ __forceinline__ float logit_loss(float z, bool positive) {
    const float e = exp2_fast(fabsf(z) * kToPower);
    float p = -0x1.17d006p-7f;
    p = __fmaf_rn(p, e, 0x1.692ea2p-5f);
    p = __fmaf_rn(p, e, -0x1.b91074p-4f);
    p = __fmaf_rn(p, e, 0x1.6b6c2cp-3f);
    p = __fmaf_rn(p, e, -0x1.f5aac6p-3f);
    p = __fmaf_rn(p, e, 0x1.54bdacp-2f);
    p = __fmaf_rn(p, e, -0x1.fff932p-2f);
    p = __fmaf_rn(p, e, 0x1.fffffap-1f);
    return __fmaf_rn(p, e, fmaxf(z, 0.0f)) - (positive ? z : 0.0f);
}

// Order of a ranking as one number: higher score, then lower label, is larger.
__device__ __forceinline__ std::uint64_t rank_key(float z, std::int64_t label) {
    const std::uint32_t bits = __float_as_uint(z + 0.0f);  // -0 counts as 0
    const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return static_cast<std::uint64_t>(ordered) << 32 | (0xffffffffu - static_cast<std::uint32_t>(label));
}
// What a score must reach at least so that its key is above the threshold.
__device__ __forceinline__ float least_score(std::uint64_t threshold) {
    constexpr std::uint32_t kLowest = 0x007fffffu;  // of minus infinity; below it are NaN
    const std::uint32_t ordered = max(static_cast<std::uint32_t>(threshold >> 32), kLowest);
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}
// Makes the label a candidate if its key is above the threshold. Where nothing is known yet (no counts) every
// label has its own place, and that of NaN holds 0.
__device__ __forceinline__ void offer(const HeadArgs& a, std::int64_t sample, std::int64_t label, float z,
                                      std::uint64_t threshold) {
    const std::uint64_t key = z == z ? rank_key(z, label) : 0;
    std::int64_t place = label;
    if (a.counts != nullptr) {
        if (key <= threshold) return;
        place = atomicAdd(a.counts + sample, 1);
    }
    if (place < a.capacity) a.candidates[sample * a.capacity + place] = key;
}

}  // namespace elmo::cuda
