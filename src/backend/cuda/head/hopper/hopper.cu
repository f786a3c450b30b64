#include "backend/cuda/head/hopper/hopper.h"

#include <memory>

#include "backend/cuda/device/check.h"
#include "backend/cuda/head/hopper/gradient.cuh"
#include "backend/cuda/head/hopper/hopper.cuh"
#include "backend/cuda/head/hopper/run.h"
#include "elmo/error.h"

namespace elmo::cuda::hopper {
namespace {

__global__ void has_code_kernel(int* found) {
#ifdef ELMO_HOPPER
    *found = 1;
#else
    *found = 0;
#endif
}

// Of HeadStep or HeadTopK: whether these kernels read its weights and texts.
template <class Op>
bool reads(const Op& op) {
    const DType storage = op.w_LD.dtype;
    const bool known = storage == DType::kU8
                           ? op.grid == kE2M5Grid || op.grid == kE2M3Grid || op.grid == kE2M1Grid
                           : storage == DType::kBf16 || storage == DType::kE4M3 || storage == DType::kE3M4;
    return known && op.x_BD.dtype == DType::kBf16 && fits(op.x_BD.cols);
}

}  // namespace

bool takes(const HeadStep& op) {
    const DType storage = op.w_LD.dtype;
    const bool usual =
        op.noise == NoiseKind::kSharedSteps || (op.noise == NoiseKind::kIndependent && storage != DType::kU8);
    const bool rounds = op.compensates() ? storage != DType::kBf16 && usual && op.x_BD.cols % 8 == 0
                                         : op.noise == NoiseKind::kIndependent || moves_by_step(op.noise);
    // One part of the columns' noise serves all labels.
    const bool alike = op.first_label >> 32 == (op.first_label + op.w_LD.rows - 1) >> 32 || op.w_LD.rows == 0;
    return reads(op) && (storage == DType::kU8 || !op.grid.used()) && rounds && alike && !op.drops_weights();
}

bool takes(const HeadTopK& op) {
    return reads(op);
}

std::int64_t loss_parts(DType storage, std::int64_t padded_width, std::int64_t text_blocks) {
    if (text_blocks == 1) return 8;
    return 8 * text_blocks * kBlock /
           (storage == DType::kE4M3 ? logit_texts<StorageE4M3>(padded_width)
                                    : logit_texts<StorageBf16>(padded_width));
}

bool has_code(cudaStream_t stream) {
    int* found = nullptr;
    check(cudaMallocHost(&found, sizeof(int)), "taking pinned memory");
    const std::unique_ptr<int, decltype(&cudaFreeHost)> owner(found, &cudaFreeHost);
    *found = 0;
    has_code_kernel<<<1, 1, 0, stream>>>(found);
    check_launch("looking for Hopper's kernels");
    check(cudaStreamSynchronize(stream), "looking for Hopper's kernels");
    return *found != 0;
}

void stage(const View& x, DType storage, bool to_e4m3, const HeadArgs& a, cudaStream_t stream) {
    stage_kernel<<<blocks_for(a.padded_batch * a.padded_width, kThreads), kThreads, 0, stream>>>(
        static_cast<const bf16*>(x.data), a, to_e4m3, storage == DType::kE4M3, size_of(storage) == 1,
        static_cast<bf16*>(const_cast<void*>(a.x_update)), const_cast<void*>(a.x_logit));
    check_launch("head, staging");
}

void run_chunk(const HeadArgs& args, DType storage, int multiprocessors, bool after_another,
               cudaStream_t stream) {
    HeadArgs a = args;
    const bool early = a.first_tile > 0 && !after_another;
    if (moves_by_step(a.noise)) {  // as rounding_block draws it
        a.noise_move = golden_move(a.rounding.step) << 16;
        a.rounding.step = 0;
    }
    switch (storage) {
        case DType::kBf16:
            return run_bf16(a, multiprocessors, early, stream);
        case DType::kE4M3:
            return run_e4m3(a, multiprocessors, early, stream);
        case DType::kE3M4:
            return run_e3m4(a, multiprocessors, early, stream);
        case DType::kU8:
            if (a.grid == kE2M3Grid) return run_e2m3(a, multiprocessors, early, stream);
            if (a.grid == kE2M1Grid) return run_e2m1(a, multiprocessors, early, stream);
            return run_e2m5(a, multiprocessors, early, stream);
        default:
            throw DeviceError("head: Hopper's products take bf16, e4m3, e3m4, e2m5, e2m3 and e2m1 weights");
    }
}

void rank(const HeadArgs& a, DType storage, int multiprocessors, bool early, cudaStream_t stream) {
    switch (storage) {
        case DType::kBf16:
            return rank_bf16(a, multiprocessors, early, stream);
        case DType::kE4M3:
            return rank_e4m3(a, multiprocessors, early, stream);
        case DType::kE3M4:
            return rank_e3m4(a, multiprocessors, early, stream);
        case DType::kU8:
            if (a.grid == kE2M3Grid) return rank_e2m3(a, multiprocessors, early, stream);
            if (a.grid == kE2M1Grid) return rank_e2m1(a, multiprocessors, early, stream);
            return rank_e2m5(a, multiprocessors, early, stream);
        default:
            throw DeviceError("head: Hopper's kernels rank bf16, e4m3, e3m4, e2m5, e2m3 and e2m1 weights");
    }
}

}  // namespace elmo::cuda::hopper
