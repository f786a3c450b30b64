// The operands of FP8 products on a GPU: BF16 matrices as 8-bit codes, as they are and transposed, with
// scales made of their largest magnitudes. Several matrices share one launch, so small ones cost no extra
// launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "backend/cuda/device/context.h"
#include "tensor/view.h"

namespace elmo::cuda {

inline constexpr int kMostFp8Operands = 3;

// How blocks of a launch communicate: zeros before the first launch and after each.
struct AmaxState {
    std::uint32_t largest = 0, arrived = 0;
};

struct Fp8Operand {
    // bf16 [rows, cols]; without rows: only the scale is wanted. Or bytes, where its amax is known: codes of
    // what a GELU saw.
    View x;
    bool e5m2 = false;                   // else E4M3; a gradient, at most one of a launch
    float* amax = nullptr;               // the largest |x|; not finite where an element is not
    float* scale = nullptr;              // receives the factor of the codes
    std::uint8_t* codes = nullptr;       // [rows, cols], or not wanted
    std::uint8_t* transposed = nullptr;  // [cols, rows], or not wanted
    bool pads = false;                   // rows of `transposed` are padded with zeros to sixteens
    std::uint8_t* slope = nullptr;       // [rows, cols]: x is what a GELU sees (ops/linear.h)
    std::uint8_t* seen = nullptr;        // the same, and the codes of x are wanted, not the slopes
    // What is cast is the product of x and slope_of(times), rounded to BF16: it goes to `product` where codes
    // overwrite `times`, and its column sums, in fp8_cast_sums() parts, to `sums` where wanted. With E5M2.
    // Or `times` are codes of what a GELU saw, and the product is with its derivative there.
    const std::uint8_t* times = nullptr;
    bool times_seen = false;
    void* product = nullptr;
    float* sums = nullptr;
    bool amax_known = false;  // else *amax is computed, and may hold a guess before
};

// What cast_fp8 needs beside its operands, on the device.
inline constexpr std::uint32_t kGeluEntries = 4096;
struct Fp8CastScratch {
    AmaxState states[kMostFp8Operands];
    float guesses[kMostFp8Operands] = {}, drift = 0;
    // GELU by its input, with slopes and with codes of the input (fp8_cast.cu).
    alignas(16) std::uint32_t gelu[2][kGeluEntries] = {};
};
// Makes that, once.
void prepare_cast_fp8(Fp8CastScratch* scratch, cudaStream_t stream);

std::int64_t fp8_cast_sums(std::int64_t rows, std::int64_t cols);

// Codes, and *amax where it is not known. A matrix is read once, with the scale of the guess, and again where
// that was not the right one. Columns in sixteens are the fast way, with pointers at multiples of 16 bytes,
// and the only one for products with slopes. No operand may have those beside another that has a GELU.
void cast_fp8(std::span<const Fp8Operand> operands, Fp8CastScratch* scratch, const CudaContext& context);

}  // namespace elmo::cuda
