// Attention of batches with only short texts, by separate kernels: short.cu.
#pragma once

#include "backend/cuda/attention/rows.cuh"
#include "backend/cuda/device/texts.h"

namespace elmo::cuda {

// Tokens of the longest text they take.
inline constexpr std::int64_t kShortText = 128;

struct Launch {
    bool early;  // while the kernel before ends (device/launch.cuh)
    cudaStream_t stream;
};

// BF16 storage, heads of 32 or 64; 0 < texts.longest <= kShortText.
void attention_forward_short(const ForwardArgs& args, const DeviceTexts& texts, const Launch& how);
void attention_backward_short(const BackwardArgs& args, const DeviceTexts& texts, const Launch& how);

}  // namespace elmo::cuda
