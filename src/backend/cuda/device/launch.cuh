// How kernels are launched: sizes, and the choice of types and widths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "backend/cuda/device/check.h"
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

// Launches a kernel that begins with after_previous(). Where `early`, its blocks come while the kernel before
// it ends, instead of some time after that.
template <class... Params, class... Args>
void launch_early(bool early, void (*kernel)(Params...), dim3 grid, int threads, std::size_t shared,
                  cudaStream_t stream, const char* op, const Args&... args) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), op);
}

// Lets the next kernel come, and waits until the one before is done and what it wrote is seen: the first line
// of a kernel that launch_early launches, for all threads.
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n" ::: "memory");
#endif
}

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
