// The arithmetic of GELU, exact.
#pragma once

#include "backend/cuda/device/launch.cuh"

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

}  // namespace elmo::cuda
