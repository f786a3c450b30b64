#include "backend/cuda/head/chunk.cuh"

namespace elmo::cuda {

template void run_chunk<StorageBf16>(const HeadArgs&, bool, cudaStream_t);
template void run_rank<StorageBf16>(const HeadArgs&, bool, cudaStream_t);

}  // namespace elmo::cuda
