#include "backend/cuda/head/chunk.cuh"

namespace elmo::cuda {

template void run_chunk<StorageE4M3>(const HeadArgs&, bool, cudaStream_t);
template void run_rank<StorageE4M3>(const HeadArgs&, bool, cudaStream_t);

}  // namespace elmo::cuda
