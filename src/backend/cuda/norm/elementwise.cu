// Element by element: dropout and adding.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/norm/norm.h"

namespace elmo::cuda {
namespace {

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

}  // namespace

void NormOps::dropout(const DropoutApply& op) {
    if (op.x_TD.empty() || op.dropout.threshold() == 0) return;
    with_type(op.x_TD, [&](auto* x) {
        with_width(op.x_TD.cols, [&](auto width) {
            dropout_kernel<width()>
                <<<blocks_for(op.x_TD.size(), kThreads * width()), kThreads, 0, context_.stream()>>>(
                    x, op.x_TD.rows, op.x_TD.cols, dropout_args(op.dropout));
        });
    });
    check_launch("dropout");
}

void NormOps::add(const AddInPlace& op) {
    if (op.y_TD.empty()) return;
    with_type(op.y_TD, [&](auto* y) {
        using T = std::remove_pointer_t<decltype(y)>;
        const std::int64_t count = op.y_TD.size();
        with_width(count, [&](auto width) {
            add_kernel<width()><<<blocks_for(count, kThreads * width()), kThreads, 0, context_.stream()>>>(
                y, static_cast<const T*>(op.x_TD.data), count);
        });
    });
    check_launch("add");
}

}  // namespace elmo::cuda
