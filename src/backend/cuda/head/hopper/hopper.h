// The head's step and ranking on Hopper: see hopper.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/head/args.h"
#include "backend/ops/head.h"
#include "tensor/view.h"

namespace elmo::cuda::hopper {

// Whether these kernels can do the step, on a suitable card: weights without dropout, rounded stochastically
// with noise that is independent or moves from step to step. Of compensated steps only those of weights of 8
// bits or fewer with their usual noise, of widths that are multiples of 8.
bool takes(const HeadStep& op);
// Whether they can rank: weights of 16 bits or fewer.
bool takes(const HeadTopK& op);
// Whether the code that the driver loaded for this card has these kernels: they are compiled for sm_90a only.
bool has_code(cudaStream_t stream);
// Fills a.x_logit, and a.x_update where it is not null.
void stage(const View& x, DType storage, bool to_e4m3, const HeadArgs& a, cudaStream_t stream);
// g, dx and the update of labels [first_tile, last_tile). `after_another`: the kernel launched before wrote
// W.
void run_chunk(const HeadArgs& a, DType storage, int multiprocessors, bool after_another,
               cudaStream_t stream);
// Offers the logits of labels [first_tile, last_tile) to the candidates. `early`: W was not written just
// before.
void rank(const HeadArgs& a, DType storage, int multiprocessors, bool early, cudaStream_t stream);
// Parts of the loss that 128 labels have with so many blocks of 64 texts, of x of this width.
std::int64_t loss_parts(DType storage, std::int64_t padded_width, std::int64_t text_blocks);

}  // namespace elmo::cuda::hopper
