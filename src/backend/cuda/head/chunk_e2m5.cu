#include "backend/cuda/head/chunk.cuh"

namespace elmo::cuda {

template void run_chunk<StorageRowE2M5>(const HeadArgs&, bool, cudaStream_t);
template void run_rank<StorageRowE2M5>(const HeadArgs&, bool, cudaStream_t);

}  // namespace elmo::cuda
