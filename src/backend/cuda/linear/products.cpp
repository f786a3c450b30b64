#include "backend/cuda/linear/products.h"

#include "backend/cuda/device/check.h"

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

}  // namespace elmo::cuda
