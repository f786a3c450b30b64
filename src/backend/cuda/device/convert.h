// Whole-matrix ops of all families: casting, and the search for non-finite numbers.
#pragma once

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

// From f32, bf16, e4m3 or e3m4 to f32 or bf16.
void cast(const View& to, const View& from, cudaStream_t stream);
// From f32 to f16, or to f32 with the numbers of FP16; `to` may be `from`.
void round_fp16(const View& to, const View& from, cudaStream_t stream);
// Blocks.
bool has_non_finite(CudaContext& context, const View& view);

}  // namespace elmo::cuda
