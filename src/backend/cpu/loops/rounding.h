// Stochastic rounding of whole rows, vectorised; bit for bit the scalar definitions of numerics/minifloat.h.
#pragma once

#include <cstdint>

#include "numerics/bf16.h"
#include "numerics/minifloat.h"
#include "numerics/weight_grid.h"

namespace elmo::cpu {

void round_row(const float* x, const std::uint16_t* noise, Bf16* to, std::int64_t count);
// Returns how many values were beyond the largest finite number.
std::int64_t round_row(const MiniFloat& format, const float* x, const std::uint16_t* noise, std::uint8_t* to,
                       std::int64_t count);
// In place, to a row's grid. Returns the same.
std::int64_t round_row(const GridRow& grid, bool nearest, const std::uint16_t* noise, float* x,
                       std::int64_t count);
// Codes of a row's grid, exact both ways; packed where they have fewer than 8 bits, `count` being whole
// groups.
void decode_row(const GridRow& grid, int bits, const std::uint8_t* row, float* to, std::int64_t count);
void encode_row(const GridRow& grid, int bits, const float* x, std::uint8_t* row, std::int64_t count);

}  // namespace elmo::cpu
