// Products of sizes that cuBLASLt has no kernel for.
#include <cuda_fp8.h>

#include "backend/cuda/device/check.h"
#include "backend/cuda/linear/plain_product.cuh"
#include "backend/cuda/linear/products.h"

namespace elmo::cuda {
namespace {

template <class In, class Out>
__global__ void product_kernel(const In* a, const In* b, Out* c, const In* bias, std::int64_t m,
                               std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
                               bool accumulate) {
    const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * plain::kEdge;
    const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.x) * plain::kEdge;
    float acc[4][4] = {};
    plain::product(
        row0, column0, k,
        [&](std::int64_t row, std::int64_t i) {
            return row < m ? load_float(a, transpose_a ? i * m + row : row * k + i) : 0.0f;
        },
        [&](std::int64_t i, std::int64_t column) {
            return column < n ? load_float(b, transpose_b ? column * k + i : i * n + column) : 0.0f;
        },
        acc);
    plain::for_each(row0, column0, acc, [&](float x, std::int64_t row, std::int64_t column) {
        if (row >= m || column >= n) return;
        if (bias != nullptr) x += load_float(bias, column);
        if (accumulate) x += load_float(c, row * n + column);
        store_float(c, row * n + column, x);
    });
}

// c = a b^T of FP8 codes, b E4M3.
template <class Out>
__global__ void code_product_kernel(Product p, Out* c, std::int64_t k) {
    const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * plain::kEdge;
    const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.x) * plain::kEdge;
    const std::int64_t m = p.c.rows, n = p.c.cols;
    const __nv_fp8_interpretation_t kind = p.a.dtype == DType::kE5M2 ? __NV_E5M2 : __NV_E4M3;
    const auto *a = static_cast<const std::uint8_t*>(p.a.data),
               *b = static_cast<const std::uint8_t*>(p.b.data);
    const auto number = [](std::uint8_t code, __nv_fp8_interpretation_t of) {
        return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, of)));
    };
    float acc[4][4] = {};
    plain::product(
        row0, column0, k,
        [&](std::int64_t row, std::int64_t i) { return row < m ? number(a[row * k + i], kind) : 0.0f; },
        [&](std::int64_t i, std::int64_t column) {
            return column < n ? number(b[column * k + i], __NV_E4M3) : 0.0f;
        },
        acc);
    plain::for_each(row0, column0, acc, [&](float x, std::int64_t row, std::int64_t column) {
        if (row >= m || column >= n) return;
        x = x * *p.scale_a * *p.scale_b;
        if (p.bias.data != nullptr) x += load_float(static_cast<const bf16*>(p.bias.data), column);
        if (p.accumulate) x += load_float(c, row * n + column);
        store_float(c, row * n + column, x);
    });
}

}  // namespace

void plain_product(const Product& p, cudaStream_t stream, const char* op) {
    const std::int64_t m = p.c.rows, n = p.c.cols, k = p.transpose_a ? p.a.rows : p.a.cols;
    const dim3 grid(blocks_for(n, plain::kEdge), blocks_for(m, plain::kEdge));
    const auto launch = [&](auto* a, auto* c) {
        using In = std::remove_pointer_t<decltype(a)>;
        product_kernel<<<grid, kThreads, 0, stream>>>(
            static_cast<const In*>(a), static_cast<const In*>(p.b.data), c,
            static_cast<const In*>(p.bias.data), m, n, k, p.transpose_a, p.transpose_b, p.accumulate);
    };
    if (p.scale_a != nullptr) {
        with_type(p.c, [&](auto* c) { code_product_kernel<<<grid, kThreads, 0, stream>>>(p, c, k); });
    } else if (p.a.dtype == DType::kF16) {
        if (p.c.dtype == DType::kF16)
            launch(static_cast<fp16*>(p.a.data), static_cast<fp16*>(p.c.data));
        else
            launch(static_cast<fp16*>(p.a.data), p.c.as<float>());
    } else {
        with_type(p.a, [&](auto* a) { with_type(p.c, [&](auto* c) { launch(a, c); }); });
    }
    check_launch(op);
}

}  // namespace elmo::cuda
