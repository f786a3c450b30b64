// The arguments of the head's kernels. Legend: L labels, C labels of a chunk, B texts, Bp texts padded to
// whole tiles, D width.
#pragma once

#include <cstdint>

#include "backend/cuda/device/math.cuh"
#include "backend/cuda/head/shape.h"
#include "numerics/philox.h"
#include "numerics/rounding_noise.h"
#include "numerics/row_marks.h"
#include "numerics/weight_grid.h"

namespace elmo::cuda {

// The results of a step for the host.
struct HeadReport {
    double loss_sum;
    unsigned long long saturations;
    long long non_finite;  // the first step whose dx was not finite; huge: none
};

struct HeadArgs {
    std::int64_t labels = 0, batch = 0, padded_batch = 0, width = 0;
    // Hopper's kernels: columns of x as it is staged, and from a row of W to the next.
    std::int64_t padded_width = 0, stride = 0;
    std::int64_t text_blocks = 0;                // Hopper's kernels: blocks of 64 texts that g has
    std::int64_t first_tile = 0, last_tile = 0;  // of this chunk
    std::int64_t num_slices = 1;
    void* w_LD = nullptr;
    const void* x_update = nullptr;  // [Bp, D] bf16, or [B, D] f32 on the simple path
    const void* x_logit = nullptr;
    std::uint16_t* g_CB = nullptr;  // bf16 [C, Bp]
    float* dx_slices = nullptr;     // [slices, B, D]; null when not wanted
    const std::int64_t* positive_labels = nullptr;
    const std::int32_t* positive_samples = nullptr;
    const float* positive_weights = nullptr;    // null: each counts once
    const std::int32_t* tile_starts = nullptr;  // first positive of each tile
    double* losses = nullptr;                   // one per (tile, batch tile); null when not wanted
    HeadReport* report = nullptr;
    float lr = 0, keep = 1;
    NoiseKey rounding;
    PhiloxKeys rounding_keys{};    // of rounding.seed
    std::uint32_t noise_move = 0;  // Hopper's kernels: how far noise has moved, in the upper 16 bits
    std::int64_t first_label = 0;  // noise row of label 0
    // What only a step with extras has.
    DropoutArgs weight_dropout;
    float decay = 0;                        // lr * weight_decay
    const std::uint32_t* marks = nullptr;   // of labels that have a row of compensation; null: none has
    std::uint16_t* compensation = nullptr;  // bf16 [K, D]
    // Hopper's kernels: the sums of the chunk's labels that have compensation, the first of which has this
    // row.
    float* compensated_sums = nullptr;
    std::int64_t first_compensated = 0;
    // How weights are rounded, if not only by their storage.
    NoiseKind noise = NoiseKind::kIndependent;
    WeightGrid grid;                        // where the weights lie on one
    std::uint8_t* row_exponents = nullptr;  // [L], where the grid has them
    std::uint8_t* row_flags = nullptr;      // [L]: 1 where a weight of the row saturated in this step
    // Ranking.
    std::uint64_t* candidates = nullptr;        // [B, capacity]
    std::int32_t* counts = nullptr;             // [B]; null: all of the chunk's labels are candidates
    const std::uint64_t* thresholds = nullptr;  // [B]
    std::int64_t capacity = 0;
};

}  // namespace elmo::cuda
