// How kernels are launched: sizes, and the choice of types and widths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "backend/cuda/device/math.cuh"
#include "tensor/view.h"

namespace elmo::cuda {

inline constexpr int kThreads = 256;

// Blocks of `each` elements that have work; one where there is none. More than a grid can have is a caller's
// mistake: elements would be left out.
inline unsigned blocks_for(std::int64_t count, std::int64_t each) {
    const std::int64_t blocks = (count + each - 1) / each;
    if (blocks > std::numeric_limits<std::int32_t>::max())
        throw std::logic_error("cuda: more blocks than a grid can have");
    return static_cast<unsigned>(blocks < 1 ? 1 : blocks);
}
// The same for kernels that loop over what is beyond their grid.
inline unsigned blocks_up_to(std::int64_t most, std::int64_t count, std::int64_t each) {
    return blocks_for(std::min(count, most * each), each);
}

// body(pointer) with the pointer typed as the view is: float or bf16.
template <class Body>
void with_type(const View& view, const Body& body) {
    if (view.dtype == DType::kBf16)
        body(static_cast<bf16*>(view.data));
    else if (view.dtype == DType::kF32)
        body(static_cast<float*>(view.data));
    else
        throw std::logic_error("cuda: expected an f32 or bf16 view");
}

// body(std::integral_constant<int, V>) with V = 8 where rows of `cols` may be read in eights, else 1.
template <class Body>
void with_width(std::int64_t cols, const Body& body) {
    if (cols % 8 == 0)
        body(std::integral_constant<int, 8>{});
    else
        body(std::integral_constant<int, 1>{});
}

#ifdef __CUDACC__

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

// body(i) for the elements of a grid-wide loop, V at a time.
template <int V, class Body>
__device__ __forceinline__ void for_each(std::int64_t count, const Body& body) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * V;
    for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < count;
         i += stride)
        body(i);
}

#endif

}  // namespace elmo::cuda
