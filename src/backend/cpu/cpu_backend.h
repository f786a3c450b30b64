// The CPU backend. Each op family has its file; this is the class that ties them together and owns the
// scratch they share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/scratch.h"
#include "backend/host_backend.h"
#include "base/parallel.h"

namespace elmo::cpu {

// Rows of a linear layer computed at once by one thread: fixed, so that sums are.
inline constexpr std::int64_t kRowBlock = 128;
// Tokens of one panel of a weight gradient.
inline constexpr std::int64_t kPanel = 512;
// Labels of one tile of the head.
inline constexpr std::int64_t kLabelTile = 256;
// Partial sums of the head's dx: tile t adds to slice t % kSlices, slices are summed in order. Those of the
// gradient of attention's bias are of texts.
inline constexpr std::int64_t kSlices = 16;

constexpr std::int64_t bias_slice_bytes(std::int64_t heads) {
    return kSlices * heads * kRelativeBuckets * 4;
}
// The bias of a text's scores by distance.
constexpr std::int64_t bias_row_bytes(std::int64_t tokens) {
    return ScratchCutter::padded(2 * tokens * 4);
}

class CpuBackend : public HostBackend {
  public:
    CpuBackend(const Context& context, const std::string& products)
        : context_(context), products_(choose_products(products)) {}

    std::string_view name() const override { return "cpu"; }
    std::string describe() const override;
    void reserve(Arena& arena, const Workload& workload) override;
    void reserve_head(Arena& arena, const Workload& workload) override;
    Ceilings measure_ceilings(DType storage, std::int64_t room_bytes) override;

    void upload(View to, const void* from) override;
    void download(void* to, View from) override;
    void fill_zero(View view) override;
    void cast(View to, View from) override;
    void round_fp16(View view) override;
    bool has_non_finite(View view) override;

    void fill_normal(const FillNormal& op) override;
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
    HeadStepResult head_step(const HeadStep& op) override;
    ReneeStepResult renee_step(const ReneeStep& op) override;
    std::vector<TopK> head_topk(const HeadTopK& op) override;

  private:
    void update_tensor(const AdamWUpdate& op);
    void attention_gradients(const AttentionBackward& op);  // dqkv, and the gradient of the scores' bias
    template <class Body>
    void for_each_vector(const View& qkv_T3D, std::int64_t heads, const Body& body);
    void attention_encode(const AttentionForward& op);  // codes of q, k and v
    void attention_round(const AttentionBackward& op);  // q, k and v as their codes have them
    // Whether products with operands of this storage run on BF16 instructions.
    bool bf16_products(DType storage) const { return products_ == Products::kBf16 && storage != DType::kF32; }
    // The gradient of a bias: sums over the rows of dy, in their order.
    void column_sums(const View& dy, const View& dbias, bool accumulate);
    // Scratch of the calling thread, `bytes` at least; asserts that it was planned.
    void* thread_scratch(std::int64_t bytes);

    // Loops of the ops run on the context's threads.
    void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
        context_.threads().parallel_for(count, body);
    }
    template <class Body>
    void parallel_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
        context_.threads().parallel_ranges(count, grain, body);
    }

    Context context_;
    Products products_;
    std::vector<View> thread_scratch_;  // one a thread, bytes
    View shared_scratch_;               // bytes; one op at a time uses it
    View slices_;                       // head: kSlices x (B * D), f32
};

}  // namespace elmo::cpu
