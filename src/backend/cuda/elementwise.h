// Kernels over whole matrices that other ops call.
#pragma once

#include <cuda_runtime.h>

#include "tensor/view.h"

namespace elmo::cuda {

void gelu(const View& pre, const View& y, cudaStream_t stream);  // exact; y may be pre

// out (+)= partials[0] + partials[1] + ..., in order; each partial is out.size() floats, `stride` apart.
void add_partials(const float* partials, std::int64_t num_partials, std::int64_t stride, const View& out,
                  bool accumulate, cudaStream_t stream);

}  // namespace elmo::cuda
