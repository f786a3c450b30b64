// Queries, keys and values as bytes (ops/attention.h): eight BF16 numbers at a time, as the kernels of short
// texts do it on their way, and kernels for what other attention kernels read and leave.
#pragma once

#include "backend/cuda/attention/rows.cuh"

namespace elmo::cuda {

// A number of 16 bits in both halves of a word, and such words as BF16 numbers.
__device__ __forceinline__ std::uint32_t twice(std::uint32_t half) {
    return half * 0x10001u;
}
// a * b + c of both halves, rounded once.
__device__ __forceinline__ std::uint32_t multiply_add2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

// The largest magnitudes of eight BF16 numbers a and eight b, as their bits, one in each half.
__device__ __forceinline__ std::uint32_t largest_of(const uint4& a, const uint4& b) {
    const auto of_halves = [](const uint4& x) {
        constexpr std::uint32_t kMagnitudes = 0x7fff7fffu;
        return __vmaxu2(__vmaxu2(x.x & kMagnitudes, x.y & kMagnitudes),
                        __vmaxu2(x.z & kMagnitudes, x.w & kMagnitudes));
    };
    const std::uint32_t of_a = of_halves(a), of_b = of_halves(b);
    return __vmaxu2(__byte_perm(of_a, of_b, 0x5410), __byte_perm(of_a, of_b, 0x7632));
}

// qkv_code of eight numbers: to 128 a number of up to 127 is added, which BF16 then has in steps of one.
__device__ __forceinline__ uint2 qkv_codes(const uint4& x, std::uint32_t exponent) {
    const std::uint32_t factor = twice((260u - exponent) << 7), there = exponent == kQkvNan ? 0u : kWarp;
    const auto of_four = [&](std::uint32_t low, std::uint32_t high) {
        const std::uint32_t a = multiply_add2(low & 0x7fff7fffu, factor, twice(0x4300u)),
                            b = multiply_add2(high & 0x7fff7fffu, factor, twice(0x4300u));
        return (__byte_perm(a, b, 0x6420) | (__byte_perm(low, high, 0x7531) & 0x80808080u)) & there;
    };
    return make_uint2(of_four(x.x, x.y), of_four(x.z, x.w));
}

// qkv_of of eight codes: 128 and a magnitude, times the power of two, less 128 of it.
__device__ __forceinline__ uint4 qkv_of_codes(const uint2& codes, std::uint32_t exponent) {
    const std::uint32_t power = exponent == kQkvNan ? 0x7fff7fffu : twice((exponent - 6u) << 7),
                        less = twice(0x8000u | ((exponent + 1u) << 7));
    const auto of_two = [&](std::uint32_t four, std::uint32_t digits) {
        const std::uint32_t both = __byte_perm(four, 0, digits);  // each code in both bytes of its half
        return multiply_add2((both & 0x007f007fu) | twice(0x4300u), power, less) | (both & 0x80008000u);
    };
    return make_uint4(of_two(codes.x, 0x1100), of_two(codes.x, 0x3322), of_two(codes.y, 0x1100),
                      of_two(codes.y, 0x3322));
}

// A warp per vector: q, k or v of a token and head. Any storage and size. From numbers to codes, back, or
// from numbers to numbers that codes stand for, in place.
enum class Coding { kEncode, kDecode, kRound };
struct CodingArgs {
    QkvCodes codes;
    std::int64_t vectors, size;  // 3 H vectors of each token
};
template <Coding How, class T>
__global__ void __launch_bounds__(256) code_kernel(const __grid_constant__ CodingArgs args, T* qkv) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t vector = (blockIdx.x * std::int64_t{256} + threadIdx.x) / 32;
    if (vector >= args.vectors) return;
    const std::int64_t first = vector * args.size, rows = args.vectors / args.codes.tokens;
    std::uint8_t* const exponent_at =
        args.codes.exponents + vector % rows * args.codes.tokens + vector / rows;
    std::uint8_t exponent;
    if constexpr (How == Coding::kDecode) {
        exponent = *exponent_at;
    } else {
        std::uint32_t largest = 0;
        for (std::int64_t i = lane; i < args.size; i += 32)
            largest = max(largest, magnitude_bits(load_float(qkv, first + i)));
        exponent = qkv_exponent(__reduce_max_sync(kWarp, largest));
    }
    if (How == Coding::kEncode && lane == 0) *exponent_at = exponent;
    for (std::int64_t i = lane; i < args.size; i += 32) {
        std::uint8_t code;
        if constexpr (How == Coding::kDecode)
            code = args.codes.codes[first + i];
        else
            code = qkv_code(load_float(qkv, first + i), exponent);
        if constexpr (How == Coding::kEncode)
            args.codes.codes[first + i] = code;
        else
            store_float(qkv, first + i, qkv_of(code, exponent));
    }
}

}  // namespace elmo::cuda
