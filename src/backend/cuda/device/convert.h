// Over a whole matrix, whatever the family: casting, and looking for what is not finite.
#pragma once

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

// From f32, bf16, e4m3 or e3m4 to f32 or bf16.
void cast(const View& to, const View& from, cudaStream_t stream);
// Blocks.
bool has_non_finite(CudaContext& context, const View& view);

}  // namespace elmo::cuda
