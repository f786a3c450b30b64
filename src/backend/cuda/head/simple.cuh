// The head's three products without tensor cores: for FP32 weights, whose products are FP32, and for widths
// that the tiles of tiles.cuh do not cover. One kernel body; what is multiplied and where it goes are
// functors.
#pragma once

#include "backend/cuda/head/extras.cuh"
#include "backend/cuda/head/storage.cuh"
#include "backend/cuda/linear/plain_product.cuh"

namespace elmo::cuda::simple {

using plain::for_each, plain::product, plain::kEdge;

__device__ __forceinline__ float gradient_at(const HeadArgs& a, std::int64_t chunk_row, std::int64_t sample) {
    return __uint_as_float(static_cast<std::uint32_t>(a.g_CB[chunk_row * a.padded_batch + sample]) << 16);
}

// z of 64 labels and 64 texts. Grid: (halves of the chunk's tiles, halves of the batch tiles).
template <class S, bool Drop = false>
__device__ __forceinline__ void logits(const HeadArgs& a, std::int64_t label0, std::int64_t sample0,
                                       float (&acc)[4][4]) {
    const auto* w = static_cast<const typename S::Raw*>(a.w_LD);
    const auto* x = static_cast<const float*>(a.x_logit);
    product(
        label0, sample0, a.width,
        [&](std::int64_t l, std::int64_t d) {
            return l < a.labels ? seen_weight<S, Drop>(a, w, l, d) : 0.0f;
        },
        [&](std::int64_t d, std::int64_t b) { return b < a.batch ? x[b * a.width + d] : 0.0f; }, acc);
}

template <class S, bool WantLoss, bool Drop>
__global__ void gradient_kernel(HeadArgs a) {
    const std::int64_t label0 = a.first_tile * kLabelTile + static_cast<std::int64_t>(blockIdx.x) * kEdge;
    const std::int64_t sample0 = static_cast<std::int64_t>(blockIdx.y) * kEdge;
    const std::int64_t tile = label0 / kLabelTile;
    __shared__ float losses[kThreads / 32];
    __shared__ std::uint32_t mask[kEdge][2];
    __shared__ float weights[kEdge];  // of the labels' positives
    if (threadIdx.x < kEdge * 2) mask[threadIdx.x / 2][threadIdx.x % 2] = 0;
    if (threadIdx.x < kEdge) weights[threadIdx.x] = 1;
    float acc[4][4] = {};
    logits<S, Drop>(a, label0, sample0, acc);
    __syncthreads();  // the mask is clear
    for (std::int32_t i = a.tile_starts[tile] + static_cast<std::int32_t>(threadIdx.x);
         i < a.tile_starts[tile + 1]; i += kThreads) {
        const std::int64_t row = a.positive_labels[i] - label0, sample = a.positive_samples[i] - sample0;
        if (row < 0 || row >= kEdge || sample < 0 || sample >= kEdge) continue;
        atomicOr(&mask[row][sample / 32], 1u << (sample % 32));
        if (a.positive_weights != nullptr)
            weights[row] = a.positive_weights[i];  // all of a row write the same
    }
    __syncthreads();  // the mask is set
    float loss = 0;
    for_each(label0, sample0, acc, [&](float z, std::int64_t label, std::int64_t sample) {
        const bool positive = mask[label - label0][(sample - sample0) / 32] >> ((sample - sample0) % 32) & 1;
        const bool real = label < a.labels && sample < a.batch;
        const float weight = positive ? weights[label - label0] : 1.0f;
        const float g = real ? weight * logit_gradient(z, positive) : 0.0f;
        if (WantLoss && real) loss += weight * logit_loss(z, positive);
        a.g_CB[(label - a.first_tile * kLabelTile) * a.padded_batch + sample] =
            __bfloat16_as_ushort(__float2bfloat16_rn(g));
    });
    if constexpr (WantLoss) {
        const float sum = warp_sum(loss);
        if (threadIdx.x % 32 == 0) losses[threadIdx.x / 32] = sum;
        __syncthreads();  // all warps' losses are in shared memory
        if (threadIdx.x == 0) {
            double total = 0;
            for (const float part : losses) total += part;
            a.losses[label0 / kEdge * gridDim.y + blockIdx.y] = total;
        }
    }
}

template <class S>
__global__ void rank_kernel(HeadArgs a) {
    const std::int64_t label0 = a.first_tile * kLabelTile + static_cast<std::int64_t>(blockIdx.x) * kEdge;
    const std::int64_t sample0 = static_cast<std::int64_t>(blockIdx.y) * kEdge;
    float acc[4][4] = {};
    logits<S>(a, label0, sample0, acc);
    for_each(label0, sample0, acc, [&](float z, std::int64_t label, std::int64_t sample) {
        if (label < a.labels && sample < a.batch) offer(a, sample, label, z, a.thresholds[sample]);
    });
}

// Grid: (column tiles, batch tiles of 64, slices).
template <class S, bool Drop>
__global__ void input_gradient_kernel(HeadArgs a) {
    const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.x) * kEdge;
    const std::int64_t sample0 = static_cast<std::int64_t>(blockIdx.y) * kEdge, slice = blockIdx.z;
    const std::int64_t begin =
        a.first_tile + (slice - a.first_tile % a.num_slices + a.num_slices) % a.num_slices;
    if (begin >= a.last_tile) return;
    const std::int64_t depth = ((a.last_tile - 1 - begin) / a.num_slices + 1) * kLabelTile;
    // The k-th label of this slice in this chunk.
    const auto label_of = [&](std::int64_t k) {
        return (begin + k / kLabelTile * a.num_slices) * kLabelTile + k % kLabelTile;
    };
    const auto* w = static_cast<const typename S::Raw*>(a.w_LD);
    float* out = a.dx_slices + slice * a.batch * a.width;
    float acc[4][4] = {};
    if (begin >= a.num_slices)
        for_each(sample0, column0, acc, [&](float& x, std::int64_t b, std::int64_t d) {
            if (b < a.batch && d < a.width) x = out[b * a.width + d];
        });
    product(
        sample0, column0, depth,
        [&](std::int64_t b, std::int64_t k) {
            return b < a.padded_batch ? gradient_at(a, label_of(k) - a.first_tile * kLabelTile, b) : 0.0f;
        },
        [&](std::int64_t k, std::int64_t d) {
            const std::int64_t label = label_of(k);
            return label < a.labels && d < a.width ? seen_weight<S, Drop>(a, w, label, d) : 0.0f;
        },
        acc);
    for_each(sample0, column0, acc, [&](float x, std::int64_t b, std::int64_t d) {
        if (b < a.batch && d < a.width) out[b * a.width + d] = x;
    });
}

// Grid: halves of the chunk's tiles x column tiles, columns first.
template <class S, bool Extras>
__global__ void update_kernel(HeadArgs a) {
    const std::int64_t columns = (a.width + kEdge - 1) / kEdge, column0 = blockIdx.x % columns * kEdge;
    const std::int64_t label0 = a.first_tile * kLabelTile + blockIdx.x / columns * kEdge;
    const auto* x = static_cast<const float*>(a.x_update);
    auto* w = static_cast<typename S::Raw*>(a.w_LD);
    float acc[4][4] = {};
    product(
        label0, column0, a.batch,
        [&](std::int64_t l, std::int64_t b) { return gradient_at(a, l - a.first_tile * kLabelTile, b); },
        [&](std::int64_t b, std::int64_t d) { return d < a.width ? x[b * a.width + d] : 0.0f; }, acc);
    std::uint32_t saturated = 0;
    for_each(label0, column0, acc, [&](float u, std::int64_t label, std::int64_t d) {
        if (label >= a.labels || d >= a.width) return;
        const std::int64_t i = label * a.width + d;
        if constexpr (Extras) {
            float sum[1] = {u};
            drop<1>(a.weight_dropout, a.first_label + label, d, sum);
            u = sum[0];
            if constexpr (kCompensates<S>)
                if (bf16* c = compensation_of(a, label)) {
                    float v[1] = {load_weight<S>(a, w, i, label)}, rest[1] = {load_float(c, d)};
                    compensate<S, 1>(a, label, sum, v, rest, saturated);
                    c[d] = __float2bfloat16_rn(rest[0]);
                    return store_exact<S>(a, w, i, v[0], label);
                }
        }
        store_weight<S>(a, w, i, load_weight<S>(a, w, i, label) * a.keep - a.lr * u, label, d, saturated);
    });
    const unsigned total = __reduce_add_sync(0xffffffffu, saturated);
    if (threadIdx.x % 32 == 0 && total > 0)
        atomicAdd(&a.report->saturations, static_cast<unsigned long long>(total));
}

}  // namespace elmo::cuda::simple
