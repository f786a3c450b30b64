// The arithmetic of GELU, exact.
#pragma once

#include "backend/cuda/device/launch.cuh"
#include "backend/ops/linear.h"

namespace elmo::cuda {

// The normal distribution function; GELU(x) = x * Phi(x). Phi(-a) = 2^q(a), q being fitted on [0, 7] so that
// the power is at most 5e-8 off, and 0.3 % of itself for a below 6; beyond, q falls on without end. With the
// roundings here, and what the power of two adds, |error| < 2e-7.
__device__ __forceinline__ float phi(float x) {
    constexpr float kQ[] = {-0.99999985968f, -1.15111287532f,      -0.45913819545f,
                            -0.05272918737f, 0.00742606007f,       -0.00042862014358f,
                            -6.2447352e-05f, 1.33561975132521e-5f, -7.193045483502e-7f};
    const float a = fabsf(x);
    float q = kQ[8];
#pragma unroll
    for (int i = 7; i >= 0; --i) q = fmaf(q, a, kQ[i]);
    const float tail = exp2_fast(q);
    return x < 0.0f ? tail : 1.0f - tail;
}
// Its derivative, e^(-x^2 / 2) / sqrt(2 pi), with the exponent in powers of two.
__device__ __forceinline__ float density(float x) {
    return 0.39894228040143268f * exp2_fast(x * x * -0.72134752044448170f);
}
// Of GELU; `share` is phi(x).
__device__ __forceinline__ float slope(float x, float share) {
    return fmaf(x, density(x), share);
}

// V (1 or 8) neighbouring bytes as they are stored: loaded early, taken apart where they are wanted.
template <int V>
using Bytes = std::conditional_t<V == 8, uint2, std::uint8_t>;
__device__ __forceinline__ std::uint32_t byte_of(const uint2& bytes, int i) {
    return (i < 4 ? bytes.x : bytes.y) >> i % 4 * 8 & 0xffu;
}
__device__ __forceinline__ std::uint32_t byte_of(std::uint8_t byte, int) {
    return byte;
}

// pre_code (ops/linear.h) of two BF16 numbers: bytes 0 and 2 of the result. As there, of a number whose last
// bit is the step the bits count steps: of 12 powers of two plus a number of up to twice the power, BF16's do
// so in both directions. Halves may borrow from one another on the way, not in the end.
__device__ __forceinline__ std::uint32_t pre_codes(std::uint32_t pair) {
    const auto twice = [](std::uint32_t half) { return half * 0x10001u; };
    const auto numbers = [](const std::uint32_t& bits) {
        return reinterpret_cast<const __nv_bfloat162&>(bits);
    };
    const auto bits_of = [](const __nv_bfloat162& x) { return reinterpret_cast<const std::uint32_t&>(x); };
    static_assert(kLeastPre == -8.0f && kLargestPre == 124.0f);
    const __nv_bfloat162 held = __hmin2(__hmax2(numbers(pair), numbers(twice(0xc100u))),
                                        numbers(twice(0x42f8u))),
                         quarter = numbers(twice(0x3e80u)), twelve = numbers(twice(0x4140u));
    const std::uint32_t power = bits_of(__hmax2(__habs2(held), quarter)) & twice(0x7f80u);
    const std::uint32_t steps = bits_of(__hfma2(numbers(power), twelve, held)) - power - twice(0x1c0u);
    const std::uint32_t before = (power >> 3) - twice(125u << 4);  // steps up to the power, less those of 1/4
    std::uint32_t negative;                                        // all bits of a half, or none
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(negative) : "r"(bits_of(held)));
    return steps + ((before ^ negative) - negative) + twice(kPreZero);
}
// pre_code and pre_of of V neighbours, as they are stored. A count's exponent and mantissa are put where FP32
// has them, and the difference of the biases is multiplied in.
template <int V, class T>
__device__ __forceinline__ Bytes<V> pre_codes(const Packed<V, T>& pre) {
    if constexpr (V == 8 && std::is_same_v<T, bf16>) {
        return make_uint2(__byte_perm(pre_codes(pre.x.x), pre_codes(pre.x.y), 0x6420),
                          __byte_perm(pre_codes(pre.x.z), pre_codes(pre.x.w), 0x6420));
    } else if constexpr (V == 8) {
        std::uint32_t words[2] = {};
#pragma unroll
        for (int i = 0; i < 8; ++i)
            words[i / 4] |= std::uint32_t{pre_code(load_float(pre.x, i))} << i % 4 * 8;
        return make_uint2(words[0], words[1]);
    } else {
        return pre_code(load_float(pre.x, 0));
    }
}
template <int V>
__device__ __forceinline__ void pre_of_codes(const Bytes<V>& codes, float (&pre)[V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
        const int count = static_cast<int>(byte_of(codes, i)) - kPreZero;
        pre[i] = __int_as_float((count & static_cast<int>(0x80000000u)) | abs(count) << 19) * 0x1p124f;
    }
}

}  // namespace elmo::cuda
