// Hopper's bulk copies into shared memory, the barriers that they signal, and the order of kernels that start
// before the previous one has ended.
#pragma once

#include <cstdint>

namespace elmo::cuda::hopper {

__device__ __forceinline__ void init_barrier(std::uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals));
}
// Barriers just made are seen by everyone, bulk copies included.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;\n" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// Arrives, and makes the barrier wait for this many bytes too.
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
// Makes the barrier wait for this many bytes too.
__device__ __forceinline__ void expect(std::uint32_t barrier, std::uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
// Until the barrier's phase of this parity is over.
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, std::uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra.uni over;\n"
        "bra.uni again;\n"
        "over:\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
// Bytes and addresses are multiples of 16.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes,
                                          std::uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}
// What this thread wrote to shared memory will be seen by products.
__device__ __forceinline__ void publish_shared() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// The next kernel may start on multiprocessors that this one leaves.
__device__ __forceinline__ void let_next_begin() {
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
}
// Until the kernel launched before is done and what it wrote is seen.
__device__ __forceinline__ void wait_for_previous() {
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
}

}  // namespace elmo::cuda::hopper
