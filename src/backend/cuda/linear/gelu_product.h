// Products of BF16 matrices with GELU or its derivative in their ends, on Hopper (gelu_product.cuh).
#pragma once

#include "backend/cuda/device/context.h"
#include "backend/ops/linear.h"

namespace elmo::cuda {

// Whether these kernels make the product of a [rows, sum] with a weight: [rows, cols].
bool takes_gelu_product(const View& a, std::int64_t cols);

// All of a forward with GELU: pre or its codes, y or both.
void gelu_product(const LinearForward& op, const CudaContext& context);

// All of a backward that begins with a product, but the bias gradient: `partials`, where it is not null,
// receives parts of it.
void gelu_product(const GeluBackward& op, float* partials, const CudaContext& context);
std::int64_t gelu_product_partials(std::int64_t rows);

}  // namespace elmo::cuda
