// g of the head on Hopper (hopper.cuh), from its logits.
#pragma once

#include "backend/cuda/head/hopper/logits.cuh"

namespace elmo::cuda::hopper {

// Units of W under way: as many as x leaves room for, but no more than memory's latency asks for.
template <class S>
constexpr int kFewAhead = kCodeProducts<S> ? 4 : 2;
template <class S>
constexpr int kManyAhead = kCodeProducts<S> ? 8 : 6;
constexpr std::int64_t kWidestWithMany = 1024;  // codes of x, or x of 64 texts, beside them

// Writes the thread's part of a tile of g as BF16, of so many texts. `gradient(i)`: of its sum i. Neighbours
// exchange, so that each has four texts of one of two pieces of 16 bytes.
template <int Texts, class Gradient>
__device__ __forceinline__ void store_gradients(char* out, const Thread& at, const Gradient& gradient) {
    const bool odd = at.q % 2 != 0;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int j = 0; j < Texts / 8; j += 2) {
            const std::uint32_t first = pack2(gradient(4 * j + 2 * h), gradient(4 * j + 2 * h + 1));
            const std::uint32_t second = pack2(gradient(4 * j + 4 + 2 * h), gradient(4 * j + 4 + 2 * h + 1));
            const std::uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
            *reinterpret_cast<uint2*>(out + j / 8 * kGradientBytes + 8 * h * 128 +
                                      (((j % 8 + odd) ^ at.g) << 4)) =
                odd ? make_uint2(other, second) : make_uint2(first, other);
        }
}

// g of the chunk's labels, and parts of the loss, of 128 texts or, of wide x and few texts, 64. Grid:
// (blocks, batch tiles).
template <class S, bool WantLoss, int Texts, int Ahead>
__global__ void __launch_bounds__(kLogitGroups* kGroupThreads, 1) gradient_kernel(HeadArgs a) {
#ifdef ELMO_HOPPER
    extern __shared__ unsigned char shared[];
    const Thread at;
    const std::int64_t batch_tile = blockIdx.y;
    const std::int64_t first = a.first_tile * 2, last = a.last_tile * 2;
    let_next_begin();
    Logits<S, kLogitGroups, Texts, Ahead> logits(a, at, shared);
    logits.bring_texts(a, batch_tile * Texts);
    const int valid_texts = static_cast<int>(min(a.batch - batch_tile * Texts, std::int64_t{Texts}));
    char* const to = reinterpret_cast<char*>(a.g_CB) + batch_tile * (Texts / kBlock) * kGradientBytes +
                     (at.warp * 16 + at.g) * 128 + at.q / 2 * 8;
    bool waited = false;
    while (logits.tile < last) {
        const std::int64_t tile = logits.tile;
        const std::int32_t first_positive = a.tile_starts[tile / 2],
                           last_positive = a.tile_starts[tile / 2 + 1];
        Sums<Texts> z;
        logits.multiply_tile(z);
        const std::int64_t label = tile * kRows + at.warp * 16 + at.g;  // of h = 0
        const std::uint8_t exponent[2] = {stored_exponent<S>(a, label), stored_exponent<S>(a, label + 8)};
        // Which of the thread's sums belong to positives.
        std::uint32_t positive[2] = {0, 0};
        float weight[2] = {1, 1};  // of the positives of the thread's two labels
        for (std::int32_t i = first_positive; i < last_positive; ++i) {
            const auto row = static_cast<int>(a.positive_labels[i] - tile * kRows);
            const auto text = static_cast<int>(a.positive_samples[i] - batch_tile * Texts);
            if (row < 0 || row >= kRows || text < 0 || text >= Texts) continue;
            if (row / 16 != at.warp || row % 8 != at.g || text % 8 / 2 != at.q) continue;
            const std::uint32_t bit = 1u << (text / 8 % 8 * 4 + row / 8 % 2 * 2 + text % 2);
            if (text < 64)
                positive[0] |= bit;
            else
                positive[1] |= bit;
            if (a.positive_weights == nullptr) continue;
            if (row % 16 < 8)
                weight[0] = a.positive_weights[i];
            else
                weight[1] = a.positive_weights[i];
        }
        const auto valid_rows = static_cast<int>(min(a.labels - tile * kRows, std::int64_t{kRows}));
        const bool plain = valid_rows == kRows && valid_texts == Texts &&
                           !__any_sync(0xffffffffu, (positive[0] | positive[1]) != 0);
        wait_products<0>();
        if (!waited) wait_for_previous();  // which may still read g
        waited = true;
        float loss = 0;
        char* const out = to + (tile - first) * a.text_blocks * kGradientBytes;
        // What logits and gradients of the thread's two labels are multiplied by.
        float factor[2] = {1, 1};
        if constexpr (kRowCodes<S>)
            for (int h = 0; h < 2; ++h) factor[h] = power_of_two(power_of_row(a, exponent[h]));
        const float to_power[2] = {kToPower * factor[0], kToPower * factor[1]};
        if (plain) {
            store_gradients<Texts>(out, at, [&](int i) {
                if constexpr (WantLoss) loss += logit_loss(z[i] * factor[i / 2 % 2], false);
                return logit_gradient(z[i], false, to_power[i / 2 % 2]) * factor[i / 2 % 2];
            });
        } else {
            store_gradients<Texts>(out, at, [&](int i) {
                const bool is_positive = (positive[i / 32] >> (i % 32) & 1u) != 0;
                const bool is_real = at.warp * 16 + i / 2 % 2 * 8 + at.g < valid_rows &&
                                     i / 4 * 8 + 2 * at.q + i % 2 < valid_texts;
                const float scale = is_positive ? weight[i / 2 % 2] : 1.0f;
                if (WantLoss && is_real) loss += scale * logit_loss(z[i] * factor[i / 2 % 2], is_positive);
                return is_real ? scale * logit_gradient(z[i], is_positive, to_power[i / 2 % 2]) *
                                     factor[i / 2 % 2]
                               : 0.0f;
            });
        }
        if constexpr (WantLoss) {
            loss = warp_sum(loss);
            if (at.lane == 0) a.losses[(tile * gridDim.y + batch_tile) * 4 + at.warp] = loss;
        }
    }
#else
    __trap();  // the host asks has_code() first
#endif
}

}  // namespace elmo::cuda::hopper
