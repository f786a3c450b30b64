// Sums over rows that kernels of several families make part by part (column_sums.cuh).
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>

#include "tensor/view.h"

namespace elmo::cuda {

// gradient i (+)= partials[0][i] + partials[1][i] + ..., in a fixed order; a partial is [gradients, columns].
// At most three gradients.
void add_partials(const float* partials, std::int64_t num_partials, std::initializer_list<View> gradients,
                  bool accumulate, cudaStream_t stream);
// Partials of a kernel over [rows, cols] by blocks of eight warps (column_sums.cuh).
std::int64_t num_column_partials(std::int64_t rows);

}  // namespace elmo::cuda
