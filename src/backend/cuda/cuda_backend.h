// The CUDA backend: one device, one stream, ops enqueued in order. Each op family has its file (*.cu, or .cpp
// where cuBLASLt does the work); this is the class that ties them together and owns the scratch they share.
// Views point to device memory and begin at multiples of 16 bytes, as the arena gives them.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/check.h"
#include "backend/cuda/head/args.h"
#include "elmo/context.h"

namespace elmo::cuda {

class Products;  // linear/products.h: chosen cuBLASLt algorithms
struct Product;

// The texts of a batch on the device.
struct DeviceTexts {
    const std::int32_t* tokens = nullptr;   // [T]
    const std::int32_t* offsets = nullptr;  // [B + 1]
    std::int64_t num_tokens = 0, num_texts = 0;
    std::int64_t longest = 0;  // tokens of the longest text
};

// Partial sums over tokens: as many as these, added in order.
inline constexpr std::int64_t kColumnPartials = 264;
// Room for the table of 4,096 tensors.
inline constexpr std::int64_t kOptimizerTableBytes = 4096 * 80;

// Of sorting this many tokens (embedding/embedding.cu): a bound, for a plan; and that it holds, where there
// is a GPU to ask. DeviceError where it does not.
std::int64_t sort_temp_bytes(std::int64_t entries);
void check_sort_temp(std::int64_t entries);

class CudaBackend : public Backend {
  public:
    // Asks for no GPU yet: a run can be planned where there is none. allocate() starts the device, and throws
    // a DeviceError where there is no usable one; nothing else may be called before.
    explicit CudaBackend(const Context& context);
    ~CudaBackend() override;

    std::string_view name() const override { return "cuda"; }
    std::string describe() const override;
    bool host_memory() const override { return false; }
    bool has_fp8_products() const override;
    std::unique_ptr<MemoryBlock> allocate(std::int64_t bytes) override;
    std::int64_t free_bytes() const override;
    std::int64_t taken_bytes() const override;
    std::int64_t preferred_chunks(const Workload& workload) const override;
    void reserve(Arena& arena, const Workload& workload) override;
    void reserve_head(Arena& arena, const Workload& workload) override;

    void upload(View to, const void* from) override;
    void download(void* to, View from) override;
    void fill_zero(View view) override;
    void wait() override;
    void begin_batch(std::span<const std::int32_t> tokens, Offsets offsets) override;
    void mark(int mark) override;
    double elapsed_ms(int from, int to) override;
    Ceilings measure_ceilings(DType storage, std::int64_t room_bytes) override;
    void cast(View to, View from) override;
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
    void start();
    // Says what the card means for the kernels, before the first of them is loaded.
    void report_kernels();
    // Copies from a host buffer that may be reused at once: through pinned memory, in stream order.
    void send(void* to, const void* from, std::int64_t bytes);
    // Zeroes, in stream order.
    void clear(void* to, std::int64_t bytes, const char* op);
    // The texts on the device: those of begin_batch where the spans are the same, else sent now.
    DeviceTexts texts(std::span<const std::int32_t> tokens, Offsets offsets);
    DeviceTexts texts(Offsets offsets) { return texts({}, offsets); }  // tokens not needed
    void send_texts(std::span<const std::int32_t> tokens, Offsets offsets);
    // By cuBLASLt or, where it has no kernel, plainly.
    void multiply(const Product& product, const char* op);
    // Linear layers with FP8 products (linear/fp8.cpp): y without its activation; dx and dw.
    void reserve_fp8(Arena& arena, std::int64_t rows, const Workload& workload);
    void product_forward_fp8(const LinearForward& op, const View& y_TN);
    void product_backward_fp8(const LinearBackward& op);
    // Whether this GPU has FP8 kernels for a weight of [n, k].
    bool multiplies_fp8(std::int64_t n, std::int64_t k) const;
    // DeviceError where the scratch is too small.
    void check_fp8_room(std::int64_t rows, const View& w_NK) const;
    // Column sums of [rows, cols] into a gradient, added to what is there when `accumulate` is set.
    void column_sums(View dy_TN, View dbias_1N, bool accumulate);
    // Tables' gradients from those of their users: of tokens from a row a token or, with `per_text`, from a
    // row a text (a bag's mean); of positions from a row a token.
    void token_gradient(const DeviceTexts& texts, View rows, bool per_text, View dtable, bool accumulate);
    void position_gradient(const DeviceTexts& texts, View rows, std::int64_t position_base, View dtable,
                           bool accumulate);
    // A small table on the device; those that were sent before are found again.
    const void* on_device(const void* table, std::int64_t bytes);
    // The counts that the head keeps from step to step.
    void reserve_head_report(Arena& arena);
    void reserve_ranking(Arena& arena, const Workload& workload);
    void reserve_positives(Arena& arena, const Workload& workload);
    // The positives of a batch to the device.
    void send_positives(std::span<const Positive> positives);
    void reserve_renee(Arena& arena, const Workload& workload);
    // The batch as the head's products take it, and their common arguments.
    // `drop`: with weight dropout.
    HeadArgs stage_head(const View& x, const View& w, bool for_update, bool on_hopper, bool drop);
    // Whether Hopper's kernels do this step.
    bool on_hopper(const HeadStep& op) const;
    // The rows of a.first_tile .. a.last_tile, which are packed, as BF16; a.w_LD becomes what leads to them.
    View expand_chunk(const View& w, const View& exponents, const WeightGrid& grid, HeadArgs& a);
    // Tiles that may be expanded at once. DeviceError where that was not planned.
    std::int64_t expanded_tiles(std::int64_t width) const;
    void fill_packed(const FillNormal& op);
    // Offers the logits of a.first_tile .. a.last_tile to the candidates.
    void rank_tiles(const HeadArgs& staged, const HeadTopK& op);

    Context log_;
    int device_ = 0;
    bool has_hopper_code_ = false;  // and the card is one
    std::int64_t free_at_start_ = 0, most_held_ = 0;
    // Bytes of the blocks that live, which may live longer than this.
    std::shared_ptr<std::int64_t> held_ = std::make_shared<std::int64_t>(0);
    cudaDeviceProp properties_{};
    cudaStream_t stream_ = nullptr;
    cublasLtHandle_t lt_ = nullptr;
    std::unique_ptr<Products> products_;
    std::vector<cudaEvent_t> marks_;

    // Pinned memory that uploads pass through; each piece is reused once its event has passed.
    struct Pinned {
        void* data = nullptr;
        std::int64_t bytes = 0;
        cudaEvent_t sent = nullptr;
    };
    static constexpr int kPinned = 32;
    Pinned pinned_[kPinned];
    int next_pinned_ = 0;

    // Scratch, named after what it holds.
    View workspace_;                             // of cuBLASLt
    View tokens_1T_, offsets_1B_;                // the batch at hand
    View sort_in_2T_, sort_out_2T_, sort_temp_;  // token gradients
    View column_partials_;                       // f32: partial sums of norms and biases
    View attention_delta_TH_;                    // f32
    View flags_;                                 // i32: has_non_finite
    View optimizer_table_;                       // u8: the tensors of adamw
    struct Fp8Scratch {
        View operands, weights;  // u8: codes, or bf16 numbers
        View small;              // u8: scales, and what casting needs
    } fp8_;
    struct Table {
        void* device;
        std::vector<unsigned char> content;
    };
    std::vector<Table> tables_;  // what lies in optimizer_table_
    std::int64_t tables_used_ = 0;

    // The announced batch, and what is on the device.
    std::span<const std::int32_t> batch_tokens_;
    Offsets batch_offsets_;
    DeviceTexts batch_;

    // The head's scratch: see head/step.cu and head/topk.cu.
    struct HeadScratch {
        View x_update, x_logit;  // room for f32 [Bp, D]; bf16 on tiles
        View g;                  // bf16 [labels of a chunk, Bp]
        View dx_slices;          // f32 [slices, B, D]
        View positive_labels, positive_samples, tile_starts;
        View losses;                          // f64, one a tile
        View report;                          // HeadReport
        View row_flags;                       // u8 [1, L], where rows have exponents
        View expanded;                        // bf16 [labels, D], where weights are packed
        View candidates, counts, thresholds;  // top-k
    } head_;
    // The baseline's, beside the head's positives: see head/renee.cu.
    struct ReneeScratch {
        View x16;         // f16 [P, D]
        View dx;          // f32 [P, D]: the sum over all labels
        View positive_z;  // f32, one a positive
        View losses;      // f64, one a block
        View report;      // ReneeReport
    } renee_;
    std::vector<std::int64_t> positive_labels_;
    std::vector<std::int32_t> positive_samples_;
};

}  // namespace elmo::cuda
