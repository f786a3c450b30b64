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

// V neighbouring bytes, as one word.
template <int V>
struct alignas(V) Bytes {
    std::uint8_t x[V];
};
// pre_code and pre_of (ops/linear.h) of V neighbours, as a product's epilogue may call them too. A count's
// exponent and mantissa are put where FP32 has them, and the difference of the biases is multiplied in.
template <int V>
__device__ __forceinline__ Bytes<V> pre_codes(const float (&pre)[V]) {
    Bytes<V> codes;
#pragma unroll
    for (int i = 0; i < V; ++i) codes.x[i] = pre_code(pre[i]);
    return codes;
}
template <int V>
__device__ __forceinline__ void pre_of_codes(const Bytes<V>& codes, float (&pre)[V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
        const int count = static_cast<int>(codes.x[i]) - kPreZero;
        pre[i] = __int_as_float(abs(count) << 19) * (count < 0 ? -0x1p124f : 0x1p124f);
    }
}

}  // namespace elmo::cuda
