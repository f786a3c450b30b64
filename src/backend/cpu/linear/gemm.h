// Small matrix products on the calling thread, through oneDNN. Parallelism is the caller's: it cuts the
// work by size, so that sums do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "numerics/bf16.h"

namespace elmo::cpu {

// c[m,n] = (or +=) op(a)[m,k] op(b)[k,n]; row-major with leading dimensions; FP32 accumulation.
struct Gemm {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t lda = 0, ldb = 0, ldc = 0;
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;
    bool operator==(const Gemm&) const = default;
};

void gemm(const Gemm& shape, const float* a, const float* b, float* c);
void gemm(const Gemm& shape, const Bf16* a, const Bf16* b, float* c);

}  // namespace elmo::cpu
