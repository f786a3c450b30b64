// Ranking on Hopper (hopper.cuh): logits that may be among a text's best become its candidates.
#pragma once

#include <limits>

#include "backend/cuda/head/hopper/logits.cuh"

namespace elmo::cuda::hopper {

template <class S, int Groups, int Texts, int Ahead>
constexpr int rank_shared(std::int64_t padded_width) {
    return logit_shared<S, Groups, Texts, Ahead>(padded_width) + Texts * 12;  // a threshold, and its score
}

// Offers the logits of the chunk's labels. Grid: (blocks, tiles of so many texts).
template <class S, int Groups, int Texts, int Ahead>
__global__ void __launch_bounds__(Groups* kGroupThreads, 1) rank_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    extern __shared__ unsigned char shared[];
    const Thread at;
    const std::int64_t first_text = static_cast<std::int64_t>(blockIdx.y) * Texts;
    let_next_begin();
    Logits<S, Groups, Texts, Ahead> logits(a, at, shared);
    auto* const thresholds =
        reinterpret_cast<std::uint64_t*>(shared + (logits.rest - shared_address(shared)));
    auto* const least = reinterpret_cast<float*>(thresholds + Texts);
    wait_for_previous();  // which stages x or raises thresholds
    for (int i = threadIdx.x; i < Texts; i += blockDim.x) {
        const bool is_text = first_text + i < a.batch;
        thresholds[i] = is_text ? a.thresholds[first_text + i] : 0;
        least[i] = is_text ? least_score(thresholds[i]) : std::numeric_limits<float>::infinity();
    }
    logits.bring_texts(a, first_text);  // and thresholds are in shared memory
    const std::int64_t last = a.last_tile * 2;
    while (logits.tile < last) {
        const std::int64_t label = logits.tile * kRows + at.warp * 16 + at.g;  // of h = 0
        const std::uint8_t exponent[2] = {stored_exponent<S>(a, label), stored_exponent<S>(a, label + 8)};
        Sums<Texts> z;
        logits.multiply_tile(z);
        wait_products<0>();
        float factor[2] = {1, 1};
        if constexpr (kRowCodes<S>)
            for (int h = 0; h < 2; ++h) factor[h] = power_of_two(power_of_row(a, exponent[h]));
        // Whether the thread's score i of eight texts may be above its text's threshold, or is NaN.
        const auto may_pass = [&](int j, int i) {
            return !(z[4 * j + i] * factor[i / 2] < least[8 * j + 2 * at.q + i % 2]);
        };
        bool any = false;  // the usual case first, without branches
#pragma unroll
        for (int j = 0; j < Texts / 8; ++j)
            any |= may_pass(j, 0) | may_pass(j, 1) | may_pass(j, 2) | may_pass(j, 3);
        if (!__any_sync(0xffffffffu, any)) continue;
        if constexpr (kRowCodes<S>)  // the compiler must not keep the scores from before
            asm volatile("" : "+f"(factor[0]), "+f"(factor[1]));
#pragma unroll
        for (int j = 0; j < Texts / 8; ++j) {
            const unsigned passing =
                may_pass(j, 0) | may_pass(j, 1) << 1 | may_pass(j, 2) << 2 | may_pass(j, 3) << 3;
#pragma unroll 1
            for (unsigned rest = passing; rest != 0; rest &= rest - 1) {
                const int i = __ffs(static_cast<int>(rest)) - 1, text = 8 * j + 2 * at.q + i % 2;
                const float sum = i < 2    ? (i == 0 ? z[4 * j] : z[4 * j + 1])
                                  : i == 2 ? z[4 * j + 2]
                                           : z[4 * j + 3];
                const std::int64_t row = label + i / 2 * 8;
                if (row < a.labels && first_text + text < a.batch)
                    offer(a, first_text + text, row, sum * (i < 2 ? factor[0] : factor[1]), thresholds[text]);
            }
        }
    }
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
