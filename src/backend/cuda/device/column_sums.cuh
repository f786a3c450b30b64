// Sums over rows, for kernels whose threads own columns: the warps of a block that share columns add their
// sums in order, each block writes one partial, and add_partials (column_sums.h) adds those in order. No
// atomics: the order depends only on the shape.
#pragma once

#include "backend/cuda/device/launch.cuh"

namespace elmo::cuda {

#ifdef __CUDACC__

// A block is `Slots` times `Threads` threads; thread t of each slot holds the sums of columns first + V t and
// following. `shared` holds Slots * Threads * V floats. Called by the whole block; columns from `cols` on are
// left out.
template <int V, int Slots, int Threads>
__device__ __forceinline__ void write_partial(const float (&mine)[V], float* shared, std::int64_t first,
                                              std::int64_t cols, float* to) {
    // Threads beside each other, and columns beside each other, lie in different banks.
    const auto place = [](int thread, int j) { return V * thread + (V == 8 ? (j + (thread >> 2)) & 7 : j); };
    const int slot = static_cast<int>(threadIdx.x) / Threads,
              thread = static_cast<int>(threadIdx.x) % Threads;
    __syncwarp();     // the barrier needs whole warps, and loops before may end lane by lane
    __syncthreads();  // what was here before is read
#pragma unroll
    for (int j = 0; j < V; ++j) shared[slot * Threads * V + place(thread, j)] = mine[j];
    __syncthreads();  // all sums are in shared memory
    for (int c = static_cast<int>(threadIdx.x); c < Threads * V && first + c < cols; c += Slots * Threads) {
        float total = 0;
#pragma unroll
        for (int s = 0; s < Slots; ++s) total += shared[s * Threads * V + place(c / V, c % V)];
        to[first + c] = total;
    }
}

#endif

}  // namespace elmo::cuda
