// LayerNorm with its residual, dropout, and adding.
#pragma once

#include "backend/cuda/device/column_sums.h"
#include "backend/cuda/device/context.h"

namespace elmo::cuda {

class NormOps {
  public:
    NormOps(CudaContext& context, ColumnSums& column_sums) : context_(context), column_sums_(column_sums) {}

    void forward(const ResidualNormForward& op);
    void backward(const ResidualNormBackward& op);
    void dropout(const DropoutApply& op);
    void add(const AddInPlace& op);

  private:
    CudaContext& context_;
    ColumnSums& column_sums_;
};

}  // namespace elmo::cuda
