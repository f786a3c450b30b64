// The CUDA backend: one device, one stream, ops enqueued in order. This is a table: each family of ops is an
// object that owns its scratch, over what they share. Views point to device memory and begin at multiples of
// 16 bytes, as the arena gives them. Ops of the backward pass put off column sums into gradients; everything
// else that may meet a gradient finishes those first.
#pragma once

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/device/column_sums.h"
#include "backend/cuda/device/context.h"
#include "backend/cuda/device/texts.h"
#include "backend/cuda/embedding/embedding.h"
#include "backend/cuda/exchange/nccl.h"
#include "backend/cuda/head/head.h"
#include "backend/cuda/head/positives.h"
#include "backend/cuda/head/renee.h"
#include "backend/cuda/linear/linear.h"
#include "backend/cuda/linear/products.h"
#include "backend/cuda/norm/norm.h"
#include "backend/cuda/optimizer/optimizer.h"

namespace elmo::cuda {

class CudaBackend : public Backend {
  public:
    // Needs no GPU yet: a run can be planned without one. allocate() starts the device, and throws a
    // DeviceError if there is no usable one; call nothing else before it.
    explicit CudaBackend(const Context& context) : context_(context) {}

    std::string_view name() const override { return "cuda"; }
    std::string describe() const override { return context_.describe(); }
    bool host_memory() const override { return false; }
    bool has_fp8_products() const override;
    std::unique_ptr<MemoryBlock> allocate(std::int64_t bytes) override;
    std::unique_ptr<MemoryBlock> allocate_in_host(std::int64_t bytes) override;
    std::int64_t free_bytes() const override { return context_.free_bytes(); }
    std::int64_t taken_bytes() const override { return context_.taken_bytes(); }
    std::int64_t preferred_chunks(const Workload& workload) const override {
        return head_.preferred_chunks(workload);
    }
    std::int64_t attention_mask_bytes(const Workload& workload) const override {
        return AttentionOps::mask_bytes(workload);
    }
    void reserve(Arena& arena, const Workload& workload) override;
    void reserve_head(Arena& arena, const Workload& workload) override;

    void upload(View to, const void* from) override;
    void download(void* to, View from) override;
    void fill_zero(View view) override {
        column_sums_.finish();
        context_.fill_zero(settled(view));
    }
    void wait() override {
        column_sums_.finish();
        head_.settle();
        context_.wait();
    }
    void wait_for(void* stream) override {
        column_sums_.finish();
        context_.wait_for(static_cast<cudaStream_t>(stream));
    }
    void make_wait(void* stream) override {
        column_sums_.finish();
        context_.make_wait(static_cast<cudaStream_t>(stream));
    }
    void copy_out(void* to, View from) override {
        column_sums_.finish();
        context_.copy_out(to, from);
    }
    void begin_batch(std::span<const std::int32_t> tokens, Offsets offsets) override {
        column_sums_.finish();
        texts_.begin(tokens, offsets);
    }
    void mark(int mark) override {
        column_sums_.finish();
        context_.mark(mark);
    }
    double elapsed_ms(int from, int to) override { return context_.elapsed_ms(from, to); }
    Ceilings measure_ceilings(DType storage, std::int64_t room_bytes) override;
    bool can_exchange() override { return exchange_.is_available(); }
    std::vector<std::byte> exchange_id() override { return exchange_.id(); }
    void join(std::span<const std::byte> ids, int rank, int size) override {
        exchange_.join(ids, rank, size);
    }
    void exchange(std::span<const SentView> send, std::span<const ReceivedView> receive) override {
        column_sums_.finish();
        exchange_.exchange(send, receive);
    }
    void start_exchange(std::span<const SentView> send, std::span<const ReceivedView> receive) override {
        column_sums_.finish();
        exchange_.start(send, receive);
    }
    void finish_exchange() override { exchange_.finish(); }
    void cast(View to, View from) override;
    void round_fp16(View view) override;
    bool has_non_finite(View view) override;

    void fill_normal(const FillNormal& op) override;
    void linear_forward(const LinearForward& op) override { linear_.forward(op); }
    void linear_backward(const LinearBackward& op) override { linear_.backward(op); }
    void gelu_backward(const GeluBackward& op) override { linear_.gelu_backward(op); }
    void residual_norm_forward(const ResidualNormForward& op) override { norm_.forward(op); }
    void residual_norm_backward(const ResidualNormBackward& op) override { norm_.backward(op); }
    void dropout(const DropoutApply& op) override { norm_.dropout(op); }
    void add(const AddInPlace& op) override {
        column_sums_.finish();
        norm_.add(op);
    }
    void attention_forward(const AttentionForward& op) override { attention_.forward(op); }
    void attention_backward(const AttentionBackward& op) override { attention_.backward(op); }
    void embed_forward(const EmbedForward& op) override { embedding_.embed_forward(op); }
    void embed_backward(const EmbedBackward& op) override { embedding_.embed_backward(op); }
    void pool_forward(const PoolForward& op) override { embedding_.pool_forward(op); }
    void pool_backward(const PoolBackward& op) override { embedding_.pool_backward(op); }
    void bag_forward(const BagForward& op) override { embedding_.bag_forward(op); }
    void bag_backward(const BagBackward& op) override { embedding_.bag_backward(op); }
    void adamw(std::span<const AdamWUpdate> ops) override { optimizer_.adamw(ops, column_sums_.finish()); }
    HeadStepResult head_step(const HeadStep& op) override {
        column_sums_.finish();
        return head_.step(op);
    }
    ReneeStepResult renee_step(const ReneeStep& op) override {
        column_sums_.finish();
        return renee_.step(op);
    }
    std::vector<TopK> head_topk(const HeadTopK& op) override { return head_.topk(op); }

  private:
    // The device, started on first use.
    void start() {
        if (!context_.start()) return;
        head_.start();
        attention_.start();
        linear_.start();
    }
    // A view that any op may use: rows of a head in the host's memory may be on their way.
    const View& settled(const View& view) {
        if (context_.is_in_host(view)) head_.settle();
        return view;
    }

    CudaContext context_;
    // What families share.
    BatchTexts texts_{context_};
    ColumnSums column_sums_{context_};
    Products products_{context_};
    DevicePositives positives_{context_};
    NcclExchange exchange_{context_};

    LinearOps linear_{context_, products_, column_sums_};
    NormOps norm_{context_, column_sums_};
    AttentionOps attention_{context_, texts_, column_sums_};
    EmbeddingOps embedding_{context_, texts_, column_sums_};
    OptimizerOps optimizer_{context_};
    HeadOps head_{context_, positives_};
    ReneeOps renee_{context_, products_, positives_};
};

}  // namespace elmo::cuda
