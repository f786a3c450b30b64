// The head: its step, and the ranking of labels. Owns the scratch of both.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/device/context.h"
#include "backend/cuda/head/args.h"
#include "backend/cuda/head/positives.h"
#include "backend/cuda/head/stream.h"

namespace elmo::cuda {

class HeadOps {
  public:
    HeadOps(CudaContext& context, DevicePositives& positives) : context_(context), positives_(positives) {}

    // Probes which kernels the card has. Call it after the context's start.
    void start();
    std::int64_t preferred_chunks(const Workload& workload) const;
    // The counts that are kept from step to step.
    void reserve_report(Arena& arena, const Workload& workload);
    // What a head in the host's memory passes through; settle() is HeadStream's.
    void reserve_stream(Arena& arena, const Workload& workload) { stream_.reserve(arena, workload); }
    void settle() { stream_.settle(); }
    // The scratch of a call, of `renee` what ranking needs only.
    void reserve(Arena& arena, const Workload& workload);

    HeadStepResult step(const HeadStep& op);
    std::vector<TopK> topk(const HeadTopK& op);
    void fill_packed(const FillNormal& op);

  private:
    void reserve_ranking(Arena& arena, const Workload& workload);
    // Whether Hopper's kernels do this step, or this ranking.
    bool on_hopper(const HeadStep& op) const;
    bool on_hopper(const HeadTopK& op) const;
    // The batch as the products take it, and their common arguments. `drop`: with weight dropout.
    HeadArgs stage(const View& x, const View& w, bool to_e4m3, bool for_update, bool on_hopper, bool drop);
    // The arguments of a step, and its positives on the device.
    HeadArgs prepare(const HeadStep& op, const View& w, bool on_hopper);
    // Fetches the rows of a.first_tile .. a.last_tile from the host: `a` and the op lead to them.
    HeadStep fetch_chunk(const HeadStep& op, HeadArgs& a);
    HeadTopK fetch_chunk(const HeadTopK& op, HeadArgs& a);
    // The products of a chunk, and what follows them in its rows.
    void run_chunk(const HeadStep& op, const View& w, HeadArgs& a, bool on_hopper);
    // The last tile of a chunk that begins with `first`: `last`, or less where the sums of its compensated
    // labels would not fit.
    std::int64_t last_tile(const HeadStep& op, std::int64_t first, std::int64_t last) const;
    // run_chunk by Hopper's kernels.
    void run_chunk_on_hopper(const HeadStep& op, HeadArgs& a);
    // Says once why Hopper's kernels, which the card has, do not do the step.
    void explain_slow_step(const HeadStep& op);
    // The rows of a.first_tile .. a.last_tile, which are packed, as BF16; a.w_LD becomes what leads to them.
    View expand_chunk(const View& w, const View& exponents, const WeightGrid& grid, HeadArgs& a);
    // The same rows as Hopper's kernels take them, of so many bytes (packed.h).
    View align_chunk(const View& w, std::int64_t row_bytes, HeadArgs& a);
    // Tiles that may be expanded at once. DeviceError if that was not planned.
    std::int64_t expanded_tiles(std::int64_t width) const;
    // Offers the logits of a.first_tile .. a.last_tile to the candidates.
    void rank_tiles(const HeadArgs& staged, const HeadTopK& op, bool on_hopper);
    void rank_resident(HeadArgs a, const HeadTopK& op, bool on_hopper);

    CudaContext& context_;
    DevicePositives& positives_;
    HeadStream stream_{context_};
    bool has_hopper_code_ = false;  // and the card is one
    bool explained_ = false;

    View x_update_, x_logit_;  // room for f32 [Bp, D]; bf16 on tiles
    View g_;                   // bf16 [labels of a chunk, Bp]
    View dx_slices_;           // f32 [slices, B, D]
    View tile_starts_;
    View losses_;            // f64, one a tile
    View report_;            // HeadReport
    View row_flags_;         // u8 [1, L], where rows have exponents
    View compensated_sums_;  // f32 [labels of a chunk, D], where labels have compensation
    View expanded_;          // bf16 [labels, D], where weights are packed or rows are to be aligned
    View candidates_;        // i64 [B, capacity], of ranking
    View ranking_;           // i64, what else it keeps (topk.cu)
    std::unique_ptr<MemoryBlock> answer_;  // of ranking, in pinned memory: faster to copy to
};

}  // namespace elmo::cuda
