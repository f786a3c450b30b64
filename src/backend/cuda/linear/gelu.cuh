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

// pre_code and pre_of (ops/linear.h) of V neighbours, as a product's epilogue may call them too. A count's
// exponent and mantissa are put where FP32 has them, and the difference of the biases is multiplied in.
template <int V>
__device__ __forceinline__ Bytes<V> pre_codes(const float (&pre)[V]) {
    if constexpr (V == 8) {
        std::uint32_t words[2] = {};
#pragma unroll
        for (int i = 0; i < 8; ++i) words[i / 4] |= std::uint32_t{pre_code(pre[i])} << i % 4 * 8;
        return make_uint2(words[0], words[1]);
    } else {
        return pre_code(pre[0]);
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
