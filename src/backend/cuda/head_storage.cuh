// The storage formats of W as the head's kernels use them: one element at a time on the simple path, eight at
// a time (one block of noise) on the fast one.
#pragma once

#include "backend/cuda/device_math.cuh"
#include "backend/cuda/head_args.h"

namespace elmo::cuda {

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
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = stochastic_bf16(v[2 * i], noise[i] & 0xffffu) |
                       static_cast<std::uint32_t>(stochastic_bf16(v[2 * i + 1], noise[i] >> 16)) << 16;
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
        std::uint32_t words[2] = {};
#pragma unroll
        for (int i = 0; i < 8; ++i)
            words[i / 4] |= stochastic_code<F>(v[i], noise_word(noise, i), saturated) << (i % 4 * 8);
        *reinterpret_cast<uint2*>(w) = make_uint2(words[0], words[1]);
    }
};
using StorageE4M3 = StorageCode<E4M3>;
using StorageE3M4 = StorageCode<E3M4>;

// sigmoid(z) - y, and what the loss adds. By the approximate exponential and reciprocal: relative error below
// 2^-21 + |z| 2^-23, far below the BF16 that g is rounded to.
__device__ __forceinline__ float logit_gradient(float z, bool positive) {
    float p;
    asm("rcp.approx.f32 %0, %1;" : "=f"(p) : "f"(1.0f + __expf(-z)));
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
