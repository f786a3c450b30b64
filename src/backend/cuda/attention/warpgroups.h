// Attention of long texts on Hopper, by separate kernels: warpgroups.cu.
#pragma once

#include "backend/cuda/attention/rows.cuh"
#include "backend/cuda/attention/short.h"
#include "backend/cuda/device/texts.h"

namespace elmo::cuda {

// Words of KeptBits for these texts.
constexpr std::int64_t kept_words(std::int64_t tokens, std::int64_t texts, std::int64_t heads,
                                  std::int64_t longest) {
    return (tokens / 16 + texts) * heads * ((longest + 63) / 64) * 32;
}

// BF16 storage, heads of 32 or 64, no bias, texts of any length.
void attention_forward_warpgroups(const ForwardArgs& args, const DeviceTexts& texts, const Launch& how);
// args.delta has two numbers for each token and head; `kept` is that of the forward if there is dropout.
void attention_backward_warpgroups(const BackwardArgs& args, const DeviceTexts& texts, const Launch& how);

}  // namespace elmo::cuda
