// Matrix products by cuBLASLt: descriptors and chosen algorithms, kept for the shapes that come again.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "backend/cuda/device/context.h"
#include "tensor/view.h"

namespace elmo::cuda {

// c [m, n] = op(a) [m, k] op(b) [k, n] (+ c), row-major. Operands are BF16, F32 (c is BF16 or F32) or F16
// (c is F16 or F32), the same for both; accumulation in FP32. Or operands are FP8, a E4M3 or E5M2 and b E4M3,
// b transposed and a not, with a scale each, and sums keep the bits that FP8 instructions keep.
struct Product {
    View a, b, c;
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;
    View bias;                                           // [1, n], added to each row of c
    const float *scale_a = nullptr, *scale_b = nullptr;  // of FP8 operands, on the device
    // Of FP8 operands: sums stay in the instructions' accumulators, with fewer bits, to the end.
    bool fast = false;
    // Which size is the number of tokens: it differs from batch to batch.
    enum class Tokens { kM, kK, kNone } tokens = Tokens::kNone;
};

class Products {
  public:
    static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

    explicit Products(CudaContext& context) : context_(context) {}
    void reserve(Arena& arena);

    // By cuBLASLt, or by a plain kernel if it has none.
    void multiply(const Product& product, const char* op);
    // By cuBLASLt. Returns false and does nothing if cuBLASLt has no kernel for it, and warns once per shape
    // unless the sizes are known to be awkward. DeviceError if cuBLASLt fails.
    bool run(const Product& product, const char* op) { return run(product, workspace_, op); }
    bool run(const Product& product, const View& workspace, const char* op);

  private:
    // Everything the choice of an algorithm depends on; the row count of a packed batch in steps of 256.
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, int>;
    struct Choice {
        cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
        cublasLtMatmulAlgo_t algorithm{};
    };
    struct Call;

    Choice choose(Call& call, std::int64_t m, std::int64_t k) const;
    // With the algorithm that was chosen for these sizes.
    cublasStatus_t run_chosen(Call& call, std::int64_t for_m, std::int64_t for_k);

    CudaContext& context_;
    View workspace_;
    std::map<Key, Choice> choices_;
    std::set<Key> warned_;
};

// Any size, slowly.
void plain_product(const Product& product, cudaStream_t stream, const char* op);

}  // namespace elmo::cuda
