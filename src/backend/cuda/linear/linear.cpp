// Linear layers: cuBLASLt with the bias in the epilogue. cuBLASLt's own GELU is the tanh approximation; ours
// is exact, so it is a separate kernel (gelu.cu), or part of a product of our own (gelu_product.cu). The bias
// gradient here is a separate pass over dy; most biases get theirs from the kernels that make dy instead.
#include "backend/cuda/linear/linear.h"

#include <algorithm>

#include "backend/cuda/device/convert.h"
#include "backend/cuda/head/hopper/hopper.h"
#include "backend/cuda/linear/gelu_product.h"
#include "elmo/error.h"

namespace elmo::cuda {

void LinearOps::reserve(Arena& arena, const Workload& w) {
    if (w.fp8_products) reserve_fp8(arena, w);
    if (!w.fp16_products) return;
    const std::int64_t rows = std::max(w.tokens, w.batch);
    fp16_.x = arena.allocate("scratch/fp16_input", DType::kF16, rows, w.widest);
    fp16_.dy = arena.allocate("scratch/fp16_gradient", DType::kF16, rows, w.widest);
    fp16_.weights = arena.allocate("scratch/fp16_weights", DType::kF16, 1, w.largest_weight);
}

View LinearOps::as_fp16(const View& x, const View& room) {
    if (x.size() > room.size()) throw DeviceError("GPU: FP16 products of this size were not planned for");
    const View copy{room.data, DType::kF16, x.rows, x.cols};
    round_fp16(copy, x, context_.stream());
    return copy;
}

void LinearOps::start() {
    has_gelu_products_ = context_.properties().major == 9 && hopper::has_code(context_.stream());
}

bool LinearOps::fuses(const View& a, std::int64_t cols) const {
    return has_gelu_products_ && takes_gelu_product(a, cols);
}

void LinearOps::forward(const LinearForward& op) {
    if (op.x_TK.rows == 0) return;
    const bool gelu = op.activation == Activation::kGelu;
    const bool codes = op.pre_TN.dtype == DType::kU8;
    if (gelu && op.amax_13.empty() && fuses(op.x_TK, op.w_NK.rows)) return gelu_product(op, context_);
    const View pre = gelu && !op.pre_TN.empty() && !codes ? op.pre_TN : op.y_TN;
    if (!op.amax_13.empty()) {
        forward_fp8(op, pre);
    } else {
        Product product;
        product.a = op.fp16 ? as_fp16(op.x_TK, fp16_.x) : op.x_TK;
        product.b = op.fp16 ? as_fp16(op.w_NK, fp16_.weights) : op.w_NK;
        product.transpose_b = true;
        product.c = pre;
        if (!op.fp16) product.bias = op.bias_1N;
        product.tokens = Product::Tokens::kM;
        products_.multiply(product, "linear forward");
        if (op.fp16) finish_fp16(pre, op.bias_1N);
    }
    if (gelu && !op.y_TN.empty()) apply_gelu(pre, op.y_TN, op.fp16, codes ? op.pre_TN.codes() : nullptr);
}

void LinearOps::backward(const LinearBackward& op) {
    if (op.dy_TN.rows == 0) {
        if (op.accumulate) return;
        context_.fill_zero(op.dw_NK);
        context_.fill_zero(op.dbias_1N);
        return;
    }
    if (!op.amax_13.empty()) return backward_fp8(op);
    const View dy = op.fp16 ? as_fp16(op.dy_TN, fp16_.dy) : op.dy_TN;
    if (!op.dx_TK.empty()) {
        Product product;
        product.a = dy;
        product.b = op.fp16 ? as_fp16(op.w_NK, fp16_.weights) : op.w_NK;
        product.c = op.dx_TK;
        product.tokens = Product::Tokens::kM;
        products_.multiply(product, "linear backward, dx");
        if (op.fp16) finish_fp16(op.dx_TK, {});
    }
    if (op.dw_NK.empty()) return;
    Product product;
    product.a = dy;
    product.transpose_a = true;
    product.b = op.fp16 ? as_fp16(op.x_TK, fp16_.x) : op.x_TK;
    product.c = op.dw_NK;
    product.accumulate = op.accumulate;
    product.tokens = Product::Tokens::kK;
    products_.multiply(product, "linear backward, dw");
    if (!op.dbias_1N.empty()) column_sums_.add_rows(op.dy_TN, op.dbias_1N, op.accumulate);
}

}  // namespace elmo::cuda
