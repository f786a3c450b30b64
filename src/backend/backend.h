// The only door to hardware. A backend owns its scratch (planned in the arena like everything else) and
// offers a few coarse ops; each op's contract is in its header under ops/. CPU backends compute before
// they return; a device backend may enqueue, and only wait() and download() block.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/ops/attention.h"
#include "backend/ops/embedding.h"
#include "backend/ops/head.h"
#include "backend/ops/linear.h"
#include "backend/ops/norm.h"
#include "backend/ops/optimizer.h"
#include "backend/ops/renee.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "memory/arena.h"

namespace elmo {

// The largest of everything a run will ask for: what scratch is planned from.
struct Workload {
    std::int64_t batch = 0;           // B
    std::int64_t tokens = 0;          // T of the largest batch
    std::int64_t longest = 0;         // tokens of the longest text
    std::int64_t width = 0;           // D of the head
    std::int64_t widest = 0;          // largest N or K of a linear layer (0: no linear layers)
    std::int64_t largest_weight = 0;  // elements of the largest linear weight
    std::int64_t fp8_widths = 0;      // largest N + K of a linear layer with FP8 products (0: none)
    std::int64_t heads = 0;           // 0: no attention
    std::int64_t vocab = 0;
    std::int64_t labels = 0;
    std::int64_t positives = 0;  // label entries of the largest batch
    DType head_dtype = DType::kBf16;
    bool head_row_exponents = false;  // its grid has an exponent per row
    bool renee = false;               // the head's step is renee_step
    bool head_packed = false;         // its weights are codes of fewer than 8 bits
    DType encoder_dtype = DType::kBf16;
    std::int64_t chunks = 1;
    std::int64_t top_k = 0;
    bool training = true;
};

// What a machine can do at best, measured.
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
    // Whether the hardware multiplies FP8 numbers (a GPU from compute capability 8.9 on).
    virtual bool has_fp8_products() const { return false; }
    // What allocate could still take.
    virtual std::int64_t free_bytes() const = 0;
    // What this process has taken of that memory, at most, as the system counts it (a GPU: since its
    // context).
    virtual std::int64_t taken_bytes() const = 0;
    // Label chunks of a head step where the user gives none.
    virtual std::int64_t preferred_chunks(const Workload&) const { return 1; }
    // Plans or takes the scratch of all ops but what reserve_head takes. Called once on the dry arena and
    // once on the real one.
    virtual void reserve(Arena& arena, const Workload& workload) = 0;
    // The scratch that only head_step, renee_step and head_topk use, and not from one call to the next:
    // before each call it may hold anything, so it can lie over whatever is dead while the head works.
    // Follows reserve.
    virtual void reserve_head(Arena& /*arena*/, const Workload& /*workload*/) {}

    virtual void upload(View to, const void* from) = 0;
    virtual void download(void* to, View from) = 0;
    virtual void fill_zero(View view) = 0;
    virtual void wait() {}

    // Says that these texts will be passed, unchanged, to the ops until the next call: a device backend sends
    // them once, while it still works on what came before. Ops take other texts too, at their own cost.
    virtual void begin_batch(std::span<const std::int32_t> /*tokens*/, Offsets /*offsets*/) {}
    // Notes the time when all work enqueued so far is done, in slot `mark` (0 .. kMarks - 1).
    virtual void mark(int mark) = 0;
    // From one mark to another; blocks until both are done.
    virtual double elapsed_ms(int from, int to) = 0;
    static constexpr int kMarks = 512;
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
    // Whether any element is NaN or infinite.
    virtual bool has_non_finite(View view) = 0;
};

std::unique_ptr<Backend> make_reference_backend();
// products: "auto", "bf16" or "fp32" (see Config::cpu_products).
std::unique_ptr<Backend> make_cpu_backend(const Context& context, const std::string& products);
// From libelmo_cuda.so (plugin.h). ConfigError where that is missing or another version's. Asks for no GPU
// yet: allocate() throws a DeviceError where there is no usable one.
std::unique_ptr<Backend> make_cuda_backend(const Context& context);

}  // namespace elmo
