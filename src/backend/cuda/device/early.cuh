// The halves of after_previous() (launch.cuh), for kernels that do something between them.
#pragma once

namespace elmo::cuda {

#ifdef __CUDACC__

// Lets the next kernel come, once all blocks of this one have called it or ended.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// Waits until the kernel before is done and what it wrote is seen.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

#endif

}  // namespace elmo::cuda
