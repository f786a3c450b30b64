// GELU, exact, and its backward with the bias gradient.
#include "backend/cuda/device/as_fp16.cuh"
#include "backend/cuda/device/column_sums.cuh"
#include "backend/cuda/linear/gelu.cuh"
#include "backend/cuda/linear/gelu_product.h"
#include "backend/cuda/linear/linear.h"

namespace elmo::cuda {
namespace {

// codes, where given: of pre.
template <int V, class T>
__global__ void gelu_kernel(const T* pre, T* y, std::uint8_t* codes, std::int64_t count) {
    after_previous();
    for_each<V>(count, [&](std::int64_t i) {
        const Packed<V, T> seen = load_packed<V>(pre + i);
        if (codes != nullptr) *reinterpret_cast<Bytes<V>*>(codes + i) = pre_codes(seen);
        float v[V];
        unpack(seen, v);
#pragma unroll
        for (float& x : v) x *= phi(x);
        store_some<V>(y + i, v);
    });
}

// y as FP16 holds it, with the bias as FP16 holds that.
template <int V>
__global__ void add_bias_kernel(FloatAsFp16* y, const float* bias, std::int64_t count, std::int64_t cols) {
    for_each<V>(count, [&](std::int64_t i) {
        float v[V], b[V] = {};
        load_some<V>(y + i, v);
        if (bias != nullptr) load_some<V>(bias + i % cols, b);
#pragma unroll
        for (int j = 0; j < V; ++j) v[j] += round_fp16(b[j]);
        store_some<V>(y + i, v);
    });
}

// What a backward reads: pre as it is, or as codes; or slopes, and then there is no gelu.
enum class Seen { kPre, kPreCodes, kSlopes };

// Block (columns, partial) of eight warps, as in column_sums.cuh. The next row loads while one is processed.
// gelu(pre) may overwrite pre.
template <int V, Seen kSeen, class From, class T>
__global__ void __launch_bounds__(256)
    gelu_backward_kernel(const From* pre, T* dy, T* again, std::int64_t rows, std::int64_t cols,
                         float* partials) {
    constexpr bool kSlopes = kSeen == Seen::kSlopes;
    after_previous();
    __shared__ float shared[256 * V];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32 * V, column = first + lane * V;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * 8 * cols, end = rows * cols;
    float sum[V] = {};
    std::conditional_t<kSeen == Seen::kPre, Packed<V, From>, Bytes<V>> next_x;
    Packed<V, T> next_d;
    std::int64_t i = (static_cast<std::int64_t>(blockIdx.y) * 8 + warp) * cols + column;
    const auto fetch = [&](std::int64_t at) {
        if (at >= end) return;
        if constexpr (kSeen == Seen::kPre)
            next_x = load_packed<V>(pre + at);
        else
            next_x = *reinterpret_cast<const Bytes<V>*>(pre + at);
        next_d = load_packed<V>(dy + at);
    };
    if (column < cols) {
        fetch(i);
        for (; i < end; i += step) {
            float x[V], d[V];
            if constexpr (kSlopes)
#pragma unroll
                for (int j = 0; j < V; ++j) x[j] = slope_of(static_cast<std::uint8_t>(byte_of(next_x, j)));
            else if constexpr (kSeen == Seen::kPreCodes)
                pre_of_codes<V>(next_x, x);
            else
                unpack(next_x, x);
            unpack(next_d, d);
            fetch(i + step);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                if constexpr (kSlopes) {
                    d[j] *= x[j];
                } else {
                    const float share = phi(x[j]);
                    d[j] *= slope(x[j], share);
                    x[j] *= share;
                }
            }
            store_packed(dy + i, round_packed<T>(d));
            if constexpr (!kSlopes)
                if (again != nullptr) store_some<V>(again + i, x);
#pragma unroll
            for (int j = 0; j < V; ++j) sum[j] += d[j];
        }
    }
    if (partials != nullptr) write_partial<V, 8, 32>(sum, shared, first, cols, partials + blockIdx.y * cols);
}

}  // namespace

void LinearOps::finish_fp16(const View& y, const View& bias) {
    with_width(y.cols, [&](auto width) {
        add_bias_kernel<width()>
            <<<blocks_for(y.size(), kThreads * width()), kThreads, 0, context_.stream()>>>(
                static_cast<FloatAsFp16*>(y.data), bias.empty() ? nullptr : bias.as<float>(), y.size(),
                y.cols);
    });
    check_launch("result in FP16");
}

void LinearOps::apply_gelu(const View& pre, const View& y, bool fp16, std::uint8_t* codes) {
    with_type(y, fp16, [&](auto* out) {
        using T = std::remove_pointer_t<decltype(out)>;
        with_width(y.size(), [&](auto width) {
            launch_early(context_.starts_early(), gelu_kernel<width(), T>,
                         blocks_for(y.size(), kThreads * width()), kThreads, 0, context_.stream(), "gelu",
                         static_cast<const T*>(pre.data), out, codes, y.size());
        });
    });
}

void LinearOps::gelu_backward(const GeluBackward& op) {
    const bool with_bias = !op.dbias_1N.empty();
    if (op.dy_TN.empty()) {
        if (with_bias && !op.accumulate) context_.fill_zero(op.dbias_1N);
        return;
    }
    const std::int64_t rows = op.dy_TN.rows, cols = op.dy_TN.cols;
    const bool fused = !op.dz_TM.empty() && op.slope_TN.empty() && fuses(op.dz_TM, cols) &&
                       (!with_bias || gelu_product_partials(rows) <= kColumnPartials);
    if (!op.dz_TM.empty() && !fused) backward(product_before(op));
    const std::int64_t num_partials = fused ? gelu_product_partials(rows) : ColumnSums::num_partials(rows);
    float* const partials = with_bias ? column_sums_.partials(num_partials * cols) : nullptr;
    if (fused) {
        gelu_product(op, partials, context_);
        if (with_bias) column_sums_.add_partials(partials, num_partials, {op.dbias_1N}, op.accumulate);
        return;
    }
    with_type(op.dy_TN, op.fp16, [&](auto* dy) {
        using T = std::remove_pointer_t<decltype(dy)>;
        with_width(cols, [&](auto width) {
            const dim3 grid(blocks_for(cols, 32 * width()), static_cast<unsigned>(num_partials));
            const auto run = [&](auto kernel, auto* from) {
                launch_early(context_.starts_early(), kernel, grid, 256, 0, context_.stream(),
                             "gelu backward", from, dy,
                             op.gelu_TN.empty() ? nullptr : static_cast<T*>(op.gelu_TN.data), rows, cols,
                             partials);
            };
            using Byte = std::uint8_t;
            if (!op.slope_TN.empty())
                run(gelu_backward_kernel<width(), Seen::kSlopes, Byte, T>, op.slope_TN.codes());
            else if (op.pre_TN.dtype == DType::kU8)
                run(gelu_backward_kernel<width(), Seen::kPreCodes, Byte, T>, op.pre_TN.codes());
            else
                run(gelu_backward_kernel<width(), Seen::kPre, T, T>, static_cast<const T*>(op.pre_TN.data));
        });
    });
    if (with_bias) column_sums_.add_partials(partials, num_partials, {op.dbias_1N}, op.accumulate);
}

}  // namespace elmo::cuda
