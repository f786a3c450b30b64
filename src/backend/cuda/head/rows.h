// Weights on a grid, whole rows at a time: their start, and the exponents of rows that move.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/head/args.h"
#include "backend/ops/optimizer.h"

namespace elmo::cuda {

// The exponents of the rows of args.first_tile .. args.last_tile after their update (see HeadStep), the
// weights of raised rows rounded to their new grid, flags cleared.
void move_exponents(const HeadArgs& args, DType dtype, const NoiseKey& rescaling, cudaStream_t stream);

void fill_normal_on_grid(const FillNormal& op, cudaStream_t stream);

}  // namespace elmo::cuda
