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

// The arguments of aligning and storing rows: units of a row on either side.
struct AlignedRows {
    void* stored;
    void* aligned;
    std::int64_t rows, stored_units, aligned_units;
};

template <class Unit, bool Align>
__global__ void move_rows_kernel(AlignedRows a) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t units = Align ? a.aligned_units : a.stored_units;
    if (i >= a.rows * units) return;
    const std::int64_t row = i / units, unit = i % units;
    auto* stored = static_cast<Unit*>(a.stored) + row * a.stored_units + unit;
    auto* aligned = static_cast<Unit*>(a.aligned) + row * a.aligned_units + unit;
    if constexpr (Align)
        *aligned = unit < a.stored_units ? *stored : Unit{0};
    else
        *stored = *aligned;
}

template <bool Align>
void move_rows(const View& stored, const View& aligned, cudaStream_t stream) {
    if (stored.empty()) return;
    const std::int64_t from = stored.bytes() / stored.rows, to = aligned.bytes() / aligned.rows;
    const auto launch = [&]<class Unit>(Unit) {
        constexpr auto kUnit = static_cast<std::int64_t>(sizeof(Unit));
        const AlignedRows a{stored.data, aligned.data, stored.rows, from / kUnit, to / kUnit};
        move_rows_kernel<Unit, Align>
            <<<blocks_for(a.rows * (Align ? a.aligned_units : a.stored_units), kThreads), kThreads, 0,
               stream>>>(a);
        check_launch("head, rows of weights");
    };
    if (from % 8 == 0 && to % 8 == 0)
        launch(std::uint64_t{});
    else if (from % 4 == 0 && to % 4 == 0)
        launch(std::uint32_t{});
    else if (from % 2 == 0 && to % 2 == 0)
        launch(std::uint16_t{});
    else
        launch(std::uint8_t{});
}

}  // namespace

void align_rows(const View& stored, const View& aligned, cudaStream_t stream) {
    move_rows<true>(stored, aligned, stream);
}

void store_rows(const View& aligned, const View& stored, cudaStream_t stream) {
    move_rows<false>(stored, aligned, stream);
}

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
