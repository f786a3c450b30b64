// The operands of FP8 products on a GPU: BF16 matrices as 8-bit codes, as they are and transposed, or, for
// products that have no FP8 kernel, as BF16 numbers on the same grid; with scales made of their largest
// magnitudes. Several matrices share one launch, so small ones cost no extra launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "tensor/view.h"

namespace elmo::cuda {

inline constexpr int kMostFp8Operands = 3;

// How blocks of a launch communicate: zeros before the first launch and after each.
struct AmaxState {
    std::uint32_t largest = 0, arrived = 0;
};

struct Fp8Operand {
    View x;                              // bf16 [rows, cols]
    bool e5m2 = false;                   // else E4M3
    float* amax = nullptr;               // the largest |x|; not finite where an element is not
    float* scale = nullptr;              // receives the factor of the codes
    std::uint8_t* codes = nullptr;       // [rows, cols], or not wanted
    std::uint8_t* transposed = nullptr;  // [cols, rows padded with zeros to sixteens], or not wanted
    __nv_bfloat16* on_grid = nullptr;    // [rows, cols], in place of the codes
    bool amax_known = false;             // else *amax is computed, and may hold a guess before
};

// What cast_fp8 needs beside its operands, on the device.
struct Fp8CastScratch {
    AmaxState states[kMostFp8Operands];
    float guesses[kMostFp8Operands] = {};
};

inline std::int64_t in_sixteens(std::int64_t rows) {
    return (rows + 15) / 16 * 16;
}

// Codes, and *amax where it is not known. The matrix is read once, with the scale of the guess, and again
// where that was not the right one. cols must be multiples of 16, pointers of 16 bytes.
void cast_fp8(std::span<const Fp8Operand> operands, Fp8CastScratch* scratch, cudaStream_t stream);
// on_grid, and *amax where it is not known; any size.
void round_to_fp8_grid(std::span<const Fp8Operand> operands, Fp8CastScratch* scratch, cudaStream_t stream);

}  // namespace elmo::cuda
