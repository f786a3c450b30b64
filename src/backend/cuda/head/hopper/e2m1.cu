#include "backend/cuda/head/hopper/run.cuh"

namespace elmo::cuda::hopper {

void run_e2m1(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run<StorageRowE2M1>(a, multiprocessors, early, stream);
}
void rank_e2m1(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run_rank<StorageRowE2M1>(a, multiprocessors, early, stream);
}

}  // namespace elmo::cuda::hopper
