#include "backend/cuda/head/hopper/run.cuh"

namespace elmo::cuda::hopper {

// Their numbers are those of E2M5 too: only rounding differs.
void run_e2m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run<StorageRowCode<E2M3>, StorageRowE2M5>(a, multiprocessors, early, stream);
}
void run_e2m1(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run<StorageRowCode<E2M1>, StorageRowE2M5>(a, multiprocessors, early, stream);
}

}  // namespace elmo::cuda::hopper
