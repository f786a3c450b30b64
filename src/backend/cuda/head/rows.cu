#include "backend/cuda/head/rows.h"

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/storage.cuh"
#include "elmo/error.h"
#include "numerics/normal.h"
#include "numerics/row_exponents.h"

namespace elmo::cuda {
namespace {

constexpr int kRowsAtOnce = kThreads / 32;  // one warp per row

__device__ __forceinline__ float warp_max(float x) {
    for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

// Weights of a row whose grid has this exponent: read, and written where they are on it.
template <class S>
struct RowOf {
    typename S::Raw* w;
    float factor, inverse;
    __device__ RowOf(void* first, const WeightGrid& grid, int exponent)
        : w(static_cast<typename S::Raw*>(first)),
          factor(power_of_two(exponent + kMiniBias - grid.bias)),
          inverse(power_of_two(-(exponent + kMiniBias - grid.bias))) {}
    __device__ float load(std::int64_t d) const {
        return kRowCodes<S> ? S::load(w, d) * factor : S::load(w, d);
    }
    __device__ void store(std::int64_t d, float x) const {
        if constexpr (kRowCodes<S>) {
            std::uint32_t ignored = 0;
            S::store(w, d, x * inverse, 0, ignored);  // exact: no noise moves it
        } else {
            w[d] = S::encode(x);
        }
    }
};

template <class S>
__global__ void move_exponents_kernel(HeadArgs a, NoiseKey rescaling) {
    const std::int64_t label =
        a.first_tile * kLabelTile + static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (label >= a.labels || label >= a.last_tile * kLabelTile) return;
    const bool saturated = a.row_flags[label] != 0;
    if (!saturated && !lowers_rows(a.rounding.step)) return;
    const int before = decode_row_exponent(a.row_exponents[label]);
    auto* first = static_cast<typename S::Raw*>(a.w_LD) + label * a.stride;
    const RowOf<S> was(first, a.grid, before);
    float largest = 0;
    for (std::int64_t d = lane; d < a.width; d += 32) largest = fmaxf(largest, fabsf(was.load(d)));
    largest = warp_max(largest);  // all lanes have read flag and exponent
    const int after = moved_row_exponent(a.grid, before, saturated, largest, a.rounding.step);
    if (lane == 0) {
        a.row_flags[label] = 0;
        a.row_exponents[label] = encode_row_exponent(after);
    }
    if (after == before || (after < before && !kRowCodes<S>)) return;
    const GridRow row = grid_row(a.grid, after);
    const RowOf<S> now(first, a.grid, after);
    bf16* const c = after > before ? compensation_of(a, label) : nullptr;
    for (std::int64_t d = lane; d < a.width; d += 32) {  // a lowered row has the same weights, other codes
        std::uint32_t count = 0;
        const float w = was.load(d);
        const float t = round_to_grid(row, w, a.grid.nearest || c != nullptr,
                                      noise16(rescaling, a.first_label + label, d), count);
        if (c != nullptr) c[d] = __float2bfloat16_rn(__bfloat162float(c[d]) + (w - t));
        now.store(d, t);
    }
}

template <class S>
__global__ void fill_rows_kernel(FillNormal op) {
    const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (r >= op.w.rows) return;
    const std::int64_t row = op.first_row + r, cols = op.w.cols;
    int exponent = 0;
    if (op.grid.row_scaled) {
        float largest = 0;
        for (std::int64_t c = lane; c < cols; c += 32)
            largest = fmaxf(largest, fabsf(op.sigma * noise_normal(op.key, row, c)));
        largest = warp_max(largest);
        exponent = first_row_exponent(op.grid, largest);
        if (lane == 0) static_cast<std::uint8_t*>(op.row_exponents.data)[r] = encode_row_exponent(exponent);
    }
    const GridRow grid = grid_row(op.grid, exponent);
    const RowOf<S> to(static_cast<typename S::Raw*>(op.w.data) + r * cols, op.grid, exponent);
    for (std::int64_t c = lane; c < cols; c += 32) {
        std::uint32_t saturated = 0;
        to.store(c, round_to_grid(grid, op.sigma * noise_normal(op.key, row, c), false,
                                  noise16(op.rounding, row, c), saturated));
    }
}

// body(a storage) for weights on a grid.
template <class Body>
void with_grid_storage(DType dtype, const Body& body) {
    if (dtype == DType::kBf16) return body(StorageGrid16{});
    if (dtype == DType::kF32) return body(StorageGrid32{});
    if (dtype == DType::kU8) return body(StorageRowE2M5{});
    throw DeviceError("head: weights on a grid are bf16, f32 or codes");
}

}  // namespace

void move_exponents(const HeadArgs& args, DType dtype, const NoiseKey& rescaling, cudaStream_t stream) {
    const std::int64_t rows = (args.last_tile - args.first_tile) * kLabelTile;
    if (rows == 0) return;
    with_grid_storage(dtype, [&](auto storage) {
        move_exponents_kernel<decltype(storage)>
            <<<blocks_for(rows, kRowsAtOnce), kThreads, 0, stream>>>(args, rescaling);
    });
    check_launch("head, exponents of rows");
}

void fill_normal_on_grid(const FillNormal& op, cudaStream_t stream) {
    with_grid_storage(op.w.dtype, [&](auto storage) {
        fill_rows_kernel<decltype(storage)><<<blocks_for(op.w.rows, kRowsAtOnce), kThreads, 0, stream>>>(op);
    });
    check_launch("filling with normal deviates");
}

}  // namespace elmo::cuda
