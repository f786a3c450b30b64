// Element by element: GELU, dropout, adding, casting, finiteness; and column sums.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/head_storage.cuh"
#include "backend/cuda/launch.cuh"

namespace elmo::cuda {
namespace {

constexpr float kInvSqrt2 = 0.70710678118654752f, kInvSqrt2Pi = 0.39894228040143268f;

__device__ __forceinline__ float gelu_of(float x) {
    return 0.5f * x * (1.0f + erff(x * kInvSqrt2));
}
__device__ __forceinline__ float gelu_slope(float x) {
    return 0.5f * (1.0f + erff(x * kInvSqrt2)) + x * (kInvSqrt2Pi * expf(-0.5f * x * x));
}

// body(i) for the elements of a grid-wide loop, V at a time.
template <int V, class Body>
__device__ __forceinline__ void for_each(std::int64_t count, const Body& body) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * V;
    for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < count;
         i += stride)
        body(i);
}

template <int V, class T>
__global__ void gelu_kernel(const T* pre, T* y, std::int64_t count) {
    for_each<V>(count, [&](std::int64_t i) {
        float v[V];
        load_some<V>(pre + i, v);
#pragma unroll
        for (float& x : v) x = gelu_of(x);
        store_some<V>(y + i, v);
    });
}

template <int V, class T>
__global__ void gelu_backward_kernel(const T* pre, T* dy, T* again, std::int64_t count) {
    for_each<V>(count, [&](std::int64_t i) {
        float x[V], d[V];
        load_some<V>(pre + i, x);
        load_some<V>(dy + i, d);
#pragma unroll
        for (int j = 0; j < V; ++j) d[j] *= gelu_slope(x[j]);
        store_some<V>(dy + i, d);
        if (again == nullptr) return;
#pragma unroll
        for (float& v : x) v = gelu_of(v);
        store_some<V>(again + i, x);
    });
}

template <int V, class T>
__global__ void add_kernel(T* y, const T* x, std::int64_t count) {
    for_each<V>(count, [&](std::int64_t i) {
        float a[V], b[V];
        load_some<V>(y + i, a);
        load_some<V>(x + i, b);
#pragma unroll
        for (int j = 0; j < V; ++j) a[j] += b[j];
        store_some<V>(y + i, a);
    });
}

template <int V, class T>
__global__ void dropout_kernel(T* x, std::int64_t rows, std::int64_t cols, DropoutArgs dropout) {
    for_each<V>(rows * cols, [&](std::int64_t i) {
        float v[V];
        load_some<V>(x + i, v);
        drop<V>(dropout, i / cols, i % cols, v);
        store_some<V>(x + i, v);
    });
}

template <int V, class To, class From>
__global__ void cast_kernel(To* to, const From* from, std::int64_t count) {
    for_each<V>(count, [&](std::int64_t i) {
        float v[V];
        load_some<V>(from + i, v);
        store_some<V>(to + i, v);
    });
}

template <class S, class To>
__global__ void decode_kernel(To* to, const std::uint8_t* from, std::int64_t count) {
    for_each<1>(count, [&](std::int64_t i) { store_float(to, i, S::load(from, i)); });
}

template <class T>
__global__ void non_finite_kernel(const T* x, std::int64_t count, int* found) {
    for_each<1>(count, [&](std::int64_t i) {
        if (!isfinite(load_float(x, i))) *found = 1;
    });
}

// Block (column group, partial): rows partial, partial + kColumnPartials, ... of 8 columns a thread-group of
// 32 threads; the eight row groups of a block are added in order.
template <int V, class T>
__global__ void column_partials_kernel(const T* dy, std::int64_t rows, std::int64_t cols, float* partials,
                                       std::int64_t num_partials) {
    __shared__ float sums[8][32 * V];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * 32 + lane) * V;
    float sum[V] = {};
    if (column < cols)
        for (std::int64_t row = blockIdx.y * 8 + group; row < rows; row += num_partials * 8) {
            float v[V];
            load_some<V>(dy + row * cols + column, v);
#pragma unroll
            for (int j = 0; j < V; ++j) sum[j] += v[j];
        }
#pragma unroll
    for (int j = 0; j < V; ++j) sums[group][lane * V + j] = sum[j];
    __syncthreads();  // all groups' sums are in shared memory
    if (group != 0 || column >= cols) return;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        float total = 0;
        for (int g = 0; g < 8; ++g) total += sums[g][lane * V + j];
        partials[blockIdx.y * cols + column + j] = total;
    }
}

}  // namespace

void gelu(const View& pre, const View& y, cudaStream_t stream) {
    with_type(y, [&](auto* out) {
        using T = std::remove_pointer_t<decltype(out)>;
        with_width(y.size(), [&](auto width) {
            gelu_kernel<width()><<<blocks_for(y.size(), kThreads * width()), kThreads, 0, stream>>>(
                static_cast<const T*>(pre.data), out, y.size());
        });
    });
    check_launch("gelu");
}

void CudaBackend::gelu_backward(const GeluBackward& op) {
    if (op.dy_TN.empty()) return;
    with_type(op.dy_TN, [&](auto* dy) {
        using T = std::remove_pointer_t<decltype(dy)>;
        const std::int64_t count = op.dy_TN.size();
        with_width(count, [&](auto width) {
            gelu_backward_kernel<width()><<<blocks_for(count, kThreads * width()), kThreads, 0, stream_>>>(
                static_cast<const T*>(op.pre_TN.data), dy,
                op.gelu_TN.empty() ? nullptr : static_cast<T*>(op.gelu_TN.data), count);
        });
    });
    check_launch("gelu backward");
}

void CudaBackend::dropout(const DropoutApply& op) {
    if (op.x_TD.empty() || op.dropout.threshold() == 0) return;
    with_type(op.x_TD, [&](auto* x) {
        with_width(op.x_TD.cols, [&](auto width) {
            dropout_kernel<width()><<<blocks_for(op.x_TD.size(), kThreads * width()), kThreads, 0, stream_>>>(
                x, op.x_TD.rows, op.x_TD.cols, dropout_args(op.dropout));
        });
    });
    check_launch("dropout");
}

void CudaBackend::add(const AddInPlace& op) {
    if (op.y_TD.empty()) return;
    with_type(op.y_TD, [&](auto* y) {
        using T = std::remove_pointer_t<decltype(y)>;
        const std::int64_t count = op.y_TD.size();
        with_width(count, [&](auto width) {
            add_kernel<width()><<<blocks_for(count, kThreads * width()), kThreads, 0, stream_>>>(
                y, static_cast<const T*>(op.x_TD.data), count);
        });
    });
    check_launch("add");
}

void CudaBackend::cast(View to, View from) {
    if (to.empty()) return;
    with_type(to, [&](auto* out) {
        const unsigned blocks = blocks_for(to.size(), kThreads);
        if (from.dtype == DType::kE4M3)
            return decode_kernel<StorageE4M3><<<blocks, kThreads, 0, stream_>>>(out, from.codes(), to.size());
        if (from.dtype == DType::kE3M4)
            return decode_kernel<StorageE3M4><<<blocks, kThreads, 0, stream_>>>(out, from.codes(), to.size());
        with_type(from, [&](auto* in) {
            using From = std::remove_pointer_t<decltype(in)>;
            const std::int64_t count = to.size();
            with_width(count, [&](auto width) {
                cast_kernel<width()><<<blocks_for(count, kThreads * width()), kThreads, 0, stream_>>>(
                    out, static_cast<const From*>(in), count);
            });
        });
    });
    check_launch("cast");
}

bool CudaBackend::has_non_finite(View view) {
    if (view.empty()) return false;
    clear(flags_.data, 4, "finite check");
    with_type(view, [&](auto* x) {
        non_finite_kernel<<<blocks_for(view.size(), kThreads * 8, 1 << 16), kThreads, 0, stream_>>>(
            x, view.size(), flags_.as<std::int32_t>());
    });
    check_launch("finite check");
    std::int32_t found = 0;
    download(&found, {flags_.data, DType::kI32, 1, 1});
    return found != 0;
}

void CudaBackend::column_sums(View dy, View dbias, bool accumulate) {
    const std::int64_t partials = std::min<std::int64_t>(kColumnPartials, (dy.rows + 63) / 64);
    float* sums = column_partials_.as<float>();
    with_type(dy, [&](auto* in) {
        with_width(dy.cols, [&](auto width) {
            const dim3 grid(blocks_for(dy.cols, 32 * width()), static_cast<unsigned>(partials));
            column_partials_kernel<width()><<<grid, 256, 0, stream_>>>(in, dy.rows, dy.cols, sums, partials);
        });
    });
    check_launch("bias gradient");
    add_partials(sums, partials, dy.cols, dbias, accumulate, stream_);
}

namespace {

// 32 columns a block; the partials are shared out to 8 groups in turn, whose sums are added in order.
template <class T>
__global__ void add_partials_kernel(const float* partials, std::int64_t num_partials, std::int64_t stride,
                                    std::int64_t cols, T* out, bool accumulate) {
    __shared__ float sums[8][32];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
    float sum = 0;
    if (column < cols) {
#pragma unroll 4
        for (std::int64_t p = group; p < num_partials; p += 8) sum += partials[p * stride + column];
    }
    sums[group][lane] = sum;
    __syncthreads();  // all groups' sums are in shared memory
    if (group != 0 || column >= cols) return;
    float total = accumulate ? load_float(out, column) : 0.0f;
    for (int g = 0; g < 8; ++g) total += sums[g][lane];
    store_float(out, column, total);
}

}  // namespace

void add_partials(const float* partials, std::int64_t num_partials, std::int64_t stride, const View& out,
                  bool accumulate, cudaStream_t stream) {
    with_type(out, [&](auto* to) {
        add_partials_kernel<<<blocks_for(out.size(), 32), 256, 0, stream>>>(partials, num_partials, stride,
                                                                            out.size(), to, accumulate);
    });
    check_launch("adding partial sums");
}

}  // namespace elmo::cuda
