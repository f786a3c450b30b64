// The operands of FP8 products on a CPU: BF16 numbers rounded to the grid of an 8-bit format with a scale of
// their own. The products themselves are those of BF16, which holds the rounded numbers exactly. Those of
// FP16 products are FP32 numbers rounded to FP16, multiplied in FP32.
#pragma once

#include <cstdint>

#include "base/parallel.h"
#include "numerics/bf16.h"
#include "numerics/minifloat.h"
#include "tensor/view.h"

namespace elmo::cpu {

// The largest magnitude of a BF16 matrix, in parallel; not finite where an element is not.
float amax_of(ThreadPool& threads, const View& matrix);

class OperandGrid {
  public:
    OperandGrid() = default;  // no grid: round() does nothing
    // For numbers of magnitude up to `amax`, in E4M3 or E5M2.
    OperandGrid(const MiniFloat& format, float amax);

    static OperandGrid fp16() {
        OperandGrid grid;
        grid.kind_ = Kind::kFp16;
        return grid;
    }

    // In place, to nearest even; NaN and infinities become NaN (FP16 has both).
    void round(float* x, std::int64_t count) const;
    void round(Bf16* x, std::int64_t count) const;
    // E4M3: the codes of what round would give, and the numbers of such codes.
    void encode(const View& x, std::int64_t begin, std::int64_t count, std::uint8_t* codes) const;
    void decode(const std::uint8_t* codes, float* x, std::int64_t count) const;
    void decode(const std::uint8_t* codes, Bf16* x, std::int64_t count) const;

  private:
    enum class Kind { kNone, kE4M3, kE5M2, kFp16 } kind_ = Kind::kNone;
    float up_ = 1, down_ = 1;  // the scale and its inverse, powers of two
};

}  // namespace elmo::cpu
