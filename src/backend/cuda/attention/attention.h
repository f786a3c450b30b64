// Self-attention, and the scratch of its backward.
#pragma once

#include "backend/cuda/device/column_sums.h"
#include "backend/cuda/device/context.h"
#include "backend/cuda/device/texts.h"

namespace elmo::cuda {

class AttentionOps {
  public:
    AttentionOps(CudaContext& context, BatchTexts& texts, ColumnSums& column_sums)
        : context_(context), texts_(texts), column_sums_(column_sums) {}
    void reserve(Arena& arena, const Workload& workload);

    void forward(const AttentionForward& op);
    void backward(const AttentionBackward& op);

  private:
    CudaContext& context_;
    BatchTexts& texts_;
    ColumnSums& column_sums_;
    View delta_TH_;     // f32
    View bias_table_;   // f32 [H, kBiasColumns], where attention has a bias
    View bias_slices_;  // f32 [kBiasSlices * H, kRelativeBuckets]
};

}  // namespace elmo::cuda
