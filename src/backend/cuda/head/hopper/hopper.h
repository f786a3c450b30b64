// The head's step on Hopper: see hopper.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/head/args.h"
#include "backend/ops/head.h"
#include "tensor/view.h"

namespace elmo::cuda::hopper {

// Whether these kernels can do the step, on a suitable card: weights without dropout, rounded stochastically
// with noise that is independent or moves from step to step. Of compensated steps only those of 8-bit weights
// with their usual noise.
bool takes(const HeadStep& op, std::int64_t padded_batch);
// Whether the code that the driver loaded for this card has these kernels: they are compiled for sm_90a only.
bool has_code(cudaStream_t stream);
// Fills a.x_logit and a.x_update.
void stage(const View& x, DType storage, HeadArgs& a, cudaStream_t stream);
// g, dx and the update of labels [first_tile, last_tile).
void run_chunk(const HeadArgs& a, DType storage, int multiprocessors, cudaStream_t stream);
// Parts of the loss that a tile of 128 labels has.
inline constexpr std::int64_t kLossParts = 8;

}  // namespace elmo::cuda::hopper
