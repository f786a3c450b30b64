#include "backend/cuda/head/chunk.cuh"

namespace elmo::cuda {

template void run_chunk<StorageF32>(const HeadArgs&, bool, cudaStream_t);
template void run_rank<StorageF32>(const HeadArgs&, bool, cudaStream_t);
template void run_chunk<StorageGrid32>(const HeadArgs&, bool, cudaStream_t);

}  // namespace elmo::cuda
