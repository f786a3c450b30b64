// The head's kernels for any card, launched: those of tiles.cuh or simple.cuh. Each storage is compiled in
// its own file.
#pragma once

#include <type_traits>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/chunk.h"
#include "backend/cuda/head/simple.cuh"
#include "backend/cuda/head/tiles.cuh"

namespace elmo::cuda {
namespace {

template <class Kernel>
void allow_shared(Kernel* kernel, int bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "head");
}

unsigned grid(std::int64_t n) {
    return static_cast<unsigned>(n);
}

// Weights on a grid are read as those of their dtype: only the update differs.
template <class S>
struct ReadAs {
    using Storage = S;
};
template <>
struct ReadAs<StorageGrid16> {
    using Storage = StorageBf16;
};
template <>
struct ReadAs<StorageGrid32> {
    using Storage = StorageF32;
};

// The three products of a chunk. Dropout is in all of them, compensation only in the update.
template <class S, bool Drop, bool Extras>
void run_tiles(const HeadArgs& a, cudaStream_t stream) {
    using R = typename ReadAs<S>::Storage;
    const std::int64_t tiles = a.last_tile - a.first_tile, batches = a.padded_batch / kBatchTile;
    const std::int64_t columns = (a.width + tiles::kTile - 1) / tiles::kTile;
    const dim3 logit_grid(grid(tiles), grid(batches));
    constexpr int kLogitShared = tiles::kLogitShared<R, Drop>;
    if (a.losses != nullptr) {
        allow_shared(tiles::gradient_kernel<R, true, Drop>, kLogitShared);
        tiles::gradient_kernel<R, true, Drop><<<logit_grid, kThreads, kLogitShared, stream>>>(a);
    } else {
        allow_shared(tiles::gradient_kernel<R, false, Drop>, kLogitShared);
        tiles::gradient_kernel<R, false, Drop><<<logit_grid, kThreads, kLogitShared, stream>>>(a);
    }
    check_launch("head, logits");
    if (a.dx_slices != nullptr) {
        allow_shared(tiles::input_gradient_kernel<R, Drop>, tiles::kInputShared<R>);
        tiles::input_gradient_kernel<R, Drop><<<dim3(grid(columns), grid(batches), grid(a.num_slices)),
                                                kThreads, tiles::kInputShared<R>, stream>>>(a);
        check_launch("head, input gradient");
    }
    allow_shared(tiles::update_kernel<S, Extras>, tiles::kUpdateShared<S>);
    tiles::update_kernel<S, Extras><<<grid(columns * tiles), kThreads, tiles::kUpdateShared<S>, stream>>>(a);
    check_launch("head, update");
}

template <class S, bool Drop, bool Extras>
void run_simple(const HeadArgs& a, cudaStream_t stream) {
    using R = typename ReadAs<S>::Storage;
    constexpr std::int64_t kHalves = kLabelTile / simple::kEdge;
    const std::int64_t rows = (a.last_tile - a.first_tile) * kHalves,
                       batches = a.padded_batch / simple::kEdge;
    const std::int64_t columns = (a.width + simple::kEdge - 1) / simple::kEdge;
    const dim3 logit_grid(grid(rows), grid(batches));
    if (a.losses != nullptr)
        simple::gradient_kernel<R, true, Drop><<<logit_grid, kThreads, 0, stream>>>(a);
    else
        simple::gradient_kernel<R, false, Drop><<<logit_grid, kThreads, 0, stream>>>(a);
    check_launch("head, logits");
    if (a.dx_slices != nullptr) {
        simple::input_gradient_kernel<R, Drop>
            <<<dim3(grid(columns), grid(batches), grid(a.num_slices)), kThreads, 0, stream>>>(a);
        check_launch("head, input gradient");
    }
    simple::update_kernel<S, Extras><<<grid(columns * rows), kThreads, 0, stream>>>(a);
    check_launch("head, update");
}

}  // namespace

template <class S>
void run_chunk(const HeadArgs& a, bool tiled, cudaStream_t stream) {
    const auto run = [&](auto drop, auto extras) {
        if constexpr (sizeof(typename S::Raw) != 4)
            if (tiled) return run_tiles<S, drop.value, extras.value>(a, stream);
        run_simple<S, drop.value, extras.value>(a, stream);
    };
    if (a.weight_dropout.threshold > 0) return run(std::true_type(), std::true_type());
    if constexpr (kCompensates<S>)
        if (a.marks != nullptr) return run(std::false_type(), std::true_type());
    run(std::false_type(), std::false_type());
}

template <class S>
void run_rank(const HeadArgs& a, bool fast, cudaStream_t stream) {
    const std::int64_t tiles = a.last_tile - a.first_tile;
    if constexpr (!std::is_same_v<S, StorageF32>)
        if (fast) {
            allow_shared(tiles::rank_kernel<S>, tiles::kLogitShared<S>);
            tiles::rank_kernel<S><<<dim3(grid(tiles), grid(a.padded_batch / kBatchTile)), kThreads,
                                    tiles::kLogitShared<S>, stream>>>(a);
            return check_launch("head, ranking");
        }
    simple::rank_kernel<S>
        <<<dim3(grid(tiles * (kLabelTile / simple::kEdge)), grid(a.padded_batch / simple::kEdge)), kThreads,
           0, stream>>>(a);
    check_launch("head, ranking");
}

}  // namespace elmo::cuda
