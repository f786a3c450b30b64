// How much scratch the head needs: one place for the plan and for the code that uses it.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loops/noise.h"
#include "backend/cpu/scratch.h"

namespace elmo::cpu {

// A thread's: the tile in FP32, its logits, its update, g in BF16, a row of noise, a row of weights.
inline std::int64_t head_tile_bytes(std::int64_t samples, std::int64_t width) {
    using Cut = ScratchCutter;
    return 2 * Cut::padded(kLabelTile * width * 4) + 2 * Cut::padded(kLabelTile * samples * 4) +
           Cut::padded(noise_row_capacity(width) * 2) + Cut::padded(width * 4);
}
// Shared: X, its transpose, and the transpose in another precision.
inline std::int64_t head_batch_bytes(std::int64_t samples, std::int64_t width) {
    return 3 * ScratchCutter::padded(samples * width * 4);
}

}  // namespace elmo::cpu
