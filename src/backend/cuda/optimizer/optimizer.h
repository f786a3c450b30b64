// AdamW, and the filling of weights.
#pragma once

#include <span>

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

class OptimizerOps {
  public:
    explicit OptimizerOps(CudaContext& context) : context_(context) {}

    // `early`: the kernel just before writes nothing but gradients, and began after all others had ended.
    void adamw(std::span<const AdamWUpdate> ops, bool early);

  private:
    CudaContext& context_;
};

// Weights that are not packed.
void fill_normal(const FillNormal& op, cudaStream_t stream);

}  // namespace elmo::cuda
