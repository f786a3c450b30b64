#include "backend/cuda/head/hopper/run.cuh"

namespace elmo::cuda::hopper {

void run_e4m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run<StorageE4M3>(a, multiprocessors, early, stream);
}
void rank_e4m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run_rank<StorageE4M3>(a, multiprocessors, early, stream);
}

}  // namespace elmo::cuda::hopper
