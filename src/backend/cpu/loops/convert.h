// Conversions between storage types, a row or a block at a time, vectorised.
#pragma once

#include <cstdint>

#include "numerics/bf16.h"
#include "numerics/minifloat.h"
#include "tensor/view.h"

namespace elmo::cpu {

void bf16_to_float(const Bf16* from, float* to, std::int64_t count);
void float_to_bf16(const float* from, Bf16* to, std::int64_t count);  // to nearest even
void round_to_bf16(float* x, std::int64_t count);                     // in place, kept as FP32
// numerics/bf16.h's round_fp16, in place.
void round_to_fp16(float* x, std::int64_t count);
// 8-bit codes of a format to FP32; exact.
void decode(const MiniFloat& format, const std::uint8_t* from, float* to, std::int64_t count);
// To BF16; exact for E4M3 and E3M4.
void decode_bf16(const MiniFloat& format, const std::uint8_t* from, Bf16* to, std::int64_t count);
// x rounded to E4M3 (to nearest even, saturating) and back.
void through_e4m3(const float* from, float* to, std::int64_t count);

// `count` elements of a view from element `first` on, as FP32 / from FP32 (to nearest).
void load_floats(const View& from, std::int64_t first, float* to, std::int64_t count);
void store_floats(const float* from, const View& to, std::int64_t first, std::int64_t count);

const MiniFloat& format_of(DType dtype);  // kE4M3 or kE3M4

}  // namespace elmo::cpu
