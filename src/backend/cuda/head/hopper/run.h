// The storages of Hopper's kernels, each compiled in its own file.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/head/args.h"

namespace elmo::cuda::hopper {

// `early`: the first kernel may start while what was launched before ends.
void run_bf16(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void run_e4m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void run_e3m4(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void run_e2m5(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void run_e2m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void run_e2m1(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);

void rank_bf16(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void rank_e4m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void rank_e3m4(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void rank_e2m5(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void rank_e2m3(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);
void rank_e2m1(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream);

}  // namespace elmo::cuda::hopper
