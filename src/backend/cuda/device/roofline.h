// The best rates of the card, measured with a large product and a large copy.
#pragma once

#include "backend/cuda/device/context.h"
#include "backend/cuda/linear/products.h"

namespace elmo::cuda {

// Takes at most `room_bytes` while it measures.
Ceilings measure_ceilings(CudaContext& context, Products& products, DType storage, std::int64_t room_bytes);

}  // namespace elmo::cuda
