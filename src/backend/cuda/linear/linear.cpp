// Linear layers: cuBLASLt with the bias in the epilogue. cuBLASLt's own GELU is the tanh approximation; ours
// is exact, so it is a separate kernel (gelu.cu). The bias gradient here is a separate pass over dy; most
// biases get theirs from the kernels that make dy instead.
#include "backend/cuda/linear/linear.h"

namespace elmo::cuda {
void LinearOps::forward(const LinearForward& op) {
    if (op.x_TK.rows == 0) return;
    const bool gelu = op.activation == Activation::kGelu;
    const bool codes = op.pre_TN.dtype == DType::kU8;
    const View pre = gelu && !op.pre_TN.empty() && !codes ? op.pre_TN : op.y_TN;
    if (!op.amax_13.empty()) {
        forward_fp8(op, pre);
    } else {
        Product product;
        product.a = op.x_TK;
        product.b = op.w_NK;
        product.transpose_b = true;
        product.c = pre;
        product.bias = op.bias_1N;
        product.tokens = Product::Tokens::kM;
        products_.multiply(product, "linear forward");
    }
    if (gelu) apply_gelu(pre, op.y_TN, codes ? op.pre_TN.codes() : nullptr);
}

void LinearOps::backward(const LinearBackward& op) {
    if (op.dy_TN.rows == 0) {
        if (op.accumulate) return;
        context_.fill_zero(op.dw_NK);
        context_.fill_zero(op.dbias_1N);
        return;
    }
    if (!op.amax_13.empty()) {
        backward_fp8(op);
        if (!op.dbias_1N.empty()) column_sums_.add_rows(op.dy_TN, op.dbias_1N, op.accumulate);
        return;
    }
    if (!op.dx_TK.empty()) {
        Product product;
        product.a = op.dy_TN;
        product.b = op.w_NK;
        product.c = op.dx_TK;
        product.tokens = Product::Tokens::kM;
        products_.multiply(product, "linear backward, dx");
    }
    if (op.dw_NK.empty()) return;
    Product product;
    product.a = op.dy_TN;
    product.transpose_a = true;
    product.b = op.x_TK;
    product.c = op.dw_NK;
    product.accumulate = op.accumulate;
    product.tokens = Product::Tokens::kK;
    products_.multiply(product, "linear backward, dw");
    if (!op.dbias_1N.empty()) column_sums_.add_rows(op.dy_TN, op.dbias_1N, op.accumulate);
}

}  // namespace elmo::cuda
