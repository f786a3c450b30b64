#include "backend/cuda/head/chunk.cuh"

namespace elmo::cuda {

template void run_chunk<StorageGrid16>(const HeadArgs&, bool, cudaStream_t);

}  // namespace elmo::cuda
