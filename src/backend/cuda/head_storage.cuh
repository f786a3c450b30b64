// The storage formats of W as the head's kernels use them: one element at a time on the simple path, eight at
// a time (one block of noise) on the fast one.
#pragma once

#include "backend/cuda/device_math.cuh"
#include "backend/cuda/head_args.h"

namespace elmo::cuda {

// NaN where one of them is.
__device__ __forceinline__ float sum_of_sizes(const float (&v)[8]) {
    float sum = 0;
#pragma unroll
    for (const float x : v) sum += fabsf(x);
    return sum;
}

// The bits of the largest size: larger than those of any number where one is NaN.
__device__ __forceinline__ std::uint32_t largest_bits(const float (&v)[8]) {
    std::uint32_t largest = 0;
#pragma unroll
    for (const float x : v) largest = max(largest, __float_as_uint(x) & 0x7fffffffu);
    return largest;
}

struct StorageF32 {
    using Raw = float;
    static __device__ float load(const Raw* w, std::int64_t i) { return w[i]; }
    static __device__ void store(Raw* w, std::int64_t i, float x, const NoiseKey&, std::int64_t, std::int64_t,
                                 std::uint32_t&) {
        w[i] = x;
    }
};

struct StorageBf16 {
    using Raw = std::uint16_t;
    static __device__ float load(const Raw* w, std::int64_t i) {
        return __uint_as_float(static_cast<std::uint32_t>(w[i]) << 16);
    }
    static __device__ void store(Raw* w, std::int64_t i, float x, const NoiseKey& key, std::int64_t row,
                                 std::int64_t column, std::uint32_t&) {
        w[i] = stochastic_bf16(x, noise16(key, row, column));
    }
    static __device__ __forceinline__ void load8(const Raw* w, float (&v)[8]) {
        unpack8(*reinterpret_cast<const uint4*>(w), v);
    }
    static __device__ __forceinline__ void store8(Raw* w, const float (&v)[8], const PhiloxBlock& noise,
                                                  std::uint32_t&) {
        std::uint32_t words[4];
        if (sum_of_sizes(v) < 1e38f) {  // all finite, and no noise carries them to infinity
#pragma unroll
            for (int i = 0; i < 4; ++i)
                words[i] = __byte_perm(__float_as_uint(v[2 * i]) + (noise[i] & 0xffffu),
                                       __float_as_uint(v[2 * i + 1]) + (noise[i] >> 16), 0x7632);
        } else {
            for (int i = 0; i < 4; ++i)
                words[i] = stochastic_bf16(v[2 * i], noise[i] & 0xffffu) |
                           static_cast<std::uint32_t>(stochastic_bf16(v[2 * i + 1], noise[i] >> 16)) << 16;
        }
        *reinterpret_cast<uint4*>(w) = make_uint4(words[0], words[1], words[2], words[3]);
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
    static __device__ void store(Raw* w, std::int64_t i, float x, const NoiseKey& key, std::int64_t row,
                                 std::int64_t column, std::uint32_t& saturated) {
        w[i] = static_cast<Raw>(stochastic_code<F>(x, noise16(key, row, column), saturated));
    }
    static __device__ __forceinline__ void load8(const Raw* w, float (&v)[8]) {
        const uint2 codes = *reinterpret_cast<const uint2*>(w);
        uint4 pairs;
        decode4<F>(codes.x, pairs.x, pairs.y);
        decode4<F>(codes.y, pairs.z, pairs.w);
        unpack8(pairs, v);
    }
    static __device__ __forceinline__ void store8(Raw* w, const float (&v)[8], const PhiloxBlock& noise,
                                                  std::uint32_t& saturated) {
        std::uint32_t words[2];
        if (largest_bits(v) <= __float_as_uint(F::kMax)) {  // none saturates, none is NaN
#pragma unroll
            for (int i = 0; i < 2; ++i) words[i] = four_codes(v + 4 * i, noise[2 * i], noise[2 * i + 1]);
        } else {
            words[0] = words[1] = 0;
            for (int i = 0; i < 8; ++i)
                words[i / 4] |= stochastic_code<F>(v[i], noise_word(noise, i), saturated) << (i % 4 * 8);
        }
        *reinterpret_cast<uint2*>(w) = make_uint2(words[0], words[1]);
    }

  private:
    // stochastic_code of four numbers within range, without its branches: a number below the smallest normal
    // one is moved up by that (towards zero, which drops only what the 17 bits do not see) and counted from
    // there.
    static __device__ __forceinline__ std::uint32_t four_codes(const float* v, std::uint32_t low,
                                                               std::uint32_t high) {
        constexpr int kShift = 23 - F::kMantissa - 17;
        constexpr std::uint32_t kOffset = static_cast<std::uint32_t>(127 - kMiniBias) << F::kMantissa;
        constexpr float kSmallest = 0x1p-6f;
        std::uint32_t code[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const std::uint32_t word = i < 2 ? low : high;
            const std::uint32_t carry = (i % 2 == 0 ? (word << 1) & 0x1fffeu : (word >> 15) & 0x1fffeu) + 1;
            const float size = fabsf(v[i]);
            const bool small = size < kSmallest;
            const float moved = small ? __fadd_rz(size, kSmallest) : size;
            const std::uint32_t fixed = (__float_as_uint(moved) >> kShift) + carry;
            code[i] = (fixed >> 17) - (small ? kOffset + (1u << F::kMantissa) : kOffset);
        }
        const std::uint32_t codes =
            __byte_perm(__byte_perm(code[0], code[1], 0x0040), __byte_perm(code[2], code[3], 0x0040), 0x5410);
        const std::uint32_t signs =
            __byte_perm(__byte_perm(__float_as_uint(v[0]), __float_as_uint(v[1]), 0x0073),
                        __byte_perm(__float_as_uint(v[2]), __float_as_uint(v[3]), 0x0073), 0x5410);
        return codes | (signs & 0x80808080u);
    }
};
using StorageE4M3 = StorageCode<E4M3>;
using StorageE3M4 = StorageCode<E3M4>;

// sigmoid(z) - y, and what the loss adds. By the approximate exponential and reciprocal: relative error below
// 2^-21 + |z| 2^-23, far below the BF16 that g is rounded to.
__device__ __forceinline__ float logit_gradient(float z, bool positive) {
    float e, p;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(z * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(p) : "f"(1.0f + e));
    return positive ? p - 1.0f : p;
}
__device__ __forceinline__ float logit_loss(float z, bool positive) {
    return fmaxf(z, 0.0f) + log1pf(expf(-fabsf(z))) - (positive ? z : 0.0f);
}

// Order of a ranking as one number: higher score, then lower label, is larger.
__device__ __forceinline__ std::uint64_t rank_key(float z, std::int64_t label) {
    const std::uint32_t bits = __float_as_uint(z + 0.0f);  // -0 counts as 0
    const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return static_cast<std::uint64_t>(ordered) << 32 | (0xffffffffu - static_cast<std::uint32_t>(label));
}
__device__ __forceinline__ void offer(const HeadArgs& a, std::int64_t sample, std::int64_t label, float z) {
    if (z != z) return;
    const std::uint64_t key = rank_key(z, label);
    if (key <= a.thresholds[sample]) return;
    const std::int32_t place = atomicAdd(a.counts + sample, 1);
    if (place < a.capacity) a.candidates[sample * a.capacity + place] = key;
}

}  // namespace elmo::cuda
