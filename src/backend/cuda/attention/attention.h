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
    // Once the device is there.
    void start();
    void reserve(Arena& arena, const Workload& workload);
    static std::int64_t mask_bytes(const Workload& workload);

    void forward(const AttentionForward& op);
    void backward(const AttentionBackward& op);

  private:
    bool on_warpgroups(const DeviceTexts& batch) const;

    CudaContext& context_;
    BatchTexts& texts_;
    ColumnSums& column_sums_;
    bool has_warpgroups_ = false;  // the card, and code for them
    View delta_TH_;                // f32 [T, 2H]: room for two numbers
    View bias_table_;              // f32 [H, kBiasColumns], where attention has a bias
    View bias_slices_;             // f32 [kBiasSlices * H, kRelativeBuckets]
};

}  // namespace elmo::cuda
