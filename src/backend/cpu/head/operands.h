// What the products of the head take: the batch, staged once per call, and rows of W, loaded a tile at a
// time.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/rounding.h"
#include "base/parallel.h"

namespace elmo::cpu {

// to [cols, rows] = from [rows, cols], transposed.
void transpose(const float* from, float* to, std::int64_t rows, std::int64_t cols);

// The batch as the products need it: X for the update, its transpose (through E4M3 if asked for) for the
// logits, in FP32 or BF16.
struct StagedBatch {
    const float* x = nullptr;
    const float* xt = nullptr;
    const Bf16* x16 = nullptr;
    const Bf16* xt16 = nullptr;
};

// `x16` is X where products of two BF16 operands run on BF16 instructions, else null.
StagedBatch stage_batch(ThreadPool& threads, const View& x_BD, bool to_e4m3, bool bf16, const Bf16* x16,
                        void* scratch);

// Rows [begin, begin + count) of W as the products take them: FP32, or BF16 (exact) where those run on it;
// weights that are BF16 already stay where they are. `buffer` holds count x width floats, `row` one row.
struct LoadedRows {
    const float* w = nullptr;
    const Bf16* w16 = nullptr;
};
template <class Op>
LoadedRows load_rows(const Op& op, std::int64_t begin, std::int64_t count, bool bf16, float* buffer,
                     float* row) {
    const View rows = op.w_LD.slice(begin, begin + count);
    const std::int64_t width = op.x_BD.cols;
    if (bf16 && rows.dtype == DType::kBf16) return {nullptr, rows.template as<Bf16>()};
    auto* buffer16 = reinterpret_cast<Bf16*>(buffer);
    if (rows.dtype == DType::kU8) {
        for (std::int64_t l = 0; l < count; ++l) {
            const GridRow grid =
                grid_row(op.grid, decode_row_exponent(op.row_exponents_L1.codes()[begin + l]));
            float* to = bf16 ? row : buffer + l * width;
            decode_row(grid, op.grid.bits(), rows.codes() + l * rows.cols, to, width);
            if (bf16) float_to_bf16(row, buffer16 + l * width, width);
        }
    } else if (bf16) {
        decode_bf16(format_of(rows.dtype), rows.codes(), buffer16, rows.size());
    } else {
        load_floats(rows, 0, buffer, rows.size());
    }
    return {bf16 ? nullptr : buffer, bf16 ? buffer16 : nullptr};
}

}  // namespace elmo::cpu
