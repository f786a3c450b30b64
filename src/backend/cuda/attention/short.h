// Attention of batches with only short texts, by separate kernels: short.cu.
#pragma once

#include "backend/cuda/attention/rows.cuh"
#include "backend/cuda/device/texts.h"

namespace elmo::cuda {

// Tokens of the longest text they take.
inline constexpr std::int64_t kShortText = 128;

// BF16 storage, heads of 32 or 64; 0 < texts.longest <= kShortText.
void attention_forward_short(const ForwardArgs& args, const DeviceTexts& texts, cudaStream_t stream);
void attention_backward_short(const BackwardArgs& args, const DeviceTexts& texts, cudaStream_t stream);

}  // namespace elmo::cuda
