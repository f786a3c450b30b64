// Weights of fewer than 8 bits: the rows of a chunk are expanded to BF16, which holds them exactly, the
// kernels of weights on a grid do their work on that, and the chunk is packed again. Hopper's kernels take
// packed rows, but rows of other lengths than they can load are moved apart for them.
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

// Columns of a row as Hopper's kernels take it: whole pieces of 16 bytes, or of packed codes two pieces of 16
// (hopper.cuh).
inline std::int64_t aligned_columns(DType dtype, bool packed, std::int64_t width) {
    const std::int64_t unit = packed ? 32 : 16 / size_of(dtype);
    return (width + unit - 1) / unit * unit;
}
template <class Op>
std::int64_t aligned_columns(const Op& op) {
    return aligned_columns(op.w_LD.dtype, is_packed(op), op.x_BD.cols);
}
// Whether they take rows as they are stored.
template <class Op>
bool takes_rows_as_stored(const Op& op) {
    return aligned_columns(op) == op.x_BD.cols;
}
// The bytes of a row as they take it.
template <class Op>
std::int64_t aligned_row_bytes(const Op& op) {
    const std::int64_t columns = aligned_columns(op);
    return is_packed(op) ? op.grid.packed_bytes(columns) : columns * size_of(op.w_LD.dtype);
}
// Converts stored rows to aligned ones, of as many bytes or more (zeros follow), and back.
void align_rows(const View& stored, const View& aligned, cudaStream_t stream);
void store_rows(const View& aligned, const View& stored, cudaStream_t stream);

}  // namespace elmo::cuda
