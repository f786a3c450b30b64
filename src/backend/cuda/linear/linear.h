// Linear layers and GELU: products by cuBLASLt, also of FP8 and FP16 numbers, with the scratch of those.
#pragma once

#include "backend/cuda/device/column_sums.h"
#include "backend/cuda/device/context.h"
#include "backend/cuda/linear/products.h"

namespace elmo::cuda {

class LinearOps {
  public:
    LinearOps(CudaContext& context, Products& products, ColumnSums& column_sums)
        : context_(context), products_(products), column_sums_(column_sums) {}
    // Once the device is there.
    void start();
    void reserve(Arena& arena, const Workload& workload);

    void forward(const LinearForward& op);
    void backward(const LinearBackward& op);
    void gelu_backward(const GeluBackward& op);

  private:
    // Exact; y may be pre. Codes of pre, where given.
    void apply_gelu(const View& pre, const View& y, bool fp16, std::uint8_t* codes);
    // y = h(y + h(bias)), in F32.
    void finish_fp16(const View& y_TN, const View& bias_1N);
    // A copy in FP16, in scratch.
    View as_fp16(const View& x, const View& room);
    void reserve_fp8(Arena& arena, const Workload& workload);
    // Whether a [T, K] by a weight of N rows or columns is a product with its GELU inside (gelu_product.h).
    bool fuses(const View& a, std::int64_t cols) const;
    // FP8 products (fp8.cpp): y without its activation; the whole backward.
    void forward_fp8(const LinearForward& op, const View& y_TN);
    void backward_fp8(const LinearBackward& op);
    void multiply_fp8(const Product& product, const char* op);
    // DeviceError where there is less room than that, or too little for the codes of a weight.
    void check_fp8_room(const View& w_NK, const View& room, std::int64_t bytes) const;

    CudaContext& context_;
    Products& products_;
    ColumnSums& column_sums_;
    bool has_gelu_products_ = false;  // the card, and code for them
    struct Fp8Scratch {
        View weights;  // u8: codes
        View small;    // u8: scales, and what casting needs
    } fp8_;
    struct Fp16Scratch {
        View x, dy, weights;  // f16: operands
    } fp16_;
};

}  // namespace elmo::cuda
