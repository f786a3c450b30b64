// Weights of fewer than 8 bits: the rows of a chunk are expanded to BF16, which holds them exactly, the
// kernels of weights on a grid do their work on that, and the chunk is packed again. For Hopper's kernels
// they become bytes instead, and rows that do not begin at multiples of 16 bytes are moved apart.
#pragma once

#include <cuda_runtime.h>

#include "backend/ops/head.h"

namespace elmo::cuda {

// Of the expanded rows: small enough to stay in a large card's L2 cache between the kernels of a chunk.
inline constexpr std::int64_t kExpandedBytes = std::int64_t{32} << 20;
// Labels that this holds: whole tiles, at least one.
std::int64_t expanded_labels(std::int64_t width);

// Of HeadStep or HeadTopK: W in the type and shape that kernels see. If it is packed, no memory is behind it:
// each chunk has its own.
template <class Op>
View weights_of(const Op& op) {
    return is_packed(op) ? View{nullptr, DType::kBf16, op.w_LD.rows, op.x_BD.cols} : op.w_LD;
}

// Converts packed rows with their exponents to the same rows in BF16 on the grid, and back, exactly.
void expand_rows(const View& packed, const View& exponents, const WeightGrid& grid, const View& expanded,
                 cudaStream_t stream);
void pack_rows(const View& expanded, const View& exponents, const WeightGrid& grid, const View& packed,
               cudaStream_t stream);

// The bytes of a row as Hopper's kernels take it, and whether they take rows as they are stored.
inline std::int64_t aligned_row_bytes(DType dtype, std::int64_t width) {
    return (width * size_of(dtype) + 15) / 16 * 16;
}
template <class Op>
bool takes_rows_as_stored(const Op& op) {
    return !is_packed(op) &&
           aligned_row_bytes(op.w_LD.dtype, op.w_LD.cols) == op.w_LD.cols * size_of(op.w_LD.dtype);
}
// Converts stored rows to aligned ones, of as many columns or more (zeros follow), and back. Packed codes
// become codes of E2M5, which has their numbers.
void align_rows(const View& stored, const WeightGrid& grid, const View& aligned, cudaStream_t stream);
void store_rows(const View& aligned, const WeightGrid& grid, const View& stored, cudaStream_t stream);

}  // namespace elmo::cuda
