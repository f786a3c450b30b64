// The truth that other backends are compared with: one thread, scalar loops, FP64 arithmetic, the contracts
// of backend/ops/ in the plainest possible code. Also the backend of the golden tests against FP64
// implementations elsewhere: with F64 views nothing is rounded.
#pragma once

#include "backend/host_backend.h"

namespace elmo {

class ReferenceBackend : public HostBackend {
  public:
    std::string_view name() const override { return "reference"; }
    std::string describe() const override { return "reference: scalar, FP64 arithmetic, 1 thread"; }

    // Ops keep their intermediate doubles on the heap: this backend is for tests, its memory is not planned.
    void reserve(Arena&, const Workload&) override {}
    Ceilings measure_ceilings(DType, std::int64_t) override {
        return {};
    }  // the speed of the reference does not matter

    void upload(View to, const void* from) override;
    void download(void* to, View from) override;
    void fill_zero(View view) override;
    void cast(View dst, View src) override;
    void round_fp16(View view) override;
    bool has_non_finite(View view) override;

    void linear_forward(const LinearForward& op) override;
    void linear_backward(const LinearBackward& op) override;
    void gelu_backward(const GeluBackward& op) override;

    void residual_norm_forward(const ResidualNormForward& op) override;
    void residual_norm_backward(const ResidualNormBackward& op) override;
    void dropout(const DropoutApply& op) override;
    void add(const AddInPlace& op) override;

    void attention_forward(const AttentionForward& op) override;
    void attention_backward(const AttentionBackward& op) override;

    void embed_forward(const EmbedForward& op) override;
    void embed_backward(const EmbedBackward& op) override;
    void pool_forward(const PoolForward& op) override;
    void pool_backward(const PoolBackward& op) override;
    void bag_forward(const BagForward& op) override;
    void bag_backward(const BagBackward& op) override;

    void adamw(std::span<const AdamWUpdate> ops) override;
    void fill_normal(const FillNormal& op) override;

    HeadStepResult head_step(const HeadStep& op) override;
    ReneeStepResult renee_step(const ReneeStep& op) override;
    std::vector<TopK> head_topk(const HeadTopK& op) override;
};

}  // namespace elmo
