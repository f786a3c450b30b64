// Optional parts of a head step: weight dropout and compensated rows (ops/head.h defines both). Kernels
// without them are separate instantiations.
#pragma once

#include <type_traits>

#include "backend/cuda/head/storage.cuh"
#include "backend/cuda/ptx/warp.cuh"

namespace elmo::cuda {

// A weight as logits and dx see it.
template <class S, bool Drop>
__device__ __forceinline__ float seen_weight(const HeadArgs& a, const typename S::Raw* w, std::int64_t label,
                                             std::int64_t column) {
    float v[1] = {load_weight<S>(a, w, label * a.width + column, label)};
    if constexpr (Drop) {
        drop<1>(a.weight_dropout, a.first_label + label, column, v);
        if constexpr (!std::is_same_v<S, StorageF32>) v[0] = __bfloat162float(__float2bfloat16_rn(v[0]));
    }
    return v[0];
}

// Eight weights that S::load8 gave times S::kUnpacked, a power of two.
template <class S>
__device__ __forceinline__ void as_they_are(float (&v)[8]) {
#pragma unroll
    for (float& x : v) x *= 1.0f / S::kUnpacked;
}

// A tile of stored weights in shared memory becomes what logits and dx see, in BF16. `label` and `column` are
// those of its first element. `to` may be `raw` where the weights are BF16. By all threads of the block.
template <class S, int Rows, int Columns>
__device__ __forceinline__ void drop_tile(const HeadArgs& a, const unsigned char* raw, unsigned char* to,
                                          std::int64_t label, std::int64_t column) {
    using Raw = typename S::Raw;
    constexpr int kEights = Columns / 8, kBytes = 8 * static_cast<int>(sizeof(Raw));
    for (int i = threadIdx.x; i < Rows * kEights; i += blockDim.x) {
        const int row = i / kEights, eighth = i % kEights, bytes = eighth * kBytes;
        float v[8];
        S::load8(
            reinterpret_cast<const Raw*>(raw + tile_offset<kEights * kBytes>(row, bytes / 16) + bytes % 16),
            v);
        as_they_are<S>(v);
        scale_row<S>(a, label + row, v);
        drop<8>(a.weight_dropout, a.first_label + label + row, column + 8 * eighth, v);
        store8(reinterpret_cast<bf16*>(to + tile_offset<Columns * 2>(row, eighth)), v);
    }
}

// The compensated update of V weights of a label's row: w becomes the new ones, c their compensation.
template <class S, int V>
__device__ __forceinline__ void compensate(const HeadArgs& a, std::int64_t label, const float (&sum)[V],
                                           float (&w)[V], float (&c)[V], std::uint32_t& saturated) {
    const NearestOf<S> nearest(a, label);
    std::uint32_t count = 0;
#pragma unroll
    for (int i = 0; i < V; ++i) compensate(a, nearest, sum[i], w[i], c[i], count);
    note_saturation(a, label, count, saturated);
}

}  // namespace elmo::cuda
