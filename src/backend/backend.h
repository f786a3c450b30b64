// The only interface to hardware. A backend owns its scratch (planned in the arena like everything else) and
// offers a few coarse ops; each op's contract is in its header under ops/. CPU backends compute before they
// return; a device backend may enqueue, and only wait() and download() block.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/ops/attention.h"
#include "backend/ops/embedding.h"
#include "backend/ops/exchange.h"
#include "backend/ops/head.h"
#include "backend/ops/linear.h"
#include "backend/ops/norm.h"
#include "backend/ops/optimizer.h"
#include "backend/ops/renee.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "memory/arena.h"

namespace elmo {

// The largest sizes that a run will use: scratch is planned from them.
struct Workload {
    std::int64_t batch = 0;           // B
    std::int64_t tokens = 0;          // T of the largest batch
    std::int64_t longest = 0;         // tokens of the longest text
    std::int64_t width = 0;           // D of the head
    std::int64_t widest = 0;          // largest N or K of a linear layer (0: no linear layers)
    std::int64_t largest_weight = 0;  // elements of the largest linear weight
    bool fp8_products = false;        // of linear layers
    bool fp16_products = false;       // of linear layers and attention
    std::int64_t heads = 0;           // 0: no attention
    bool relative_bias = false;       // attention has a bias
    std::int64_t vocab = 0;
    std::int64_t labels = 0;
    std::int64_t positives = 0;  // label entries of the largest batch
    bool weighted = false;       // they have weights
    DType head_dtype = DType::kBf16;
    bool head_row_exponents = false;  // its grid has an exponent per row
    bool renee = false;               // the head's step is renee_step
    bool head_packed = false;         // its weights are codes of fewer than 8 bits
    std::int64_t head_row_bytes =
        0;                         // of its weights where they are in the host's memory; 0: in the device's
    std::int64_t compensated = 0;  // its labels with a compensation
    DType encoder_dtype = DType::kBf16;
    std::int64_t chunks = 1;
    std::int64_t top_k = 0;
    bool training = true;
};

// The best rates of a machine, measured.
struct Ceilings {
    double gflops = 0, gbytes = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;
    virtual std::string describe() const = 0;  // one line: machine, arithmetic of products, threads
    // Whether views point to memory that the host may read and map files into.
    virtual bool host_memory() const { return true; }

    virtual std::unique_ptr<MemoryBlock> allocate(std::int64_t bytes) = 0;
    // Memory of the host that head ops with `in_host`, fill_normal, upload, download and has_non_finite
    // reach.
    virtual std::unique_ptr<MemoryBlock> allocate_in_host(std::int64_t bytes) {
        return allocate_host_block(bytes);
    }
    // Whether the hardware multiplies FP8 numbers (a GPU from compute capability 8.9 on).
    virtual bool has_fp8_products() const { return false; }
    // The memory that allocate could still take.
    virtual std::int64_t free_bytes() const = 0;
    // The peak of that memory taken by this process, as the system counts it (a GPU: since its context).
    virtual std::int64_t taken_bytes() const = 0;
    // Default number of label chunks of a head step.
    virtual std::int64_t preferred_chunks(const Workload&) const { return 1; }
    // Room for what attention's forward leaves of a layer's dropout for the backward; 0: it leaves nothing.
    virtual std::int64_t attention_mask_bytes(const Workload&) const { return 0; }
    // Plans or takes the scratch of all ops, except what reserve_head takes. Called once on the dry arena and
    // once on the real one.
    virtual void reserve(Arena& arena, const Workload& workload) = 0;
    // The scratch that only head_step, renee_step and head_topk use. It keeps nothing between calls, so it
    // can overlay whatever is dead while the head works. Call it after reserve.
    virtual void reserve_head(Arena& /*arena*/, const Workload& /*workload*/) {}

    virtual void upload(View to, const void* from) = 0;
    virtual void download(void* to, View from) = 0;
    virtual void fill_zero(View view) = 0;
    virtual void wait() {}
    // Order with another library's stream of the same device (a cudaStream_t), without blocking: what is
    // enqueued from here on waits for what that stream holds so far, or that stream for what was enqueued
    // here so far.
    virtual void wait_for(void* /*stream*/) {}
    virtual void make_wait(void* /*stream*/) {}
    // In stream order, to memory of the device, or of the host where host_memory().
    virtual void copy_out(void* to, View from) { download(to, from); }

    // Announces that ops will get these texts, unchanged, until the next call: a device backend uploads them
    // once, while earlier work still runs. Ops take other texts too, at the cost of an upload.
    virtual void begin_batch(std::span<const std::int32_t> /*tokens*/, Offsets /*offsets*/) {}
    // Notes the time when all work enqueued so far is done, in slot `mark` (0 .. kMarks - 1).
    virtual void mark(int mark) = 0;
    // From one mark to another; blocks until both are done.
    virtual double elapsed_ms(int from, int to) = 0;
    static constexpr int kMarks = 512;
    // Several ranks with a device each: each makes an id, and they join with the ids of all, in order
    // (ConfigError on all where they cannot). exchange then moves views between devices, in stream order;
    // messages between two ranks keep their order. Other backends are exchanged through host memory.
    virtual bool can_exchange() { return false; }
    virtual std::vector<std::byte> exchange_id() { return {}; }
    virtual void join(std::span<const std::byte> /*id*/, int /*rank*/, int /*size*/) {}
    virtual void exchange(std::span<const SentView> /*send*/, std::span<const ReceivedView> /*receive*/) {}
    // An exchange that follows what is enqueued so far and travels beside what is enqueued from here on. Only
    // what is enqueued after finish_exchange, which is for the oldest that was started, may read what is
    // received, or write what is sent.
    virtual void start_exchange(std::span<const SentView> /*send*/,
                                std::span<const ReceivedView> /*receive*/) {}
    virtual void finish_exchange() {}

    // Product rate in the arithmetic used for this storage, and rate of copying (read + write), measured now.
    // A device takes at most `room_bytes` for it while it measures.
    virtual Ceilings measure_ceilings(DType storage, std::int64_t room_bytes) = 0;

    virtual void fill_normal(const FillNormal& op) = 0;
    virtual void linear_forward(const LinearForward& op) = 0;
    virtual void linear_backward(const LinearBackward& op) = 0;
    virtual void gelu_backward(const GeluBackward& op) = 0;
    virtual void residual_norm_forward(const ResidualNormForward& op) = 0;
    virtual void residual_norm_backward(const ResidualNormBackward& op) = 0;
    virtual void dropout(const DropoutApply& op) = 0;
    virtual void add(const AddInPlace& op) = 0;
    virtual void attention_forward(const AttentionForward& op) = 0;
    virtual void attention_backward(const AttentionBackward& op) = 0;
    virtual void embed_forward(const EmbedForward& op) = 0;
    virtual void embed_backward(const EmbedBackward& op) = 0;
    virtual void pool_forward(const PoolForward& op) = 0;
    virtual void pool_backward(const PoolBackward& op) = 0;
    virtual void bag_forward(const BagForward& op) = 0;
    virtual void bag_backward(const BagBackward& op) = 0;
    // All tensors of an encoder in one call.
    virtual void adamw(std::span<const AdamWUpdate> ops) = 0;
    virtual HeadStepResult head_step(const HeadStep& op) = 0;
    virtual ReneeStepResult renee_step(const ReneeStep& op) = 0;
    virtual std::vector<TopK> head_topk(const HeadTopK& op) = 0;
    // dst = src with another dtype.
    virtual void cast(View dst, View src) = 0;
    // Every element of an F32 view becomes what FP16 holds of it, as ops with `fp16` round.
    virtual void round_fp16(View view) = 0;
    // Whether any element is NaN or infinite.
    virtual bool has_non_finite(View view) = 0;
};

std::unique_ptr<Backend> make_reference_backend();
// products: "auto", "bf16" or "fp32" (see Config::cpu_products).
std::unique_ptr<Backend> make_cpu_backend(const Context& context, const std::string& products);
// From libelmo_cuda.so (plugin.h). ConfigError if that is missing or from another version. Needs no GPU yet:
// allocate() throws a DeviceError if there is no usable one.
std::unique_ptr<Backend> make_cuda_backend(const Context& context);

}  // namespace elmo
