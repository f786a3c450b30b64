// Self-attention, and the scratch of its backward.
#pragma once

#include "backend/cuda/device/context.h"
#include "backend/cuda/device/texts.h"

namespace elmo::cuda {

class AttentionOps {
  public:
    AttentionOps(CudaContext& context, BatchTexts& texts) : context_(context), texts_(texts) {}
    void reserve(Arena& arena, const Workload& workload);

    void forward(const AttentionForward& op);
    void backward(const AttentionBackward& op);

  private:
    CudaContext& context_;
    BatchTexts& texts_;
    View delta_TH_;     // f32
    View bias_table_;   // f32 [H, kBiasColumns], where attention has a bias
    View bias_slices_;  // f32 [kBiasSlices * H, kRelativeBuckets]
};

}  // namespace elmo::cuda
