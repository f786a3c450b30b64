#include "backend/cuda/head/packed.h"

#include <algorithm>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/math.cuh"
#include "backend/cuda/head/args.h"
#include "numerics/packed_codes.h"

namespace elmo::cuda {
namespace {

// The arguments of both directions. A thread has one group of eight codes: groups begin at even bytes.
struct PackedRows {
    std::uint16_t* packed;
    bf16* expanded;
    const std::uint8_t* exponents;
    std::int64_t rows, groups;  // groups of a row
    WeightGrid grid;
};

template <bool Expand>
__global__ void convert_rows_kernel(PackedRows a) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= a.rows * a.groups) return;
    const int bits = a.grid.bits(), halves = bits / 2;
    const GridRow row = grid_row(a.grid, decode_row_exponent(a.exponents[i / a.groups]));
    std::uint16_t* packed = a.packed + i * halves;
    bf16* expanded = a.expanded + i * kCodeGroup;
    std::uint64_t group = 0;
    float v[kCodeGroup];
    if constexpr (Expand) {
        for (int h = 0; h < halves; ++h) group |= static_cast<std::uint64_t>(packed[h]) << (16 * h);
#pragma unroll
        for (int j = 0; j < kCodeGroup; ++j) v[j] = decode_grid_code(row, code_of_group(group, bits, j));
        store8(expanded, v);
    } else {
        load8(expanded, v);
#pragma unroll
        for (int j = 0; j < kCodeGroup; ++j) group |= group_of_code(encode_grid_code(row, v[j]), bits, j);
        for (int h = 0; h < halves; ++h) packed[h] = static_cast<std::uint16_t>(group >> (16 * h));
    }
}

template <bool Expand>
void convert_rows(const View& packed, const View& exponents, const WeightGrid& grid, const View& expanded,
                  cudaStream_t stream) {
    if (expanded.empty()) return;
    const PackedRows a{static_cast<std::uint16_t*>(packed.data),
                       static_cast<bf16*>(expanded.data),
                       exponents.codes(),
                       expanded.rows,
                       expanded.cols / kCodeGroup,
                       grid};
    convert_rows_kernel<Expand><<<blocks_for(a.rows * a.groups, kThreads), kThreads, 0, stream>>>(a);
    check_launch("head, packed weights");
}

}  // namespace

std::int64_t expanded_labels(std::int64_t width) {
    return std::max<std::int64_t>(kExpandedBytes / (2 * width * kLabelTile), 1) * kLabelTile;
}

void expand_rows(const View& packed, const View& exponents, const WeightGrid& grid, const View& expanded,
                 cudaStream_t stream) {
    convert_rows<true>(packed, exponents, grid, expanded, stream);
}

void pack_rows(const View& expanded, const View& exponents, const WeightGrid& grid, const View& packed,
               cudaStream_t stream) {
    convert_rows<false>(packed, exponents, grid, expanded, stream);
}

}  // namespace elmo::cuda
