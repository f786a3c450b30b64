// Residual, dropout and LayerNorm. A warp takes a row; its sum lies in shared memory as floats, each lane
// reading back only what it wrote, so that the passes (mean, variance, result) touch device memory once.
#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/launch.cuh"

namespace elmo::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 48 << 10;

// Warps of a block: four where their rows fit in shared memory.
int warps_for(std::int64_t floats_a_warp) {
    const std::int64_t warps = kSharedBytes / std::max<std::int64_t>(floats_a_warp * 4, 1);
    return static_cast<int>(std::clamp<std::int64_t>(warps, 1, 4));
}

// body(column) for the lane's columns.
template <int V, class Body>
__device__ __forceinline__ void for_columns(int lane, std::int64_t cols, const Body& body) {
    for (std::int64_t c = lane * V; c < cols; c += 32 * V) body(c);
}

template <int V, class T>
__global__ void norm_forward_kernel(const T* a, const T* residual, DropoutArgs dropout, const T* gamma,
                                    const T* beta, float epsilon, T* sum, T* y, float* stats,
                                    std::int64_t rows, std::int64_t cols) {
    extern __shared__ float shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float* row_sum = shared + warp * ((cols + 7) / 8 * 8);
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
    if (row >= rows) return;  // whole warps; nothing below meets at a block barrier
    float total = 0;
    for_columns<V>(lane, cols, [&](std::int64_t c) {
        float v[V];
        load_some<V>(a + row * cols + c, v);
        drop<V>(dropout, row, c, v);
        if (residual != nullptr) {
            float r[V];
            load_some<V>(residual + row * cols + c, r);
#pragma unroll
            for (int j = 0; j < V; ++j) v[j] += r[j];
        }
        // The norm sees the sum as stored.
        T stored[V];
#pragma unroll
        for (int j = 0; j < V; ++j) {
            store_float(stored, j, v[j]);
            v[j] = load_float(stored, j);
            row_sum[c + j] = v[j];
            total += v[j];
        }
        store_some<V>(sum + row * cols + c, v);
    });
    const float mean = warp_sum(total) / static_cast<float>(cols);
    float squares = 0;
    for_columns<V>(lane, cols, [&](std::int64_t c) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            const float centred = row_sum[c + j] - mean;
            squares += centred * centred;
        }
    });
    const float inverse = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(cols) + epsilon);
    for_columns<V>(lane, cols, [&](std::int64_t c) {
        float g[V], b[V], v[V];
        load_some<V>(gamma + c, g);
        load_some<V>(beta + c, b);
#pragma unroll
        for (int j = 0; j < V; ++j) v[j] = (row_sum[c + j] - mean) * inverse * g[j] + b[j];
        store_some<V>(y + row * cols + c, v);
    });
    if (lane == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = inverse;
    }
}

// dsum and da of the rows of this block, and its partial sums of dgamma and dbeta ([2, cols] a block). Rows
// blockIdx * warps + warp + i * gridDim * warps: the order depends on the shape alone.
template <int V, class T>
__global__ void norm_backward_kernel(const T* dy, const T* sum, const float* stats, const T* gamma,
                                     DropoutArgs dropout, T* dsum, T* da, float* partials, std::int64_t rows,
                                     std::int64_t cols) {
    extern __shared__ float shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const std::int64_t padded = (cols + 7) / 8 * 8;
    float* dgamma = shared + warp * 2 * padded;  // of this warp
    float* dbeta = dgamma + padded;
    for_columns<V>(lane, cols, [&](std::int64_t c) {
#pragma unroll
        for (int j = 0; j < V; ++j) dgamma[c + j] = dbeta[c + j] = 0;
    });
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + warp; row < rows;
         row += static_cast<std::int64_t>(gridDim.x) * warps) {
        const float mean = stats[2 * row], inverse = stats[2 * row + 1];
        float sum_d = 0, sum_dn = 0;
        for_columns<V>(lane, cols, [&](std::int64_t c) {
            float d[V], s[V], g[V];
            load_some<V>(dy + row * cols + c, d);
            load_some<V>(sum + row * cols + c, s);
            load_some<V>(gamma + c, g);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                const float normal = (s[j] - mean) * inverse, dnormal = d[j] * g[j];
                sum_d += dnormal;
                sum_dn += dnormal * normal;
                dgamma[c + j] += d[j] * normal;
                dbeta[c + j] += d[j];
            }
        });
        const float mean_d = warp_sum(sum_d) / static_cast<float>(cols);
        const float mean_dn = warp_sum(sum_dn) / static_cast<float>(cols);
        for_columns<V>(lane, cols, [&](std::int64_t c) {
            float d[V], s[V], g[V];
            load_some<V>(dy + row * cols + c, d);
            load_some<V>(sum + row * cols + c, s);
            load_some<V>(gamma + c, g);
#pragma unroll
            for (int j = 0; j < V; ++j)
                d[j] = (d[j] * g[j] - mean_d - (s[j] - mean) * inverse * mean_dn) * inverse;
            store_some<V>(dsum + row * cols + c, d);  // after the reads: dy may be dsum
            if (da == nullptr) return;
            drop<V>(dropout, row, c, d);
            store_some<V>(da + row * cols + c, d);
        });
    }
    __syncthreads();  // all warps' sums are in shared memory
    for (std::int64_t c = threadIdx.x; c < 2 * cols; c += blockDim.x) {
        const std::int64_t place = c < cols ? c : padded + c - cols;
        float total = 0;
        for (int w = 0; w < warps; ++w) total += shared[w * 2 * padded + place];
        partials[blockIdx.x * 2 * cols + c] = total;
    }
}

}  // namespace

void CudaBackend::residual_norm_forward(const ResidualNormForward& op) {
    const std::int64_t rows = op.a_TD.rows, cols = op.a_TD.cols;
    if (rows == 0) return;
    with_type(op.a_TD, [&](auto* a) {
        using T = std::remove_pointer_t<decltype(a)>;
        with_width(cols, [&](auto width) {
            const std::int64_t floats = (cols + 7) / 8 * 8;
            const int warps = warps_for(floats);
            norm_forward_kernel<width()>
                <<<blocks_for(rows, warps), 32 * warps, warps * floats * 4, stream_>>>(
                    static_cast<const T*>(a),
                    op.residual_TD.empty() ? nullptr : static_cast<const T*>(op.residual_TD.data),
                    dropout_args(op.dropout), static_cast<const T*>(op.gamma_1D.data),
                    static_cast<const T*>(op.beta_1D.data), op.epsilon, static_cast<T*>(op.sum_TD.data),
                    static_cast<T*>(op.y_TD.data), op.stats_T2.as<float>(), rows, cols);
        });
    });
    check_launch("residual norm forward");
}

void CudaBackend::residual_norm_backward(const ResidualNormBackward& op) {
    const std::int64_t rows = op.dy_TD.rows, cols = op.dy_TD.cols;
    float* partials = column_partials_.as<float>();
    std::int64_t blocks = 0;
    if (rows > 0)
        with_type(op.dy_TD, [&](auto* dy) {
            using T = std::remove_pointer_t<decltype(dy)>;
            with_width(cols, [&](auto width) {
                const std::int64_t floats = 2 * ((cols + 7) / 8 * 8);
                const int warps = warps_for(floats);
                blocks = std::min<std::int64_t>((rows + warps - 1) / warps, kColumnPartials);
                norm_backward_kernel<width()>
                    <<<static_cast<unsigned>(blocks), 32 * warps, warps * floats * 4, stream_>>>(
                        static_cast<const T*>(dy), static_cast<const T*>(op.sum_TD.data),
                        op.stats_T2.as<float>(), static_cast<const T*>(op.gamma_1D.data),
                        dropout_args(op.dropout), static_cast<T*>(op.dsum_TD.data),
                        op.da_TD.empty() ? nullptr : static_cast<T*>(op.da_TD.data), partials, rows, cols);
            });
        });
    check_launch("residual norm backward");
    add_partials(partials, blocks, 2 * cols, op.dgamma_1D, op.accumulate, stream_);
    add_partials(partials + cols, blocks, 2 * cols, op.dbeta_1D, op.accumulate, stream_);
}

}  // namespace elmo::cuda
