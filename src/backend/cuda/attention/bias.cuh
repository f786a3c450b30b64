// The bias of attention: as the kernels of scores read it, and its gradient. A gradient is summed in one
// order: the lanes of a warp have sums of their own, and blocks write theirs, which are added in order.
#pragma once

#include "backend/cuda/attention/simple.cuh"

namespace elmo::cuda {

inline constexpr int kBiasSlices = 64;  // text t belongs to slice t % kBiasSlices
inline constexpr int kBiasWarps = 4;    // of a block, which serves a slice and a head

// table [H, kBiasColumns] from bias [kRelativeBuckets, H].
template <class T>
__global__ void spread_bias(const T* bias, int heads, float scale, float* table) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= heads * kBiasColumns) return;
    const std::int64_t bucket = relative_bucket(i % kBiasColumns - kBiasReach);
    table[i] = load_float(bias, bucket * heads + i / kBiasColumns) / scale;
}

// sums [kBiasSlices, H, kRelativeBuckets]: what the scores of a slice's texts send back. delta is there.
template <class T>
__global__ void __launch_bounds__(32 * kBiasWarps) bias_gradient(const SimpleArgs<T> args, float* sums) {
    __shared__ float own[kBiasWarps][kRelativeBuckets][32];  // by lane
    const AttentionShape& shape = args.shape;
    const int head = static_cast<int>(blockIdx.x) % shape.heads;
    const int slice = static_cast<int>(blockIdx.x) / shape.heads;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t stride = 3 * shape.width, first = head * args.size;
    const T* keys = args.qkv + shape.width + first;
    const T* values = keys + shape.width;
    for (int r = 0; r < kRelativeBuckets; ++r) own[warp][r][lane] = 0;
    for (std::int64_t text = slice; text < args.num_texts; text += kBiasSlices) {
        const std::int64_t begin = shape.offsets[text], end = shape.offsets[text + 1];
        for (std::int64_t query = begin + warp; query < end; query += kBiasWarps) {
            const std::int64_t row = query * shape.heads + head;
            const T* q = args.qkv + query * stride + first;
            const T* dcontext = args.dcontext + query * shape.width + first;
            const float lse = args.lse[row], delta = args.delta[row];
            for (std::int64_t key = begin + lane; key < end; key += 32) {
                const float score = score_of(shape, q, keys + key * stride, args.size, head, key - query);
                const float dweight = as_operand<T>(dot_of(dcontext, values + key * stride, args.size)) *
                                      kept_factor(shape.dropout, row, key - begin);
                own[warp][relative_bucket(key - query)][lane] += expf(score - lse) * (dweight - delta);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x >= kRelativeBuckets) return;
    float sum = 0;
    for (int w = 0; w < kBiasWarps; ++w)
        for (int l = 0; l < 32; ++l) sum += own[w][threadIdx.x][l];
    sums[blockIdx.x * kRelativeBuckets + threadIdx.x] = sum;
}

// dbias [kRelativeBuckets, H] += the slices' sums.
static __global__ void add_bias_slices(const float* sums, int heads, float* dbias) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= heads * kRelativeBuckets) return;
    const int bucket = i / heads, head = i % heads;
    float sum = 0;
    for (int slice = 0; slice < kBiasSlices; ++slice)
        sum += sums[(slice * heads + head) * kRelativeBuckets + bucket];
    dbias[i] += sum;
}

}  // namespace elmo::cuda
