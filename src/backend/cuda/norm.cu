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

// The same for widths up to 256 Groups that are multiples of 8: a row lies in registers between the passes,
// and so do the lane's sums of dgamma and dbeta. Eight warps.
template <int Groups, class T>
__global__ void __launch_bounds__(256)
    norm_backward_in_registers_kernel(const T* dy, const T* sum, const float* stats, const T* gamma,
                                      DropoutArgs dropout, T* dsum, T* da, float* partials, std::int64_t rows,
                                      std::int64_t cols) {
    __shared__ float sums[8][256];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float dgamma[Groups][8] = {}, dbeta[Groups][8] = {};
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * 8 + warp; row < rows;
         row += static_cast<std::int64_t>(gridDim.x) * 8) {
        const float mean = stats[2 * row], inverse = stats[2 * row + 1];
        float d[Groups][8], normal[Groups][8];
#pragma unroll
        for (int g = 0; g < Groups; ++g) {  // all loads first
            const std::int64_t c = 256 * g + 8 * lane;
            if (c >= cols) continue;
            load8(dy + row * cols + c, d[g]);
            load8(sum + row * cols + c, normal[g]);
        }
        float sum_d = 0, sum_dn = 0;
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            const std::int64_t c = 256 * g + 8 * lane;
            if (c >= cols) continue;
            float scale[8];
            load8(gamma + c, scale);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                normal[g][j] = (normal[g][j] - mean) * inverse;
                dgamma[g][j] += d[g][j] * normal[g][j];
                dbeta[g][j] += d[g][j];
                d[g][j] *= scale[j];
                sum_d += d[g][j];
                sum_dn += d[g][j] * normal[g][j];
            }
        }
        const float mean_d = warp_sum(sum_d) / static_cast<float>(cols);
        const float mean_dn = warp_sum(sum_dn) / static_cast<float>(cols);
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            const std::int64_t c = 256 * g + 8 * lane;
            if (c >= cols) continue;
#pragma unroll
            for (int j = 0; j < 8; ++j) d[g][j] = (d[g][j] - mean_d - normal[g][j] * mean_dn) * inverse;
            store8(dsum + row * cols + c, d[g]);
            if (da == nullptr) continue;
            drop<8>(dropout, row, c, d[g]);
            store8(da + row * cols + c, d[g]);
        }
    }
    // The warps' sums, one group of 256 columns after another.
    const auto deliver = [&](const float(&mine)[8], std::int64_t first, float* to) {
        __syncthreads();  // the sums before are read
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[warp][8 * lane + j] = mine[j];
        __syncthreads();  // all warps' sums are in shared memory
        const std::int64_t c = first + threadIdx.x;
        if (c >= cols) return;
        float total = 0;
        for (int w = 0; w < 8; ++w) total += sums[w][threadIdx.x];
        to[c] = total;
    };
    float* mine = partials + blockIdx.x * 2 * cols;
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        deliver(dgamma[g], 256 * g, mine);
        deliver(dbeta[g], 256 * g, mine + cols);
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
            const auto* sum = static_cast<const T*>(op.sum_TD.data);
            const auto* gamma = static_cast<const T*>(op.gamma_1D.data);
            auto* dsum = static_cast<T*>(op.dsum_TD.data);
            auto* da = op.da_TD.empty() ? nullptr : static_cast<T*>(op.da_TD.data);
            const auto launch = [&](auto kernel, int warps, std::int64_t shared) {
                blocks = std::min<std::int64_t>((rows + warps - 1) / warps, kColumnPartials);
                kernel<<<static_cast<unsigned>(blocks), 32 * warps, shared, stream_>>>(
                    static_cast<const T*>(dy), sum, op.stats_T2.as<float>(), gamma, dropout_args(op.dropout),
                    dsum, da, partials, rows, cols);
            };
            const std::int64_t groups = (cols + 255) / 256, floats = 2 * ((cols + 7) / 8 * 8);
            if (cols % 8 != 0)
                launch(norm_backward_kernel<1, T>, warps_for(floats), warps_for(floats) * floats * 4);
            else if (groups == 1)
                launch(norm_backward_in_registers_kernel<1, T>, 8, 0);
            else if (groups == 2)
                launch(norm_backward_in_registers_kernel<2, T>, 8, 0);
            else if (groups == 3)
                launch(norm_backward_in_registers_kernel<3, T>, 8, 0);
            else if (groups == 4)
                launch(norm_backward_in_registers_kernel<4, T>, 8, 0);
            else
                launch(norm_backward_kernel<8, T>, warps_for(floats), warps_for(floats) * floats * 4);
        });
    check_launch("residual norm backward");
    add_partials(partials, blocks, 2 * cols, op.dgamma_1D, op.accumulate, stream_);
    add_partials(partials + cols, blocks, 2 * cols, op.dbeta_1D, op.accumulate, stream_);
}

}  // namespace elmo::cuda
