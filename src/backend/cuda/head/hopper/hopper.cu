#include "backend/cuda/head/hopper/hopper.h"

#include <algorithm>
#include <memory>

#include "backend/cuda/device/check.h"
#include "backend/cuda/head/hopper/gradient.cuh"
#include "backend/cuda/head/hopper/input.cuh"
#include "backend/cuda/head/hopper/joined.cuh"
#include "backend/cuda/head/hopper/update.cuh"
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

// `early`: the kernel may start while the previous one ends. The logits of the first chunk may not: they read
// tile_starts before they wait, and the ordinary kernel just before them writes it. A kernel sees what the
// previous one wrote only after the wait.
template <class Kernel>
void launch(Kernel* kernel, dim3 grid, int groups, int shared, cudaStream_t stream, const HeadArgs& a,
            const char* what, bool early = true) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), what);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(groups * kGroupThreads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    check(cudaLaunchKernelEx(&config, kernel, a), what);
}

template <class S, int N>
void run_input_gradient(const HeadArgs& a, cudaStream_t stream) {
    launch(input_gradient_kernel<S, N>,
           dim3(static_cast<unsigned>(a.width / N), static_cast<unsigned>(a.padded_batch / kBatchTile),
                static_cast<unsigned>(a.num_slices)),
           kInputGroups, kInputShared<S, N>, stream, a, "head, input gradient");
}

// body(the kind as a constant)
template <class Body>
void with_noise(NoiseKind kind, const Body& body) {
    switch (kind) {
        case NoiseKind::kSteps:
            return body(std::integral_constant<Noise, Noise::kMoved>());
        case NoiseKind::kSharedSteps:
            return body(std::integral_constant<Noise, Noise::kCommon>());
        default:
            return body(std::integral_constant<Noise, Noise::kOwn>());
    }
}

template <class S>
void run(const HeadArgs& a, int multiprocessors, cudaStream_t stream) {
    const std::int64_t batches = a.padded_batch / kBatchTile, tiles = (a.last_tile - a.first_tile) * 2;
    // Blocks that have work.
    const auto most = [&](std::int64_t groups) { return (tiles + groups - 1) / groups; };
    const dim3 logit_grid(
        static_cast<unsigned>(std::clamp<std::int64_t>(multiprocessors / batches, 1, most(kLogitGroups))),
        static_cast<unsigned>(batches));
    const bool first = a.first_tile == 0;
    launch(a.losses != nullptr ? gradient_kernel<S, true> : gradient_kernel<S, false>, logit_grid,
           kLogitGroups, logit_shared(a.width), stream, a, "head, logits", !first);
    const bool decays = a.keep != 1.0f;
    if constexpr (std::is_same_v<S, StorageBf16>)
        if (a.dx_slices != nullptr && joins(a.width, a.padded_batch))
            return with_noise(a.noise, [&](auto kind) {
                launch(decays ? joined_kernel<true, kind.value> : joined_kernel<false, kind.value>,
                       static_cast<unsigned>(a.num_slices * (a.width / kJoinedColumns)), kJoinedGroups,
                       kJoinedShared, stream, a, "head, input gradient and update");
            });
    if (a.dx_slices != nullptr) {
        if (a.width % 192 == 0)
            run_input_gradient<S, 192>(a, stream);
        else
            run_input_gradient<S, 128>(a, stream);
    }
    const std::int64_t columns = a.width / kUpdateColumns;
    const auto update = [&](auto* two_blocks, auto* one_block) {
        launch(update_blocks(a.padded_batch) == 2 ? two_blocks : one_block,
               static_cast<unsigned>(
                   columns * std::clamp<std::int64_t>(multiprocessors / columns, 1, most(kUpdateGroups))),
               kUpdateGroups, update_shared(a.padded_batch), stream, a, "head, update");
    };
    if constexpr (sizeof(typename S::Raw) == 1)
        if (a.marks != nullptr) {
            constexpr Noise kKind = kRowCodes<S> ? Noise::kCommon : Noise::kOwn;
            if (decays)
                return update(update_kernel<S, true, kKind, 2, true>, update_kernel<S, true, kKind, 1, true>);
            return update(update_kernel<S, false, kKind, 2, true>, update_kernel<S, false, kKind, 1, true>);
        }
    with_noise(a.noise, [&](auto kind) {
        constexpr Noise kKind = kind.value;
        if (decays)
            update(update_kernel<S, true, kKind, 2>, update_kernel<S, true, kKind, 1>);
        else
            update(update_kernel<S, false, kKind, 2>, update_kernel<S, false, kKind, 1>);
    });
}

}  // namespace

bool takes(const HeadStep& op, std::int64_t padded_batch) {
    const DType storage = op.w_LD.dtype;
    const bool known = storage == DType::kU8
                           ? op.grid == kE2M5Grid
                           : !op.grid.used() && (storage == DType::kBf16 || storage == DType::kE4M3 ||
                                                 storage == DType::kE3M4);
    const NoiseKind usual = storage == DType::kU8 ? NoiseKind::kSharedSteps : NoiseKind::kIndependent;
    const bool rounds = op.compensates() ? storage != DType::kBf16 && op.noise == usual
                                         : op.noise == NoiseKind::kIndependent || moves_by_step(op.noise);
    return known && rounds && !op.drops_weights() && op.x_BD.dtype == DType::kBf16 &&
           fits(op.w_LD.cols, padded_batch);
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

void stage(const View& x, DType storage, HeadArgs& a, cudaStream_t stream) {
    stage_kernel<<<blocks_for(a.padded_batch * a.width, kThreads), kThreads, 0, stream>>>(
        static_cast<const bf16*>(x.data), a.batch, a.padded_batch, a.width, storage == DType::kE4M3,
        size_of(storage) == 1, static_cast<bf16*>(const_cast<void*>(a.x_update)),
        static_cast<bf16*>(const_cast<void*>(a.x_logit)));
    check_launch("head, staging");
}

void run_chunk(const HeadArgs& args, DType storage, int multiprocessors, cudaStream_t stream) {
    HeadArgs a = args;
    if (moves_by_step(a.noise)) {  // as rounding_block draws it
        a.noise_move = golden_move(a.rounding.step) << 16;
        a.rounding.step = 0;
    }
    switch (storage) {
        case DType::kBf16:
            return run<StorageBf16>(a, multiprocessors, stream);
        case DType::kE4M3:
            return run<StorageE4M3>(a, multiprocessors, stream);
        case DType::kE3M4:
            return run<StorageE3M4>(a, multiprocessors, stream);
        case DType::kU8:
            return run<StorageRowE2M5>(a, multiprocessors, stream);
        default:
            throw DeviceError("head: Hopper's products take bf16, e4m3, e3m4 and e2m5 weights");
    }
}

}  // namespace elmo::cuda::hopper
