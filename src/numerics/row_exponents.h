// Which exponent a row of weights has, where every row has its own (weight_grid.h): at the start, and after
// each step. The rules look at single rows, so chunks, threads and backends do not matter.
#pragma once

#include "numerics/weight_grid.h"

namespace elmo {

// The exponent of a new row. Its grid reaches kFirstReach at least: the first updates are many times as large
// as initial weights, because at first every label of every text has a gradient of one half. What is too
// coarse in that for a row ends with the first step, after which exponents may fall.
inline constexpr float kFirstReach = 2.0f;
constexpr int first_row_exponent(const WeightGrid& grid, float largest) {
    return row_exponent_for(grid, largest > kFirstReach ? largest : kFirstReach);
}

// Whether exponents may fall at a step: at every kLoweringSteps-th, and before the first of them at powers of
// two.
inline constexpr std::uint64_t kLoweringSteps = 128;
constexpr bool lowers_rows(std::uint64_t step) {
    return step % kLoweringSteps == 0 || (step < kLoweringSteps && (step & (step - 1)) == 0);
}

// How the exponent of a row changes after a step's update. Up by one if a weight of the row saturated: its
// weights are then rounded to the coarser grid. Down, at a step that lowers, for as long as all weights are
// well below half of the largest number: the finer grid has them all, so nothing is rounded. `largest` is the
// largest size before the change.
constexpr int moved_row_exponent(const WeightGrid& grid, int exponent, bool saturated, float largest,
                                 std::uint64_t step) {
    if (saturated) return exponent < kRowExponentLimit ? exponent + 1 : exponent;
    if (lowers_rows(step))
        while (exponent > -kRowExponentLimit && largest <= grid_row(grid, exponent).max * 0.4375f) --exponent;
    return exponent;
}

}  // namespace elmo
