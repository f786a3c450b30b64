// Device-side arithmetic that the contracts fix to the bit: loads and stores of the storage formats,
// stochastic rounding, addressed noise. Functions here equal their host twins in src/numerics/.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "backend/ops/common.h"
#include "numerics/philox.h"

namespace elmo::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

// Which elements a dropout keeps, as kernels take it.
struct DropoutArgs {
    NoiseKey key;
    std::uint32_t threshold = 0;
    float scale = 1;
};
inline DropoutArgs dropout_args(const Dropout& dropout) {
    return {dropout.key, dropout.threshold(), dropout.threshold() > 0 ? dropout.scale() : 1.0f};
}

#ifdef __CUDACC__

// 2^x within 2 units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float load_float(const float* p, std::int64_t i) {
    return p[i];
}
__device__ __forceinline__ float load_float(const bf16* p, std::int64_t i) {
    return __bfloat162float(p[i]);
}
__device__ __forceinline__ float load_float(const fp16* p, std::int64_t i) {
    return __half2float(p[i]);
}
__device__ __forceinline__ void store_float(float* p, std::int64_t i, float x) {
    p[i] = x;
}
__device__ __forceinline__ void store_float(bf16* p, std::int64_t i, float x) {
    p[i] = __float2bfloat16_rn(x);
}
__device__ __forceinline__ void store_float(fp16* p, std::int64_t i, float x) {
    p[i] = __float2half_rn(x);
}

// Eight neighbouring elements as floats. The address must be a multiple of 16 bytes.
__device__ __forceinline__ void load8(const float* p, float (&v)[8]) {
    const float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
__device__ __forceinline__ void unpack8(const uint4& raw, float (&v)[8]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[2 * i] = __uint_as_float(words[i] << 16);
        v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}
__device__ __forceinline__ void load8(const bf16* p, float (&v)[8]) {
    unpack8(*reinterpret_cast<const uint4*>(p), v);
}
__device__ __forceinline__ std::uint32_t pack2(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ __forceinline__ void store8(float* p, const float (&v)[8]) {
    reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}
__device__ __forceinline__ void store8(bf16* p, const float (&v)[8]) {
    *reinterpret_cast<uint4*>(p) =
        make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
}
__device__ __forceinline__ void load8(const fp16* p, float (&v)[8]) {
    const uint4 raw = *reinterpret_cast<const uint4*>(p);
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[i]));
        v[2 * i] = pair.x;
        v[2 * i + 1] = pair.y;
    }
}
__device__ __forceinline__ void store8(fp16* p, const float (&v)[8]) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const __half2 pair = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
        words[i] = reinterpret_cast<const std::uint32_t&>(pair);
    }
    *reinterpret_cast<uint4*>(p) = make_uint4(words[0], words[1], words[2], words[3]);
}

// V (1 or 8) neighbouring elements as they are stored: loaded early, unpacked where they are wanted.
template <int V, class T>
struct Packed {
    T x[V];
};
template <>
struct Packed<8, bf16> {
    uint4 x;
};
template <int V, class T>
__device__ __forceinline__ Packed<V, T> load_packed(const T* p) {
    Packed<V, T> packed;
    if constexpr (V == 8 && std::is_same_v<T, bf16>)
        packed.x = *reinterpret_cast<const uint4*>(p);
    else if constexpr (V == 8)
        load8(p, packed.x);
    else
        packed.x[0] = p[0];
    return packed;
}
template <int V, class T>
__device__ __forceinline__ void unpack(const Packed<V, T>& packed, float (&v)[V]) {
    if constexpr (V == 8 && std::is_same_v<T, bf16>)
        unpack8(packed.x, v);
    else
#pragma unroll
        for (int i = 0; i < V; ++i) v[i] = load_float(packed.x, i);
}
// v rounded to T, and as it would be read back.
template <class T, int V>
__device__ __forceinline__ Packed<V, T> round_packed(float (&v)[V]) {
    Packed<V, T> packed;
    if constexpr (V == 8 && std::is_same_v<T, bf16>)
        store8(reinterpret_cast<bf16*>(&packed.x), v);
    else
#pragma unroll
        for (int i = 0; i < V; ++i) store_float(packed.x, i, v[i]);
    unpack(packed, v);
    return packed;
}
template <int V, class T>
__device__ __forceinline__ void store_packed(T* p, const Packed<V, T>& packed) {
    if constexpr (V == 8 && std::is_same_v<T, bf16>)
        *reinterpret_cast<uint4*>(p) = packed.x;
    else if constexpr (V == 8)
        store8(p, packed.x);
    else
        p[0] = packed.x[0];
}

// V (1 or 8) neighbouring elements.
template <int V, class T>
__device__ __forceinline__ void load_some(const T* p, float (&v)[V]) {
    if constexpr (V == 8)
        load8(p, v);
    else
        v[0] = load_float(p, 0);
}
template <int V, class T>
__device__ __forceinline__ void store_some(T* p, const float (&v)[V]) {
    if constexpr (V == 8)
        store8(p, v);
    else
        store_float(p, 0, v[0]);
}

// Dropout of V elements that begin at (row, column); column is a multiple of V.
template <int V>
__device__ __forceinline__ void drop(const DropoutArgs& d, std::int64_t row, std::int64_t column,
                                     float (&v)[V]) {
    if (d.threshold == 0) return;
    if constexpr (V == 8) {
        const PhiloxBlock block = noise_block(d.key, row, column >> 3);
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = noise_word(block, i) < d.threshold ? 0.0f : v[i] * d.scale;
    } else {
        v[0] = noise16(d.key, row, column) < d.threshold ? 0.0f : v[0] * d.scale;
    }
}

// BF16 discards 16 bits: add the noise below the cut and truncate. Saturates; Inf and NaN pass through.
__device__ __forceinline__ std::uint16_t stochastic_bf16(float x, std::uint32_t noise) {
    const std::uint32_t u = __float_as_uint(x);
    if ((u & 0x7f800000u) == 0x7f800000u) return __bfloat16_as_ushort(__float2bfloat16_rn(x));
    const std::uint32_t rounded = u + noise;
    if ((rounded & 0x7f800000u) == 0x7f800000u)
        return static_cast<std::uint16_t>(((u >> 31) << 15) | 0x7f7fu);
    return static_cast<std::uint16_t>(rounded >> 16);
}

// The 8-bit formats: M mantissa bits, bias 7, `Top` the largest finite code. Of the last kUnused mantissa
// bits all are zero: codes of fewer bits.
struct E4M3 {
    static constexpr int kMantissa = 3, kUnused = 0;
    static constexpr std::uint32_t kTop = 0x7e;
    static constexpr float kMax = 448.0f;
};
struct E3M4 {
    static constexpr int kMantissa = 4, kUnused = 0;
    static constexpr std::uint32_t kTop = 0x7f;
    static constexpr float kMax = 1.9375f;
};
// Of rows that have exponents, which bring its numbers to where they belong.
struct E2M5 {
    static constexpr int kMantissa = 5, kUnused = 0;
    static constexpr std::uint32_t kTop = 0x7f;
    static constexpr float kMax = 0x1.f8p-4f;
};
struct E2M3 {
    static constexpr int kMantissa = 5, kUnused = 2;
    static constexpr std::uint32_t kTop = 0x7c;
    static constexpr float kMax = 0x1.ep-4f;
};
struct E2M1 {
    static constexpr int kMantissa = 5, kUnused = 4;
    static constexpr std::uint32_t kTop = 0x70;
    static constexpr float kMax = 0x1.8p-4f;
};
inline constexpr int kMiniBias = 7;

// numerics/minifloat.h's round_minifloat: the discarded fraction, taken to 17 bits, plus carry17 carries or
// not. In units of 2^-17 of the spacing the number is its FP32 bits shifted (normal) or a fixed-point number
// (subnormal); both count on from one another, as the codes do.
template <class F>
__device__ __forceinline__ std::uint32_t stochastic_code(float x, std::uint32_t noise,
                                                         std::uint32_t& saturated) {
    const std::uint32_t bits = __float_as_uint(x);
    const std::uint32_t sign = (bits >> 24) & 0x80u;
    const float magnitude = __uint_as_float(bits & 0x7fffffffu);
    if (!(magnitude <= F::kMax)) {
        ++saturated;
        return sign | F::kTop;
    }
    constexpr int kShift = 23 - F::kMantissa - 17;
    constexpr float kSmallest = 0x1p-6f;  // 2^(1 - bias), the smallest normal number
    const std::uint32_t carry = 2 * noise + 1;
    std::uint32_t code;
    if (magnitude >= kSmallest) {
        const std::uint32_t fixed = ((bits & 0x7fffffffu) >> kShift) + carry;
        code = (fixed >> 17) - (static_cast<std::uint32_t>(127 - kMiniBias) << F::kMantissa);
    } else {
        constexpr float kUnits = static_cast<float>(1 << (F::kMantissa + 17)) * 64.0f;
        code = (static_cast<std::uint32_t>(magnitude * kUnits) + carry) >> 17;
    }
    return sign | (code > F::kTop ? F::kTop : code);
}

// A size up to the format's largest number, rounded to nearest even: adding and taking away a number whose
// last bit is the spacing rounds to a multiple of it.
template <class F>
__device__ __forceinline__ float nearest_size(float size) {
    const std::uint32_t exponent = __float_as_uint(fmaxf(size, 0x1p-6f)) & 0x7f800000u;
    const float shift = __uint_as_float(exponent + ((23u - F::kMantissa + F::kUnused) << 23));
    return (size + shift) - shift;
}
// x rounded to the format (nearest even, saturating), as a float.
template <class F>
__device__ __forceinline__ float nearest_code(float x) {
    const float magnitude = fabsf(x);
    if (!(magnitude < F::kMax)) return x != x ? x : copysignf(F::kMax, x);
    return copysignf(nearest_size<F>(magnitude), x);
}
// What the logits of E4M3 weights see of x.
__device__ __forceinline__ float nearest_e4m3(float x) {
    return nearest_code<E4M3>(x);
}

// The four codes of a word as two pairs of BF16: exact. The code's exponent and mantissa are put where BF16
// has them and the difference of the biases is multiplied in.
template <class F>
__device__ __forceinline__ void decode4(std::uint32_t codes, std::uint32_t& low, std::uint32_t& high) {
    constexpr int kDown = F::kMantissa + 1;  // the exponent's last bit from 8 + M to 7
    // Bytes 0, 1 -> the upper bytes of the halves of `a`; bytes 2, 3 -> those of `b`.
    const std::uint32_t a = __byte_perm(codes, 0, 0x1404), b = __byte_perm(codes, 0, 0x3424);
    const std::uint32_t ea = (a & 0x80008000u) | ((a & 0x7f007f00u) >> kDown);
    const std::uint32_t eb = (b & 0x80008000u) | ((b & 0x7f007f00u) >> kDown);
    const std::uint32_t factor = 0x7b807b80u;  // 2^120 twice
    const __nv_bfloat162 scale = reinterpret_cast<const __nv_bfloat162&>(factor);
    const __nv_bfloat162 ra = __hmul2(reinterpret_cast<const __nv_bfloat162&>(ea), scale);
    const __nv_bfloat162 rb = __hmul2(reinterpret_cast<const __nv_bfloat162&>(eb), scale);
    low = reinterpret_cast<const std::uint32_t&>(ra);
    high = reinterpret_cast<const std::uint32_t&>(rb);
}

// As decode4, but the pairs are bytes 0 and 2, and 1 and 3: fewer instructions.
template <class F>
__device__ __forceinline__ void decode_alternate(std::uint32_t codes, std::uint32_t& even,
                                                 std::uint32_t& odd) {
    constexpr int kUp = 7 - F::kMantissa;
    constexpr std::uint32_t kSign = 0x80008000u, kSize = 0x007f007fu << kUp;
    const std::uint32_t e = ((codes << kUp) & kSize) | ((codes << 8) & kSign);
    const std::uint32_t o = ((codes >> (8 - kUp)) & kSize) | (codes & kSign);
    const std::uint32_t factor = 0x7b807b80u;  // 2^120 twice
    const __nv_bfloat162 scale = reinterpret_cast<const __nv_bfloat162&>(factor);
    const __nv_bfloat162 re = __hmul2(reinterpret_cast<const __nv_bfloat162&>(e), scale);
    const __nv_bfloat162 ro = __hmul2(reinterpret_cast<const __nv_bfloat162&>(o), scale);
    even = reinterpret_cast<const std::uint32_t&>(re);
    odd = reinterpret_cast<const std::uint32_t&>(ro);
}

#endif

}  // namespace elmo::cuda
