#include "backend/cuda/head/rows.h"

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/storage.cuh"
#include "elmo/error.h"
#include "numerics/normal.h"
#include "numerics/packed_codes.h"
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
        if constexpr (kBits<S> < 8) {
            const auto code = static_cast<std::uint32_t>(code_at(w, kBits<S>, d));
            const auto byte =
                static_cast<std::uint8_t>((code & 0x80u) | (code & 0x7fu) << S::Format::kUnused);
            return S::load(&byte, 0) * factor;
        }
        return kRowCodes<S> ? S::load(w, d) * factor : S::load(w, d);
    }
    // The largest size of the row's weights, by all lanes of a warp.
    __device__ float largest(std::int64_t width, int lane) const {
        float size = 0;
        if constexpr (kBits<S> < 8) {  // codes of one sign are in the order of their numbers
            constexpr std::uint32_t kSize = (1u << (kBits<S> - 1)) - 1;
            std::uint32_t most = 0;
            for (std::int64_t d = 8 * lane; d < width; d += 8 * 32) {
                const auto* const halves = reinterpret_cast<const std::uint16_t*>(w + raws<S>(d));
                std::uint64_t group = 0;
                for (int i = 0; i < kBits<S> / 2; ++i) group |= std::uint64_t{halves[i]} << (16 * i);
                for (int i = 0; i < 8; ++i)
                    most = max(most, static_cast<std::uint32_t>(group >> (i * kBits<S>)) & kSize);
            }
            const auto byte = static_cast<std::uint8_t>(most << S::Format::kUnused);
            size = S::load(&byte, 0) * factor;
        } else {
            for (std::int64_t d = lane; d < width; d += 32) size = fmaxf(size, fabsf(load(d)));
        }
        return warp_max(size);
    }
    // Of packed codes: by all lanes that have weights of a group of eight, each its own.
    __device__ void store(std::int64_t d, float x) const {
        if constexpr (kBits<S> < 8) {
            std::uint8_t byte;
            std::uint32_t ignored = 0;
            S::store(&byte, 0, x * inverse, 0, ignored);
            auto group = static_cast<std::uint64_t>(byte >> S::Format::kUnused) << (d % 8 * kBits<S>);
            const unsigned lanes = 0xffu << (threadIdx.x % 32 & 24u);
            for (int i = 1; i < 8; i *= 2) group |= __shfl_xor_sync(lanes, group, i);
            auto* const to = reinterpret_cast<std::uint16_t*>(w + raws<S>(d - d % 8));
            if (d % 8 < kBits<S> / 2) to[d % 8] = static_cast<std::uint16_t>(group >> (16 * (d % 8)));
        } else if constexpr (kRowCodes<S>) {
            std::uint32_t ignored = 0;
            S::store(w, d, x * inverse, 0, ignored);  // exact: no noise moves it
        } else {
            w[d] = S::encode(x);
        }
    }
};

// The exponent of a label's row, and where it changes its weights; by all lanes of a warp.
template <class S>
__device__ void move_exponent(const HeadArgs& a, const NoiseKey& rescaling, std::int64_t label,
                              bool saturated, int lane) {
    const int before = decode_row_exponent(a.row_exponents[label]);
    auto* first = static_cast<typename S::Raw*>(a.w_LD) + label * raws<S>(a.stride);
    const RowOf<S> was(first, a.grid, before);
    const float largest = was.largest(a.width, lane);  // all lanes have read the exponent
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

// A warp has 32 labels, of which usually none moves.
template <class S>
__global__ void move_exponents_kernel(HeadArgs a, NoiseKey rescaling) {
    const std::int64_t first = a.first_tile * kLabelTile +
                               (static_cast<std::int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.x / 32) * 32;
    const int lane = threadIdx.x % 32;
    const bool is_label = first + lane < min(a.labels, a.last_tile * kLabelTile);
    const bool flagged = is_label && a.row_flags[first + lane] != 0;
    const unsigned saturated = __ballot_sync(0xffffffffu, flagged);
    unsigned moving = lowers_rows(a.rounding.step) ? __ballot_sync(0xffffffffu, is_label) : saturated;
    for (; moving != 0; moving &= moving - 1) {
        const int i = __ffs(static_cast<int>(moving)) - 1;
        move_exponent<S>(a, rescaling, first + i, (saturated >> i & 1u) != 0, lane);
        __syncwarp();
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
void with_grid_storage(DType dtype, const WeightGrid& grid, const Body& body) {
    if (dtype == DType::kBf16) return body(StorageGrid16{});
    if (dtype == DType::kF32) return body(StorageGrid32{});
    if (dtype == DType::kU8 && grid.bits() == 8) return body(StorageRowE2M5{});
    if (dtype == DType::kU8 && grid == kE2M3Grid) return body(StorageRowE2M3{});
    if (dtype == DType::kU8 && grid == kE2M1Grid) return body(StorageRowE2M1{});
    throw DeviceError("head: weights on a grid are bf16, f32 or codes");
}

}  // namespace

void move_exponents(const HeadArgs& args, DType dtype, const NoiseKey& rescaling, cudaStream_t stream) {
    const std::int64_t rows = (args.last_tile - args.first_tile) * kLabelTile;
    if (rows == 0) return;
    with_grid_storage(dtype, args.grid, [&](auto storage) {
        move_exponents_kernel<decltype(storage)>
            <<<blocks_for(rows, 32 * kRowsAtOnce), kThreads, 0, stream>>>(args, rescaling);
    });
    check_launch("head, exponents of rows");
}

void fill_normal_on_grid(const FillNormal& op, cudaStream_t stream) {
    with_grid_storage(op.w.dtype, op.grid, [&](auto storage) {
        fill_rows_kernel<decltype(storage)><<<blocks_for(op.w.rows, kRowsAtOnce), kThreads, 0, stream>>>(op);
    });
    check_launch("filling with normal deviates");
}

}  // namespace elmo::cuda
