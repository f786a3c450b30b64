#include "backend/cuda/head/hopper/run.cuh"

namespace elmo::cuda::hopper {

void run_e3m4(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run<StorageE3M4>(a, multiprocessors, early, stream);
}
void rank_e3m4(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run_rank<StorageE3M4>(a, multiprocessors, early, stream);
}

}  // namespace elmo::cuda::hopper
