// Residual, dropout and LayerNorm. Rows of up to 1,024 columns stay in registers between the passes (mean,
// variance, result), which therefore touch device memory once. For other widths a warp takes a row; its sum
// is in shared memory as floats, and each lane reads back only what it wrote.
#include <cuda_fp8.h>

#include <algorithm>

#include "backend/cuda/device/column_sums.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/norm/norm.h"

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

// V (1 or 8) neighbouring E4M3 numbers as they are stored.
template <int V>
using Codes = std::conditional_t<V == 8, uint2, std::uint8_t>;
template <int V>
__device__ __forceinline__ Codes<V> codes_of(const float (&v)[V]) {
    if constexpr (V == 8) {
        std::uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            pairs[i] =
                __nv_cvt_float2_to_fp8x2(make_float2(v[2 * i], v[2 * i + 1]), __NV_SATFINITE, __NV_E4M3);
        return make_uint2(pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16);
    } else {
        return __nv_cvt_float_to_fp8(v[0], __NV_SATFINITE, __NV_E4M3);
    }
}
template <int V>
__device__ __forceinline__ void from_codes(const Codes<V>& codes, float (&v)[V]) {
    if constexpr (V == 8) {
        const std::uint32_t pairs[4] = {codes.x & 0xffffu, codes.x >> 16, codes.y & 0xffffu, codes.y >> 16};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const __half2 both(
                __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pairs[i]), __NV_E4M3));
            v[2 * i] = __low2float(both);
            v[2 * i + 1] = __high2float(both);
        }
    } else {
        v[0] = __half2float(__half(__nv_cvt_fp8_to_halfraw(codes, __NV_E4M3)));
    }
}

template <int V, class T>
__global__ void norm_forward_kernel(const T* a, const T* residual, DropoutArgs dropout, const T* gamma,
                                    const T* beta, float epsilon, T* sum, T* y, DropoutArgs y_dropout,
                                    float* stats, std::uint8_t* normal, std::int64_t rows,
                                    std::int64_t cols) {
    after_previous();
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
        if (sum != nullptr) store_some<V>(sum + row * cols + c, v);
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
        for (int j = 0; j < V; ++j) v[j] = (row_sum[c + j] - mean) * inverse;
        if (normal != nullptr) *reinterpret_cast<Codes<V>*>(normal + row * cols + c) = codes_of(v);
#pragma unroll
        for (int j = 0; j < V; ++j) v[j] = v[j] * g[j] + b[j];
        if (y_dropout.threshold != 0) round_packed<T>(v);
        drop<V>(y_dropout, row, c, v);
        store_some<V>(y + row * cols + c, v);
    });
    if (lane == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = inverse;
    }
}

// The same for widths up to 256 Groups that are multiples of 8: a row is in the registers of its warp, and
// all its loads run together. Eight warps.
template <int Groups, class T>
__global__ void __launch_bounds__(256)
    norm_forward_in_registers_kernel(const T* a, const T* residual, DropoutArgs dropout, const T* gamma,
                                     const T* beta, float epsilon, T* sum, T* y, DropoutArgs y_dropout,
                                     float* stats, std::uint8_t* normal, std::int64_t rows,
                                     std::int64_t cols) {
    after_previous();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * 8 + warp;
    if (row >= rows) return;  // whole warps; nothing below meets at a block barrier
    Packed<8, T> packed_a[Groups], packed_r[Groups];
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        const std::int64_t c = 256 * g + 8 * lane;
        if (c >= cols) continue;
        packed_a[g] = load_packed<8>(a + row * cols + c);
        if (residual != nullptr) packed_r[g] = load_packed<8>(residual + row * cols + c);
    }
    float v[Groups][8], total = 0;
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        const std::int64_t c = 256 * g + 8 * lane;
        if (c >= cols) continue;
        unpack(packed_a[g], v[g]);
        drop<8>(dropout, row, c, v[g]);
        if (residual != nullptr) {
            float r[8];
            unpack(packed_r[g], r);
#pragma unroll
            for (int j = 0; j < 8; ++j) v[g][j] += r[j];
        }
        // The norm sees the sum as stored.
        const Packed<8, T> stored = round_packed<T>(v[g]);
        if (sum != nullptr) store_packed(sum + row * cols + c, stored);
#pragma unroll
        for (int j = 0; j < 8; ++j) total += v[g][j];
    }
    const float mean = warp_sum(total) / static_cast<float>(cols);
    float squares = 0;
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        if (256 * g + 8 * lane >= cols) continue;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v[g][j] -= mean;
            squares = fmaf(v[g][j], v[g][j], squares);
        }
    }
    const float inverse = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(cols) + epsilon);
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        const std::int64_t c = 256 * g + 8 * lane;
        if (c >= cols) continue;
        float scale[8], shift[8];
        load8(gamma + c, scale);
        load8(beta + c, shift);
#pragma unroll
        for (int j = 0; j < 8; ++j) v[g][j] *= inverse;
        if (normal != nullptr) *reinterpret_cast<uint2*>(normal + row * cols + c) = codes_of(v[g]);
#pragma unroll
        for (int j = 0; j < 8; ++j) v[g][j] = fmaf(v[g][j], scale[j], shift[j]);
        if (y_dropout.threshold != 0) round_packed<T>(v[g]);
        drop<8>(y_dropout, row, c, v[g]);
        store8(y + row * cols + c, v[g]);
    }
    if (lane == 0) reinterpret_cast<float2*>(stats)[row] = make_float2(mean, inverse);
}

// What the backward has of a norm's result.
struct Normals {
    const std::uint8_t* codes = nullptr;  // in place of the sum
    bool rounds = false;                  // to codes

    template <int V, class T>
    __device__ __forceinline__ void load(const T* sum, std::int64_t at, float mean, float inverse,
                                         float (&v)[V]) const {
        if (codes != nullptr) return from_codes<V>(*reinterpret_cast<const Codes<V>*>(codes + at), v);
        load_some<V>(sum + at, v);
#pragma unroll
        for (int j = 0; j < V; ++j) v[j] = (v[j] - mean) * inverse;
        if (rounds) from_codes<V>(codes_of(v), v);
    }
};

// dsum and da of the rows of this block, and its partial sums of dgamma and dbeta ([2, cols] per block). Rows
// blockIdx * warps + warp + i * gridDim * warps: the order depends only on the shape.
template <int V, class T>
__global__ void norm_backward_kernel(const T* dy, const T* more_dy, const T* sum, Normals normals,
                                     const float* stats, const T* gamma, DropoutArgs dropout, T* dsum, T* da,
                                     float* partials, DropoutArgs dy_dropout, const T* beta, T* y,
                                     std::int64_t rows, std::int64_t cols) {
    after_previous();
    extern __shared__ float shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const std::int64_t padded = (cols + 7) / 8 * 8;
    float* dgamma = shared + warp * 2 * padded;  // of this warp
    float* dbeta = dgamma + padded;
    const auto load_dy = [&](std::int64_t row, std::int64_t c, float(&d)[V]) {
        load_some<V>(dy + row * cols + c, d);
        if (more_dy != nullptr) {
            float more[V];
            load_some<V>(more_dy + row * cols + c, more);
#pragma unroll
            for (int j = 0; j < V; ++j) d[j] += more[j];
            round_packed<T>(d);
        }
        drop<V>(dy_dropout, row, c, d);
        if (dy_dropout.threshold != 0) round_packed<T>(d);
    };
    for_columns<V>(lane, cols, [&](std::int64_t c) {
#pragma unroll
        for (int j = 0; j < V; ++j) dgamma[c + j] = dbeta[c + j] = 0;
    });
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + warp; row < rows;
         row += static_cast<std::int64_t>(gridDim.x) * warps) {
        const float mean = stats[2 * row], inverse = stats[2 * row + 1];
        float sum_d = 0, sum_dn = 0;
        for_columns<V>(lane, cols, [&](std::int64_t c) {
            float d[V], normal[V], g[V];
            load_dy(row, c, d);
            normals.load<V>(sum, row * cols + c, mean, inverse, normal);
            load_some<V>(gamma + c, g);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                const float dnormal = d[j] * g[j];
                sum_d += dnormal;
                sum_dn += dnormal * normal[j];
                dgamma[c + j] += d[j] * normal[j];
                dbeta[c + j] += d[j];
            }
            if (y == nullptr) return;
            float b[V];
            load_some<V>(beta + c, b);
#pragma unroll
            for (int j = 0; j < V; ++j) b[j] = normal[j] * g[j] + b[j];
            store_some<V>(y + row * cols + c, b);
        });
        const float mean_d = warp_sum(sum_d) / static_cast<float>(cols);
        const float mean_dn = warp_sum(sum_dn) / static_cast<float>(cols);
        for_columns<V>(lane, cols, [&](std::int64_t c) {
            float d[V], normal[V], g[V];
            load_dy(row, c, d);
            normals.load<V>(sum, row * cols + c, mean, inverse, normal);
            load_some<V>(gamma + c, g);
#pragma unroll
            for (int j = 0; j < V; ++j) d[j] = (d[j] * g[j] - mean_d - normal[j] * mean_dn) * inverse;
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

// Adds up two numbers over the `Warps` warps of a row (thread `thread` of them), in order. `places` holds two
// rows of Warps pairs, used in turn, so that one barrier is enough. Called by the whole block.
template <int Warps>
__device__ __forceinline__ float2 row_total(float a, float b, float2 (&places)[2][Warps], int turn,
                                            int thread) {
    const float2 mine = make_float2(warp_sum(a), warp_sum(b));
    if constexpr (Warps == 1) return mine;
    if (thread % 32 == 0) places[turn][thread / 32] = mine;
    __syncthreads();  // all warps' sums are in shared memory
    float2 total = places[turn][0];
#pragma unroll
    for (int w = 1; w < Warps; ++w) {
        total.x += places[turn][w].x;
        total.y += places[turn][w].y;
    }
    return total;
}

// Rows that a block of the next kernel works on at a time: what leaves a thread the registers it needs.
constexpr int slots_for(int warps) {
    return 9 / warps;
}

// The same for widths up to 256 Warps that are multiples of 8. A thread owns eight columns, `Warps` warps
// take a row: gamma and the column sums (dgamma, dbeta and, where wanted, the bias gradient) stay in
// registers, and the next row loads while one is processed. Partials are [2 or 3, cols] per block.
template <int Warps, class T>
__global__ void __launch_bounds__(32 * Warps * slots_for(Warps), 2)
    norm_backward_by_columns_kernel(const T* dy, const T* more_dy, const T* sum, Normals normals,
                                    const float* stats, const T* gamma, DropoutArgs dropout, T* dsum, T* da,
                                    bool with_bias, float* partials, DropoutArgs dy_dropout, const T* beta,
                                    T* y, std::int64_t rows, std::int64_t cols) {
    after_previous();
    constexpr int kSlots = slots_for(Warps), kRowThreads = 32 * Warps;
    __shared__ float shared[kSlots * kRowThreads * 8];
    __shared__ float2 totals[kSlots][2][Warps];
    const int slot = threadIdx.x / kRowThreads, thread = threadIdx.x % kRowThreads;
    const std::int64_t column = 8 * thread;
    const bool inside = column < cols;
    const float share = 1.0f / static_cast<float>(cols);
    float dgamma[8] = {}, dbeta[8] = {}, dbias[8] = {};
    Packed<8, T> packed_gamma{}, packed_beta{}, next_d{}, next_more{}, next_s{};
    if (inside) packed_gamma = load_packed<8>(gamma + column);
    if (inside && y != nullptr) packed_beta = load_packed<8>(beta + column);
    float2 next_stats{};
    uint2 next_codes{};
    const int step = static_cast<int>(gridDim.x) * kSlots;
    std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kSlots;  // row of slot 0
    std::int64_t row = first + slot, at = row * cols + column;
    const auto fetch = [&](std::int64_t next_row, std::int64_t next_at) {
        if (next_row >= rows) return;
        next_stats = reinterpret_cast<const float2*>(stats)[next_row];
        if (!inside) return;
        next_d = load_packed<8>(dy + next_at);
        if (normals.codes != nullptr)
            next_codes = *reinterpret_cast<const uint2*>(normals.codes + next_at);
        else
            next_s = load_packed<8>(sum + next_at);
        if (more_dy != nullptr) next_more = load_packed<8>(more_dy + next_at);
    };
    fetch(row, at);
    for (int turn = 0; first < rows; first += step, row += step, at += step * cols, turn ^= 1) {
        const bool here = row < rows;
        float d[8], normal[8];
        unpack(next_d, d);
        if (more_dy != nullptr) {
            float more[8];
            unpack(next_more, more);
#pragma unroll
            for (int j = 0; j < 8; ++j) d[j] += more[j];
            round_packed<T>(d);
        }
        if (dy_dropout.threshold != 0) {
            drop<8>(dy_dropout, row, column, d);
            round_packed<T>(d);
        }
        const float mean = next_stats.x, inverse = next_stats.y;
        if (normals.codes != nullptr) {
            from_codes<8>(next_codes, normal);
        } else {
            unpack(next_s, normal);
#pragma unroll
            for (float& one : normal) one = (one - mean) * inverse;
            if (normals.rounds) from_codes<8>(codes_of(normal), normal);
        }
        fetch(row + step, at + step * cols);
        float scale[8], sum_d = 0, sum_dn = 0;
        unpack(packed_gamma, scale);  // 0 outside
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            if (!here) d[j] = normal[j] = 0;  // stale
            dgamma[j] = fmaf(d[j], normal[j], dgamma[j]);
            dbeta[j] += d[j];
            d[j] *= scale[j];
            sum_d += d[j];
            sum_dn = fmaf(d[j], normal[j], sum_dn);
        }
        if (y != nullptr && inside && here) {
            float again[8];
            unpack(packed_beta, again);
#pragma unroll
            for (int j = 0; j < 8; ++j) again[j] = fmaf(normal[j], scale[j], again[j]);
            store8(y + at, again);
        }
        const float2 total = row_total<Warps>(sum_d, sum_dn, totals[slot], turn, thread);
        if (!inside || !here) continue;
        const float mean_d = total.x * share, mean_dn = total.y * share;
#pragma unroll
        for (int j = 0; j < 8; ++j) d[j] = fmaf(-normal[j], mean_dn, d[j] - mean_d) * inverse;
        store8(dsum + at, d);
        if (da != nullptr) drop<8>(dropout, row, column, d);
        const Packed<8, T> branch = round_packed<T>(d);
        if (da != nullptr) store_packed(da + at, branch);
#pragma unroll
        for (int j = 0; j < 8; ++j) dbias[j] += d[j];
    }
    float* mine = partials + static_cast<std::int64_t>(blockIdx.x) * (with_bias ? 3 : 2) * cols;
    write_partial<8, kSlots, kRowThreads>(dgamma, shared, 0, cols, mine);
    write_partial<8, kSlots, kRowThreads>(dbeta, shared, 0, cols, mine + cols);
    if (with_bias) write_partial<8, kSlots, kRowThreads>(dbias, shared, 0, cols, mine + 2 * cols);
}

}  // namespace

void NormOps::forward(const ResidualNormForward& op) {
    const std::int64_t rows = op.a_TD.rows, cols = op.a_TD.cols;
    if (rows == 0) return;
    // A sum that is already where it belongs is not written again.
    const bool in_place =
        op.sum_TD.data == op.a_TD.data && op.residual_TD.empty() && op.dropout.threshold() == 0;
    with_type(op.a_TD, [&](auto* a) {
        using T = std::remove_pointer_t<decltype(a)>;
        const auto launch = [&](auto kernel, int warps, std::int64_t shared) {
            launch_early(context_.starts_early(), kernel, blocks_for(rows, warps), 32 * warps,
                         static_cast<std::size_t>(shared), context_.stream(), "residual norm forward",
                         static_cast<const T*>(a),
                         op.residual_TD.empty() ? nullptr : static_cast<const T*>(op.residual_TD.data),
                         dropout_args(op.dropout), static_cast<const T*>(op.gamma_1D.data),
                         static_cast<const T*>(op.beta_1D.data), op.epsilon,
                         in_place ? nullptr : static_cast<T*>(op.sum_TD.data), static_cast<T*>(op.y_TD.data),
                         dropout_args(op.y_dropout), op.stats_T2.as<float>(),
                         op.normal_TD.empty() ? nullptr : op.normal_TD.codes(), rows, cols);
        };
        const std::int64_t groups = (cols + 255) / 256, floats = (cols + 7) / 8 * 8;
        if (cols % 8 != 0)
            launch(norm_forward_kernel<1, T>, warps_for(floats), warps_for(floats) * floats * 4);
        else if (groups == 1)
            launch(norm_forward_in_registers_kernel<1, T>, 8, 0);
        else if (groups == 2)
            launch(norm_forward_in_registers_kernel<2, T>, 8, 0);
        else if (groups == 3)
            launch(norm_forward_in_registers_kernel<3, T>, 8, 0);
        else if (groups == 4)
            launch(norm_forward_in_registers_kernel<4, T>, 8, 0);
        else
            launch(norm_forward_kernel<8, T>, warps_for(floats), warps_for(floats) * floats * 4);
    });
}

void NormOps::backward(const ResidualNormBackward& op) {
    const std::int64_t rows = op.dy_TD.rows, cols = op.dy_TD.cols;
    const bool by_columns = cols % 8 == 0 && cols <= 1024, with_bias = !op.dbias_1D.empty();
    float* const partials =
        column_sums_.partials(std::min(rows, kColumnPartials) * (with_bias && by_columns ? 3 : 2) * cols);
    std::int64_t blocks = 0;
    if (rows > 0)
        with_type(op.dy_TD, [&](auto* dy) {
            using T = std::remove_pointer_t<decltype(dy)>;
            const auto* more_dy = op.more_dy_TD.empty() ? nullptr : static_cast<const T*>(op.more_dy_TD.data);
            const auto* sum = static_cast<const T*>(op.sum_TD.data);
            const Normals normals{op.normal_TD.empty() ? nullptr : op.normal_TD.codes(), op.rounds};
            const auto* gamma = static_cast<const T*>(op.gamma_1D.data);
            auto* dsum = static_cast<T*>(op.dsum_TD.data);
            auto* da = op.da_TD.empty() ? nullptr : static_cast<T*>(op.da_TD.data);
            const auto* beta = static_cast<const T*>(op.beta_1D.data);
            auto* y = op.y_TD.empty() ? nullptr : static_cast<T*>(op.y_TD.data);
            const DropoutArgs dy_dropout = dropout_args(op.dy_dropout);
            const auto blocks_of = [&](std::int64_t slots) {
                blocks = std::min((rows + slots - 1) / slots, kColumnPartials);
                return static_cast<unsigned>(blocks);
            };
            const auto launch = [&](auto kernel) {
                const std::int64_t floats = 2 * ((cols + 7) / 8 * 8);
                const int warps = warps_for(floats);
                launch_early(context_.starts_early(), kernel, blocks_of(warps), 32 * warps,
                             static_cast<std::size_t>(warps * floats * 4), context_.stream(),
                             "residual norm backward", static_cast<const T*>(dy), more_dy, sum, normals,
                             op.stats_T2.as<float>(), gamma, dropout_args(op.dropout), dsum, da, partials,
                             dy_dropout, beta, y, rows, cols);
            };
            const auto launch_by_columns = [&](auto warps) {
                constexpr int kSlots = slots_for(warps());
                launch_early(context_.starts_early(), norm_backward_by_columns_kernel<warps(), T>,
                             blocks_of(kSlots), 32 * warps() * kSlots, 0, context_.stream(),
                             "residual norm backward", static_cast<const T*>(dy), more_dy, sum, normals,
                             op.stats_T2.as<float>(), gamma, dropout_args(op.dropout), dsum, da, with_bias,
                             partials, dy_dropout, beta, y, rows, cols);
            };
            if (cols % 8 != 0)
                launch(norm_backward_kernel<1, T>);
            else if (!by_columns)
                launch(norm_backward_kernel<8, T>);
            else if (cols <= 256)
                launch_by_columns(std::integral_constant<int, 1>{});
            else if (cols <= 512)
                launch_by_columns(std::integral_constant<int, 2>{});
            else if (cols <= 768)
                launch_by_columns(std::integral_constant<int, 3>{});
            else
                launch_by_columns(std::integral_constant<int, 4>{});
        });
    if (with_bias && by_columns)
        return column_sums_.add_partials(partials, blocks, {op.dgamma_1D, op.dbeta_1D, op.dbias_1D},
                                         op.accumulate);
    column_sums_.add_partials(partials, blocks, {op.dgamma_1D, op.dbeta_1D}, op.accumulate);
    if (with_bias)
        column_sums_.add_rows(op.da_TD.empty() ? op.dsum_TD : op.da_TD, op.dbias_1D, op.accumulate);
}

}  // namespace elmo::cuda
