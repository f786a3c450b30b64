// A product without tensor cores, in FP32: one kernel body; what is multiplied and where it goes are
// functors.
#pragma once

#include "backend/cuda/device/launch.cuh"

namespace elmo::cuda::plain {

constexpr int kEdge = 64, kDepth = 16;

// acc[i][j] of rows row0 + ty + 16 i and columns column0 + tx + 16 j: sum over k in [0, depth) of
// a(row, k) b(k, column), k ascending. a and b give 0 outside their matrices.
template <class A, class B>
__device__ __forceinline__ void product(std::int64_t row0, std::int64_t column0, std::int64_t depth,
                                        const A& a, const B& b, float (&acc)[4][4]) {
    __shared__ float at[kDepth][kEdge + 1], bt[kDepth][kEdge + 1];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (std::int64_t k0 = 0; k0 < depth; k0 += kDepth) {
        for (int i = threadIdx.x; i < kEdge * kDepth; i += kThreads) {
            const int k = i % kDepth, edge = i / kDepth;
            at[k][edge] = k0 + k < depth ? a(row0 + edge, k0 + k) : 0.0f;
        }
        for (int i = threadIdx.x; i < kEdge * kDepth; i += kThreads) {
            const int edge = i % kEdge, k = i / kEdge;
            bt[k][edge] = k0 + k < depth ? b(k0 + k, column0 + edge) : 0.0f;
        }
        __syncthreads();  // the tiles are whole
#pragma unroll
        for (int k = 0; k < kDepth; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += at[k][ty + 16 * i] * bt[k][tx + 16 * j];
        __syncthreads();  // all have read them
    }
}

// body(acc, row, column) for the block's elements.
template <class Body>
__device__ __forceinline__ void for_each(std::int64_t row0, std::int64_t column0, float (&acc)[4][4],
                                         const Body& body) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            body(acc[i][j], row0 + threadIdx.x / 16 + 16 * i, column0 + threadIdx.x % 16 + 16 * j);
}

}  // namespace elmo::cuda::plain
