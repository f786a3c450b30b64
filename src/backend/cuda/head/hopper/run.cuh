// A chunk of the head's step or of its ranking on Hopper (hopper.cuh): the kernels, launched. Each storage is
// compiled in its own file.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/hopper/compensate.cuh"
#include "backend/cuda/head/hopper/gradient.cuh"
#include "backend/cuda/head/hopper/input.cuh"
#include "backend/cuda/head/hopper/joined.cuh"
#include "backend/cuda/head/hopper/rank.cuh"
#include "backend/cuda/head/hopper/run.h"
#include "backend/cuda/head/hopper/update.cuh"

namespace elmo::cuda::hopper {
namespace {

// `early`: the kernel may start while the previous one ends; it waits where it needs what that one wrote. The
// logits may not where an ordinary kernel just before them writes what they read before they wait:
// tile_starts in the first chunk, rows of W where they are aligned. A kernel sees what the previous one wrote
// only after the wait.
template <class Kernel>
void launch(Kernel* kernel, dim3 grid, int groups, int shared, cudaStream_t stream, const HeadArgs& a,
            const char* what, bool early = true) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), what);
    launch_early(early, kernel, grid, groups * kGroupThreads, static_cast<std::size_t>(shared), stream, what,
                 a);
}

template <class S, int N>
void run_input_gradient(const HeadArgs& a, cudaStream_t stream) {
    launch(input_gradient_kernel<S, N>,
           dim3(static_cast<unsigned>((a.width + N - 1) / N),
                static_cast<unsigned>(a.padded_batch / kBatchTile), static_cast<unsigned>(a.num_slices)),
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

// Blocks of a kernel of which each has `groups` warpgroups with a tile of 64 labels at a time: as many as
// `room`, but none without work.
std::int64_t blocks_with_work(const HeadArgs& a, std::int64_t room, std::int64_t groups) {
    const std::int64_t tiles = (a.last_tile - a.first_tile) * 2;
    return std::clamp<std::int64_t>(room, 1, (tiles + groups - 1) / groups);
}

template <class S, int Texts, int Ahead>
void run_gradient(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    const std::int64_t batches = a.text_blocks * kBlock / Texts;
    const dim3 grid(static_cast<unsigned>(blocks_with_work(a, multiprocessors / batches, kLogitGroups)),
                    static_cast<unsigned>(batches));
    launch(a.losses != nullptr ? gradient_kernel<S, true, Texts, Ahead>
                               : gradient_kernel<S, false, Texts, Ahead>,
           grid, kLogitGroups, logit_shared<S, kLogitGroups, Texts, Ahead>(a.padded_width), stream, a,
           "head, logits", early);
}
template <class S>
void run_gradient(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    const bool many = a.padded_width <= kWidestWithMany;
    if (a.text_blocks == 1)
        return many ? run_gradient<S, kBlock, kManyAhead<S>>(a, multiprocessors, early, stream)
                    : run_gradient<S, kBlock, kFewAhead<S>>(a, multiprocessors, early, stream);
    if constexpr (kCodeProducts<S>)
        if (many) return run_gradient<S, kBatchTile, kManyAhead<S>>(a, multiprocessors, early, stream);
    if (logit_texts<S>(a.padded_width) == kBatchTile)
        return run_gradient<S, kBatchTile, kFewAhead<S>>(a, multiprocessors, early, stream);
    run_gradient<S, kBlock, kFewAhead<S>>(a, multiprocessors, early, stream);
}

template <class S, bool Decays, Noise Kind, Texts How, int Side, bool Compensates>
void run_update(const HeadArgs& a, int multiprocessors, cudaStream_t stream) {
    const std::int64_t columns = a.padded_width / (Side * kUpdateColumns);
    launch(
        update_kernel<S, Decays, Kind, How, Side, Compensates>,
        static_cast<unsigned>(columns * blocks_with_work(a, multiprocessors / columns, kUpdateGroups / Side)),
        kUpdateGroups, update_shared<How, Side>(a.padded_batch), stream, a, "head, update");
}
template <class S, Noise Kind, bool Compensates = false>
void run_update(const HeadArgs& a, int multiprocessors, cudaStream_t stream) {
    const bool decays = a.keep != 1.0f;
    const auto run = [&](auto decays_too, auto how) {
        if constexpr (how.value == Texts::kTwo && sizeof(typename S::Raw) == 1)
            if (a.padded_width % (2 * kUpdateColumns) == 0)
                return run_update<S, decays_too.value, Kind, how.value, 2, Compensates>(a, multiprocessors,
                                                                                        stream);
        run_update<S, decays_too.value, Kind, how.value, 1, Compensates>(a, multiprocessors, stream);
    };
    using Two = std::integral_constant<Texts, Texts::kTwo>;
    using One = std::integral_constant<Texts, Texts::kOne>;
    switch (update_texts(a.text_blocks)) {
        case Texts::kTwo:
            return decays ? run(std::true_type(), Two()) : run(std::false_type(), Two());
        case Texts::kOne:
            return decays ? run(std::true_type(), One()) : run(std::false_type(), One());
        case Texts::kStreamed:  // bound by products: a decay of 1 costs nothing
            return run(std::true_type(), std::integral_constant<Texts, Texts::kStreamed>());
    }
}

template <class S>
void run_compensation(const HeadArgs& a, cudaStream_t stream) {
    const std::int64_t words = (a.last_tile - a.first_tile) * (kLabelTile / 32);
    compensate_kernel<S><<<blocks_for(words, kMarkWarps), kMarkWarps * 32, 0, stream>>>(a);
    check_launch("head, compensated rows");
}

template <class S>
void run(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    run_gradient<S>(a, multiprocessors, early, stream);
    if constexpr (std::is_same_v<S, StorageBf16>)
        if (a.dx_slices != nullptr && joins(a.width, a.padded_batch))
            return with_noise(a.noise, [&](auto kind) {
                launch(a.keep != 1.0f ? joined_kernel<true, kind.value> : joined_kernel<false, kind.value>,
                       static_cast<unsigned>(a.num_slices * (a.width / kJoinedColumns)), kJoinedGroups,
                       kJoinedShared, stream, a, "head, input gradient and update");
            });
    if (a.dx_slices != nullptr) {
        if (input_columns(a.width) == 192)
            run_input_gradient<S, 192>(a, stream);
        else
            run_input_gradient<S, 128>(a, stream);
    }
    if constexpr (sizeof(typename S::Raw) == 1)
        if (a.marks != nullptr) {
            if (kRowCodes<S> || a.noise != NoiseKind::kIndependent)
                run_update<S, Noise::kCommon, true>(a, multiprocessors, stream);
            else if constexpr (!kRowCodes<S>)
                run_update<S, Noise::kOwn, true>(a, multiprocessors, stream);
            return run_compensation<S>(a, stream);
        }
    with_noise(a.noise, [&](auto kind) { run_update<S, kind.value>(a, multiprocessors, stream); });
}

template <class R, int Groups, int Texts, int Ahead>
void run_rank(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    const std::int64_t batches = (a.batch + Texts - 1) / Texts;
    launch(rank_kernel<R, Groups, Texts, Ahead>,
           dim3(static_cast<unsigned>(blocks_with_work(a, multiprocessors / batches, Groups)),
                static_cast<unsigned>(batches)),
           Groups, rank_shared<R, Groups, Texts, Ahead>(a.padded_width), stream, a, "head, ranking", early);
}
// Few texts wait for W, many for products: those have more of W under way, these more texts for each of its
// bytes.
template <class R>
void run_rank(const HeadArgs& a, int multiprocessors, bool early, cudaStream_t stream) {
    constexpr int kFew = 16, kSome = kBatchTile / 2;
    constexpr std::int64_t kWidestWithFour = 1280;  // four units of W beside x of kSome texts
    constexpr int kManyGroups =
        kCodeProducts<R> ? 3 : 4;  // products of codes have sums of 128 columns beside
    if (a.batch <= kFew)
        run_rank<R, 3, kFew, 8>(a, multiprocessors, early, stream);
    else if (a.batch > kSome && logit_texts<R>(a.padded_width) == kBatchTile)
        run_rank<R, kManyGroups, kBatchTile, kFewAhead<R>>(a, multiprocessors, early, stream);
    else if (a.padded_width <= kWidestWithFour)
        run_rank<R, 4, kSome, 4>(a, multiprocessors, early, stream);
    else
        run_rank<R, 4, kSome, kFewAhead<R>>(a, multiprocessors, early, stream);
}

}  // namespace
}  // namespace elmo::cuda::hopper
