// F32 numbers as ops with `fp16` store and multiply them: rounded to FP16.
#pragma once

#include "backend/cuda/device/launch.cuh"

namespace elmo::cuda {

// An F32 number that is rounded when it is stored.
struct FloatAsFp16 {
    float x;
};

// body(pointer) as with_type, with FloatAsFp16 where `fp16`.
template <class Body>
void with_type(const View& view, bool fp16, const Body& body) {
    if (fp16)
        body(static_cast<FloatAsFp16*>(view.data));
    else
        with_type(view, body);
}

#ifdef __CUDACC__

__device__ __forceinline__ float round_fp16(float x) {
    return __half2float(__float2half_rn(x));
}
// x as an op on elements T multiplies it.
template <class T>
__device__ __forceinline__ float as_operand(float x) {
    if constexpr (std::is_same_v<T, FloatAsFp16>)
        return round_fp16(x);
    else
        return x;
}

// The loads and stores of math.cuh.
__device__ __forceinline__ float load_float(const FloatAsFp16* p, std::int64_t i) {
    return p[i].x;
}
__device__ __forceinline__ void store_float(FloatAsFp16* p, std::int64_t i, float x) {
    p[i].x = round_fp16(x);
}
__device__ __forceinline__ void load8(const FloatAsFp16* p, float (&v)[8]) {
    load8(&p->x, v);
}
__device__ __forceinline__ void store8(FloatAsFp16* p, const float (&v)[8]) {
    float rounded[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) rounded[i] = round_fp16(v[i]);
    store8(&p->x, rounded);
}
__device__ __forceinline__ void load8(const FloatAsFp16* p, FloatAsFp16 (&v)[8]) {
    load8(&p->x, reinterpret_cast<float(&)[8]>(v));
}
__device__ __forceinline__ void store8(FloatAsFp16* p, const FloatAsFp16 (&v)[8]) {
    store8(&p->x, reinterpret_cast<const float(&)[8]>(v));
}

#endif

}  // namespace elmo::cuda
