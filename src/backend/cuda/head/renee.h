// The head's step of the baseline `renee`, and its scratch.
#pragma once

#include "backend/cuda/device/context.h"
#include "backend/cuda/head/positives.h"
#include "backend/cuda/linear/products.h"

namespace elmo::cuda {

class ReneeOps {
  public:
    ReneeOps(CudaContext& context, Products& products, DevicePositives& positives)
        : context_(context), products_(products), positives_(positives) {}
    void reserve(Arena& arena, const Workload& workload);

    ReneeStepResult step(const ReneeStep& op);

  private:
    CudaContext& context_;
    Products& products_;
    DevicePositives& positives_;
    View x16_;         // f16 [P, D]
    View dx_;          // f32 [P, D]: the sum over all labels
    View positive_z_;  // f32, one a positive
    View losses_;      // f64, one a block
    View report_;      // ReneeReport
};

}  // namespace elmo::cuda
