// Linear layers: cuBLASLt with the bias in the epilogue. cuBLASLt's own GELU is the tanh approximation; ours
// is exact, so it is a kernel of its own (elementwise.cu). Its bias gradient is a pass over dy of its own as
// well: most biases get theirs from the kernels that make dy instead.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/products.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::kBf16:
            return CUDA_R_16BF;
        case DType::kF16:
            return CUDA_R_16F;
        case DType::kE4M3:
            return CUDA_R_8F_E4M3;
        case DType::kE5M2:
            return CUDA_R_8F_E5M2;
        default:
            return CUDA_R_32F;
    }
}

// A row-major matrix as cuBLAS sees it: columns and rows exchanged.
struct Layout {
    cublasLtMatrixLayoutOpaque_t opaque{};
    Layout(DType dtype, std::int64_t rows, std::int64_t cols) {
        check(cublasLtMatrixLayoutInit(&opaque, type_of(dtype), static_cast<std::uint64_t>(cols),
                                       static_cast<std::uint64_t>(rows), cols),
              "describing a matrix");
    }
};

// The shape of a product with m, n, k as stored.
struct Layouts {
    Layout a, b, c;
    Layouts(const Product& p, std::int64_t m, std::int64_t n, std::int64_t k)
        : a(p.a.dtype, p.transpose_a ? k : m, p.transpose_a ? m : k),
          b(p.b.dtype, p.transpose_b ? n : k, p.transpose_b ? k : n),
          c(p.c.dtype, m, n) {}
};

std::int64_t in_steps(std::int64_t size) {
    return (size + 255) / 256 * 256;
}

}  // namespace

bool Products::run(const Product& p, const View& workspace, const char* op) {
    const std::int64_t m = p.c.rows, n = p.c.cols, k = p.transpose_a ? p.a.rows : p.a.cols;
    // With rows that are not whole pieces of 16 bytes, and when it adds to 16 bits, cuBLASLt rounds to them
    // twice.
    const bool short_c = size_of(p.c.dtype) == 2;
    if (short_c && (p.accumulate || p.a.cols % 8 != 0 || p.b.cols % 8 != 0 || n % 8 != 0)) return false;
    const bool fp8 = p.scale_a != nullptr;
    cublasLtMatmulDescOpaque_t desc{};
    check(cublasLtMatmulDescInit(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), op);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
        check(cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof(value)), op);
    };
    // c^T = op(b)^T op(a)^T: the operands change places.
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (fp8) {
        set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_b);
        set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_a);
    }
    const bool biased = !p.bias.empty();
    if (biased) {
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data);
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.dtype));
    }

    const std::int64_t km = p.tokens == Product::Tokens::kM ? in_steps(m) : m;
    const std::int64_t kk = p.tokens == Product::Tokens::kK ? in_steps(k) : k;
    const int kind = biased | p.transpose_a << 2 | p.transpose_b << 3 | p.accumulate << 4 |
                     (p.a.dtype == DType::kBf16) << 5 | (p.c.dtype == DType::kBf16) << 6 | fp8 << 7 |
                     (p.a.dtype == DType::kE5M2) << 8 | (p.a.dtype == DType::kF16) << 9 |
                     (p.c.dtype == DType::kF16) << 10;
    const auto [place, is_new] = choices_.try_emplace(Key{km, n, kk, kind});
    Choice& choice = place->second;
    if (is_new) {
        Layouts planned(p, km, n, kk);
        cublasLtMatmulPreferenceOpaque_t preference{};
        check(cublasLtMatmulPreferenceInit(&preference), op);
        const std::size_t room = static_cast<std::size_t>(workspace.bytes());
        check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &room, sizeof(room)),
              op);
        // Sums that are split must be added up in FP32, not in the output's type.
        const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                   &schemes, sizeof(schemes)),
              op);
        cublasLtMatmulHeuristicResult_t result{};
        int found = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
            lt_, &desc, &planned.b.opaque, &planned.a.opaque, &planned.c.opaque, &planned.c.opaque,
            &preference, 1, &result, &found);
        choice.found = status == CUBLAS_STATUS_SUCCESS && found > 0;
        choice.algorithm = result.algo;
    }
    Layouts layouts(p, m, n, k);
    const float one = 1, beta = p.accumulate ? 1.0f : 0.0f;
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (choice.found)
        status =
            cublasLtMatmul(lt_, &desc, &one, p.b.data, &layouts.b.opaque, p.a.data, &layouts.a.opaque, &beta,
                           p.c.data, &layouts.c.opaque, p.c.data, &layouts.c.opaque, &choice.algorithm,
                           workspace.data, static_cast<std::size_t>(workspace.bytes()), stream_);
    return status == CUBLAS_STATUS_SUCCESS;
}

void CudaBackend::linear_forward(const LinearForward& op) {
    if (op.x_TK.rows == 0) return;
    const bool gelu = op.activation == Activation::kGelu;
    const View pre = gelu && !op.pre_TN.empty() ? op.pre_TN : op.y_TN;
    if (!op.amax_13.empty()) {
        product_forward_fp8(op, pre);
    } else {
        Product product;
        product.a = op.x_TK;
        product.b = op.w_NK;
        product.transpose_b = true;
        product.c = pre;
        product.bias = op.bias_1N;
        product.tokens = Product::Tokens::kM;
        multiply(product, "linear forward");
    }
    if (gelu) cuda::gelu(pre, op.y_TN, stream_);
}

void CudaBackend::linear_backward(const LinearBackward& op) {
    if (op.dy_TN.rows == 0) {
        if (op.accumulate) return;
        fill_zero(op.dw_NK);
        fill_zero(op.dbias_1N);
        return;
    }
    if (!op.amax_13.empty()) {
        product_backward_fp8(op);
        if (!op.dbias_1N.empty()) column_sums(op.dy_TN, op.dbias_1N, op.accumulate);
        return;
    }
    if (!op.dx_TK.empty()) {
        Product product;
        product.a = op.dy_TN;
        product.b = op.w_NK;
        product.c = op.dx_TK;
        product.tokens = Product::Tokens::kM;
        multiply(product, "linear backward, dx");
    }
    if (op.dw_NK.empty()) return;
    Product product;
    product.a = op.dy_TN;
    product.transpose_a = true;
    product.b = op.x_TK;
    product.c = op.dw_NK;
    product.accumulate = op.accumulate;
    product.tokens = Product::Tokens::kK;
    multiply(product, "linear backward, dw");
    if (!op.dbias_1N.empty()) column_sums(op.dy_TN, op.dbias_1N, op.accumulate);
}

void CudaBackend::multiply(const Product& product, const char* op) {
    if (!products_->run(product, workspace_, op)) plain_product(product, stream_, op);
}

Ceilings CudaBackend::measure_ceilings(DType storage, std::int64_t room_bytes) {
    // Operands of a size that fills the chip, where memory allows.
    const DType dtype = storage == DType::kF32 ? DType::kF32 : DType::kBf16;
    std::int64_t size = 8192;
    const std::int64_t room = std::min(room_bytes, free_bytes()) - Products::kWorkspaceBytes;
    while (size > 512 && 3 * size * size * 4 > room) size /= 2;
    const std::int64_t bytes = size * size * 4;
    const auto block = allocate(3 * bytes + Products::kWorkspaceBytes);
    char* base = static_cast<char*>(block->data());
    const auto matrix = [&](int i) { return View{base + i * bytes, dtype, size, size}; };
    const View workspace{base + 3 * bytes, DType::kU8, 1, Products::kWorkspaceBytes};
    for (int i = 0; i < 2; ++i) fill_normal({matrix(i), 1.0f, {1, 0, 1}, {1, 0, 2}, 0});
    Product product;
    product.a = matrix(0);
    product.b = matrix(1);
    product.c = matrix(2);
    const auto rate = [&](double amount, const auto& work) {
        constexpr int kRepeats = 9, kFirst = kMarks - kRepeats - 1;
        for (int i = 0; i < 3; ++i) work();
        for (int i = 0; i < kRepeats; ++i) {
            mark(kFirst + i);
            work();
        }
        mark(kFirst + kRepeats);
        std::vector<double> ms;
        for (int i = 0; i < kRepeats; ++i) ms.push_back(elapsed_ms(kFirst + i, kFirst + i + 1));
        std::sort(ms.begin(), ms.end());
        return amount / ms[kRepeats / 2] / 1e6;
    };
    Ceilings ceilings;
    const double edge = static_cast<double>(size);
    ceilings.gflops = rate(2 * edge * edge * edge,
                           [&] { products_->run(product, workspace, "measuring the product rate"); });
    ceilings.gbytes = rate(2.0 * static_cast<double>(bytes), [&] {
        check(cudaMemcpyAsync(base, base + bytes, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                              stream_),
              "measuring the copy rate");
    });
    wait();
    return ceilings;
}

}  // namespace elmo::cuda
