#include "backend/cuda/head/hopper/run.cuh"

namespace elmo::cuda::hopper {

void run_bf16(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run<StorageBf16>(a, multiprocessors, early, stream);
}
void rank_bf16(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run_rank<StorageBf16>(a, multiprocessors, early, stream);
}

}  // namespace elmo::cuda::hopper
