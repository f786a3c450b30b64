// AdamW, with the table of tensors that it reads, and the filling of weights.
#pragma once

#include <vector>

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

class OptimizerOps {
  public:
    explicit OptimizerOps(CudaContext& context) : context_(context) {}
    void reserve(Arena& arena, const Workload& workload);

    // `early`: the kernel just before writes nothing but gradients, and began after all others had ended.
    void adamw(std::span<const AdamWUpdate> ops, bool early);

  private:
    // A small table on the device; those that were sent before are found again.
    const void* on_device(const void* table, std::int64_t bytes);

    CudaContext& context_;
    View table_;  // u8: the tensors of adamw
    struct Table {
        void* device;
        std::vector<unsigned char> content;
    };
    std::vector<Table> tables_;  // what lies in table_
    std::int64_t tables_used_ = 0;
};

// Weights that are not packed.
void fill_normal(const FillNormal& op, cudaStream_t stream);

}  // namespace elmo::cuda
