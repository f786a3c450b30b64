// Elementary functions in FP32 as plain arithmetic, so that loops over them vectorise. Relative errors
// are a few units of FP32 roundoff (bounds beside each), far below the BF16 results they feed.
#pragma once

#include <bit>
#include <cstdint>

namespace elmo::cpu {

// e^x, relative error below 3e-7; flushes to 0 below -87.3, infinite above 88.7.
inline float exp_fast(float x) {
    const float low = x > -87.3f ? x : -87.3f;  // NaN too: it must not reach the conversion below
    const float clamped = low < 88.7f ? low : 88.7f;
    const float n = __builtin_floorf(clamped * 1.44269504f + 0.5f);
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // Cody-Waite
    const float p =
        1.0f + r * (1.0f + r * (0.5f + r * (0.166666667f + r * (0.0416666667f +
                                                                r * (0.00833333333f + r * 0.00138888889f)))));
    const float scale = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
    const float value = p * scale;
    const float flushed = x < -87.3f ? 0.0f : value;
    return x == x ? flushed : x;
}

// 1 / (1 + e^-x).
inline float sigmoid(float x) {
    return 1.0f / (1.0f + exp_fast(-x));
}

// ln(1 + e) for e in [0, 1], relative error below 1e-6 also for tiny e: artanh series in e / (2 + e).
inline float log1p_unit(float e) {
    const float s = e / (2.0f + e);
    const float q = s * s;
    const float series =
        1.0f + q * (0.333333333f +
                    q * (0.2f + q * (0.142857143f +
                                     q * (0.111111111f +
                                          q * (0.0909090909f + q * (0.0769230769f + q * 0.0666666667f))))));
    return 2.0f * s * series;
}

// ln(1 + e^x), the loss of a negative.
inline float softplus(float x) {
    const float magnitude = x < 0 ? -x : x;
    return (x > 0 ? x : 0.0f) + log1p_unit(exp_fast(-magnitude));
}

// erf(x): Abramowitz and Stegun 7.1.26 style rational with e^-x^2 for |x| > 1, Taylor series below;
// absolute error below 3e-7.
inline float erf_fast(float x) {
    const float a = x < 0 ? -x : x;
    const float q = a * a;
    const float small =
        a * (1.12837917f +
             q * (-0.376126389f +
                  q * (0.112837917f +
                       q * (-0.0268661706f +
                            q * (0.00522397763f + q * (-0.000854832700f +
                                                       q * (0.000120553329f +
                                                            q * (-1.49256504e-5f + q * 1.64621144e-6f))))))));
    const float t = 1.0f / (1.0f + 0.3275911f * a);
    const float poly =
        t *
        (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float large = 1.0f - poly * exp_fast(-q);
    const float value = a < 1.0f ? small : large;
    return x < 0 ? -value : value;
}

// Exact GELU: x Phi(x).
inline float gelu(float x) {
    return 0.5f * x * (1.0f + erf_fast(x * 0.707106781f));
}
inline float gelu_derivative(float x) {
    const float phi = 0.5f * (1.0f + erf_fast(x * 0.707106781f));
    return phi + x * 0.398942280f * exp_fast(-0.5f * x * x);
}

}  // namespace elmo::cpu
