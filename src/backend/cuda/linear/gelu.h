// GELU as an op of its own: what linear layers call.
#pragma once

#include <cuda_runtime.h>

#include "tensor/view.h"

namespace elmo::cuda {

void gelu(const View& pre, const View& y, cudaStream_t stream);  // exact; y may be pre

}  // namespace elmo::cuda
