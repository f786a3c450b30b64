// Token embeddings, pooling and the bag of tokens, and the scratch of sorting tokens.
#pragma once

#include "backend/cuda/device/column_sums.h"
#include "backend/cuda/device/context.h"
#include "backend/cuda/device/texts.h"

namespace elmo::cuda {

class EmbeddingOps {
  public:
    EmbeddingOps(CudaContext& context, BatchTexts& texts, ColumnSums& column_sums)
        : context_(context), texts_(texts), column_sums_(column_sums) {}
    void reserve(Arena& arena, const Workload& workload);

    void embed_forward(const EmbedForward& op);
    void embed_backward(const EmbedBackward& op);
    void pool_forward(const PoolForward& op);
    void pool_backward(const PoolBackward& op);
    void bag_forward(const BagForward& op);
    void bag_backward(const BagBackward& op);

  private:
    // Tables' gradients from those of their users: of tokens from a row per token or, with `per_text`, from a
    // row per text (a bag's mean); of positions from a row per token.
    void token_gradient(const DeviceTexts& texts, View rows, bool per_text, View dtable, bool accumulate);
    void position_gradient(const DeviceTexts& texts, View rows, std::int64_t position_base, View dtable,
                           bool accumulate);

    CudaContext& context_;
    BatchTexts& texts_;
    ColumnSums& column_sums_;
    View sort_in_2T_, sort_out_2T_, sort_temp_;
};

}  // namespace elmo::cuda
