// A chunk of the head's work on kernels for any card: chunk.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/head/args.h"

namespace elmo::cuda {

// Widths that are multiples of it have tiles.
inline constexpr int kTileStep = 64;

// g, dx and the update of labels [first_tile, last_tile) of W in storage S (storage.cuh).
template <class S>
void run_chunk(const HeadArgs& a, bool tiled, cudaStream_t stream);
// Offers their logits to the candidates.
template <class S>
void run_rank(const HeadArgs& a, bool tiled, cudaStream_t stream);

}  // namespace elmo::cuda
