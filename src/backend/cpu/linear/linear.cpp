// Linear layers of the CPU backend: rows in fixed blocks, each a product on one thread.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/linear/gemm.h"
#include "backend/cpu/linear/operand_grid.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/math.h"
#include "backend/cpu/scratch.h"
#include "base/clones.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t to) {
    return (value + to - 1) / to * to;
}

// Rows [begin, end) of x, rounded to the grid, as operand type T (FP32 or BF16) in `to`, zero rows up to
// `padded`.
template <class T>
void stage_rows(const View& x, std::int64_t begin, std::int64_t end, std::int64_t padded,
                const OperandGrid& grid, T* to) {
    const std::int64_t count = (end - begin) * x.cols;
    if constexpr (std::is_same_v<T, float>)
        load_floats(x, begin * x.cols, to, count);
    else
        std::memcpy(to, x.as<Bf16>() + begin * x.cols, static_cast<std::size_t>(count) * sizeof(T));
    grid.round(to, count);
    std::memset(static_cast<void*>(to + count), 0,
                static_cast<std::size_t>((padded - (end - begin)) * x.cols) * sizeof(T));
}

// The same from codes.
template <class T>
void stage_codes(const View& codes, std::int64_t cols, std::int64_t begin, std::int64_t end,
                 std::int64_t padded, const OperandGrid& grid, T* to) {
    const std::int64_t count = (end - begin) * cols;
    grid.decode(codes.codes() + begin * cols, to, count);
    std::memset(static_cast<void*>(to + count), 0,
                static_cast<std::size_t>((padded - (end - begin)) * cols) * sizeof(T));
}

// A whole matrix, rounded to the grid, as FP32 in `to`, in parallel.
void stage_matrix(ThreadPool& threads, const View& w, const OperandGrid& grid, float* to) {
    threads.parallel_ranges(w.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        load_floats(w, begin, to + begin, end - begin);
        grid.round(to + begin, end - begin);
    });
}

// The weights as BF16 products take them: as they are, or a copy on the grid.
const Bf16* stage_weights(ThreadPool& threads, const View& w, bool fp8, const OperandGrid& grid,
                          ScratchCutter& scratch) {
    if (!fp8) return w.as<Bf16>();
    Bf16* staged = scratch.take<Bf16>(w.size());
    threads.parallel_ranges(w.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::copy(w.as<Bf16>() + begin, w.as<Bf16>() + end, staged + begin);
        grid.round(staged + begin, end - begin);
    });
    return staged;
}

ELMO_CLONES void add_bias(float* y, const float* bias, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] += bias[c];
}

ELMO_CLONES void gelu_rows(float* y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = gelu(y[i]);
}

// The derivatives as codes, and dy multiplied by derivatives that are codes.
ELMO_CLONES void slope_rows(const float* pre, std::uint8_t* slope, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) slope[i] = slope_code(gelu_derivative(pre[i]));
}
ELMO_CLONES void multiply_slopes(const std::uint8_t* slope, float* dy, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) dy[i] *= slope_of(slope[i]);
}

// What a GELU sees as codes, and of codes.
ELMO_CLONES void encode_pre(const float* pre, std::uint8_t* codes, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) codes[i] = pre_code(pre[i]);
}
ELMO_CLONES void decode_pre(const std::uint8_t* codes, float* pre, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) pre[i] = pre_of(codes[i]);
}

ELMO_CLONES void gelu_backward_rows(const float* pre, float* dy, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) dy[i] *= gelu_derivative(pre[i]);
}

ELMO_CLONES void add_rows(const float* x, float* sum, std::int64_t rows, std::int64_t cols,
                          std::int64_t stride) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) sum[c] += x[r * stride + c];
}

// A gradient from its sum, added to what is there when `accumulate` is set.
void deliver(ThreadPool& threads, const float* sum, const View& to, bool accumulate) {
    threads.parallel_ranges(to.size(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
        if (!accumulate) {
            store_floats(sum + begin, to, begin, end - begin);
            return;
        }
        constexpr std::int64_t kPiece = 1024;
        float before[kPiece];
        for (std::int64_t i = begin; i < end; i += kPiece) {
            const std::int64_t count = std::min(kPiece, end - i);
            load_floats(to, i, before, count);
            add_rows(sum + i, before, 1, count, 0);
            store_floats(before, to, i, count);
        }
    });
}

// body(first element, number of them, room for them as FP32) for pieces of `size` elements, in parallel.
template <class Body>
void by_pieces(ThreadPool& threads, std::int64_t size, const Body& body) {
    threads.parallel_ranges(size, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kPiece = 1024;
        float piece[kPiece];
        for (std::int64_t i = begin; i < end; i += kPiece) body(i, std::min(kPiece, end - i), piece);
    });
}

// x becomes gelu(x); its slopes, or its codes, where wanted.
void gelu_of_input(ThreadPool& threads, const View& x, const View& slope, const View& seen) {
    by_pieces(threads, x.size(), [&](std::int64_t i, std::int64_t count, float* piece) {
        load_floats(x, i, piece, count);
        if (!slope.empty()) slope_rows(piece, slope.codes() + i, count);
        if (!seen.empty()) encode_pre(piece, seen.codes() + i, count);
        gelu_rows(piece, count);
        store_floats(piece, x, i, count);
    });
}
// Of codes of what a GELU saw: the operand's codes of what it makes of them in BF16.
void gelu_of_codes(ThreadPool& threads, const View& seen, const OperandGrid& grid, const View& x_codes) {
    by_pieces(threads, seen.size(), [&](std::int64_t i, std::int64_t count, float* piece) {
        decode_pre(seen.codes() + i, piece, count);
        gelu_rows(piece, count);
        round_to_bf16(piece, count);
        grid.encode({piece, DType::kF32, 1, count}, 0, count, x_codes.codes() + i);
    });
}

}  // namespace

void CpuBackend::linear_forward(const LinearForward& op) {
    const std::int64_t tokens = op.x_TK.rows, k = op.x_TK.cols, n = op.w_NK.rows;
    const bool bf16 = bf16_products(op.w_NK.dtype), fp8 = !op.amax_13.empty();
    if (!op.slope_TK.empty() || !op.seen_TK.empty())
        gelu_of_input(context_.threads(), op.x_TK, op.slope_TK, op.seen_TK);
    OperandGrid x_grid, w_grid;
    if (fp8) {
        auto* amax = op.amax_13.as<float>();
        x_grid = {kE4M3, amax[0] = amax_of(context_.threads(), op.x_TK)};
        w_grid = {kE4M3, amax[1] = amax_of(context_.threads(), op.w_NK)};
    }
    if (op.fp16) x_grid = w_grid = OperandGrid::fp16();
    ScratchCutter shared(shared_scratch_.data);
    float* bias = shared.take<float>(n);
    if (!op.bias_1N.empty()) load_floats(op.bias_1N, 0, bias, n);
    if (op.fp16) round_to_fp16(bias, n);
    const float* w = nullptr;
    const Bf16* w_bf16 = bf16 ? stage_weights(context_.threads(), op.w_NK, fp8, w_grid, shared) : nullptr;
    if (!bf16) {
        if (op.w_NK.dtype == DType::kF32 && !op.fp16) {
            w = op.w_NK.as<float>();
        } else {
            float* staged = shared.take<float>(n * k);
            stage_matrix(context_.threads(), op.w_NK, w_grid, staged);
            w = staged;
        }
    }
    parallel_ranges(tokens, kRowBlock, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t rows = end - begin, padded = round_up(rows, 32);
        ScratchCutter cut(
            thread_scratch(ScratchCutter::padded(padded * k * 4) + ScratchCutter::padded(padded * n * 4)));
        float* y = cut.take<float>(padded * n);
        const Gemm shape{padded, n, k, k, k, n, false, true, false};
        if (bf16) {
            Bf16* x = cut.take<Bf16>(padded * k);
            stage_rows(op.x_TK, begin, end, padded, x_grid, x);
            gemm(shape, x, w_bf16, y);
        } else {
            float* x = cut.take<float>(padded * k);
            stage_rows(op.x_TK, begin, end, padded, x_grid, x);
            gemm(shape, x, w, y);
        }
        if (!op.x_codes.empty()) x_grid.encode(op.x_TK, begin * k, rows * k, op.x_codes.codes() + begin * k);
        if (!op.bias_1N.empty()) add_bias(y, bias, rows, n);
        if (op.fp16) round_to_fp16(y, rows * n);
        if (op.activation == Activation::kGelu) {
            const bool codes = op.pre_TN.dtype == DType::kU8;
            if (!op.pre_TN.empty() && !codes) store_floats(y, op.pre_TN, begin * n, rows * n);
            if (op.y_TN.empty()) return;
            if (op.y_TN.dtype == DType::kBf16) round_to_bf16(y, rows * n);
            if (!op.pre_TN.empty() && codes) encode_pre(y, op.pre_TN.codes() + begin * n, rows * n);
            gelu_rows(y, rows * n);
            if (op.fp16) round_to_fp16(y, rows * n);
        }
        store_floats(y, op.y_TN, begin * n, rows * n);
    });
}

void CpuBackend::linear_backward(const LinearBackward& op) {
    if (!op.dy_slope_TN.empty() || !op.dy_seen_TN.empty())
        gelu_backward({op.dy_seen_TN, op.dy_TN, {}, {}, false, op.dy_slope_TN});
    const std::int64_t tokens = op.dy_TN.rows, k = op.w_NK.cols, n = op.dy_TN.cols;
    const bool bf16 = bf16_products(op.w_NK.dtype), fp8 = !op.amax_13.empty();
    OperandGrid dy_grid, x_grid, w_grid;
    if (fp8) {
        auto* amax = op.amax_13.as<float>();
        x_grid = {kE4M3, amax[0]};
        w_grid = {kE4M3, amax[1]};
        dy_grid = {kE5M2, amax[2] = amax_of(context_.threads(), op.dy_TN)};
        // Before dx, which may be where x is.
        const bool seen = op.x_TK.dtype == DType::kU8;
        if (seen)
            gelu_of_codes(context_.threads(), op.x_TK, x_grid, op.x_codes);
        else if (!op.x_TK.empty() && !op.slope_TK.empty())
            gelu_of_input(context_.threads(), op.x_TK, op.slope_TK, {});
        if (!op.x_TK.empty() && !seen && !op.x_codes.empty())
            context_.threads().parallel_ranges(
                op.x_TK.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
                    x_grid.encode(op.x_TK, begin, end - begin, op.x_codes.codes() + begin);
                });
    }
    if (op.fp16) dy_grid = x_grid = w_grid = OperandGrid::fp16();
    const bool from_codes = fp8 && !op.x_codes.empty();
    const auto stage_x = [&](std::int64_t begin, std::int64_t end, auto* to) {
        if (from_codes)
            stage_codes(op.x_codes, k, begin, end, 64, x_grid, to);
        else
            stage_rows(op.x_TK, begin, end, 64, x_grid, to);
    };

    if (!op.dx_TK.empty()) {
        ScratchCutter shared(shared_scratch_.data);
        const float* w = nullptr;
        const Bf16* w_bf16 = bf16 ? stage_weights(context_.threads(), op.w_NK, fp8, w_grid, shared) : nullptr;
        if (!bf16) {
            if (op.w_NK.dtype == DType::kF32 && !op.fp16) {
                w = op.w_NK.as<float>();
            } else {
                float* staged = shared.take<float>(n * k);
                stage_matrix(context_.threads(), op.w_NK, w_grid, staged);
                w = staged;
            }
        }
        parallel_ranges(tokens, kRowBlock, [&](std::int64_t begin, std::int64_t end) {
            const std::int64_t rows = end - begin, padded = round_up(rows, 32);
            ScratchCutter cut(thread_scratch(ScratchCutter::padded(padded * k * 4) +
                                             ScratchCutter::padded(padded * n * 4)));
            float* dx = cut.take<float>(padded * k);
            const Gemm shape{padded, k, n, n, k, k, false, false, false};
            if (bf16) {
                Bf16* dy = cut.take<Bf16>(padded * n);
                stage_rows(op.dy_TN, begin, end, padded, dy_grid, dy);
                gemm(shape, dy, w_bf16, dx);
            } else {
                float* dy = cut.take<float>(padded * n);
                stage_rows(op.dy_TN, begin, end, padded, dy_grid, dy);
                gemm(shape, dy, w, dx);
            }
            if (op.fp16) round_to_fp16(dx, rows * k);
            store_floats(dx, op.dx_TK, begin * k, rows * k);
        });
    }

    if (op.dw_NK.empty()) return;
    // dw: panels of tokens one after another, each added to the FP32 sum; the threads share out rows of dw.
    ScratchCutter shared(shared_scratch_.data);
    float* dw = shared.take<float>(n * k);
    float* dy = shared.take<float>(kPanel * n);  // as BF16 it takes half of this
    float* x = shared.take<float>(kPanel * k);
    if (tokens == 0) std::memset(dw, 0, static_cast<std::size_t>(n * k) * sizeof(float));
    constexpr std::int64_t kOutputRows = 64;
    for (std::int64_t panel = 0; panel < tokens; panel += kPanel) {
        const std::int64_t end = std::min(tokens, panel + kPanel);
        const std::int64_t padded = round_up(end - panel, 64);
        const std::int64_t pieces = padded / 64;
        parallel_for(pieces, [&](std::int64_t piece) {
            const std::int64_t from = std::min(end, panel + piece * 64), to = std::min(end, from + 64);
            if (bf16) {
                stage_rows(op.dy_TN, from, to, 64, dy_grid, reinterpret_cast<Bf16*>(dy) + piece * 64 * n);
                stage_x(from, to, reinterpret_cast<Bf16*>(x) + piece * 64 * k);
            } else {
                stage_rows(op.dy_TN, from, to, 64, dy_grid, dy + piece * 64 * n);
                stage_x(from, to, x + piece * 64 * k);
            }
        });
        parallel_ranges(n, kOutputRows, [&](std::int64_t row, std::int64_t row_end) {
            const Gemm shape{row_end - row, k, padded, n, k, k, true, false, panel > 0};
            if (bf16)
                gemm(shape, reinterpret_cast<Bf16*>(dy) + row, reinterpret_cast<Bf16*>(x), dw + row * k);
            else
                gemm(shape, dy + row, x, dw + row * k);
        });
    }
    deliver(context_.threads(), dw, op.dw_NK, op.accumulate);
    if (!op.dbias_1N.empty()) column_sums(op.dy_TN, op.dbias_1N, op.accumulate);
}

void CpuBackend::column_sums(const View& dy, const View& dbias, bool accumulate) {
    ScratchCutter shared(shared_scratch_.data);
    float* sums = shared.take<float>(dy.cols);
    constexpr std::int64_t kColumns = 64;  // of a piece of work
    parallel_ranges(dy.cols, kColumns, [&](std::int64_t begin, std::int64_t end) {
        float line[kColumns], total[kColumns] = {};
        for (std::int64_t t = 0; t < dy.rows; ++t) {
            load_floats(dy, t * dy.cols + begin, line, end - begin);
            add_rows(line, total, 1, end - begin, 0);
        }
        std::copy_n(total, end - begin, sums + begin);
    });
    deliver(context_.threads(), sums, dbias, accumulate);
}

void CpuBackend::gelu_backward(const GeluBackward& op) {
    if (!op.dz_TM.empty()) linear_backward(product_before(op));
    parallel_ranges(op.dy_TN.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kPiece = 1024;
        float pre[kPiece], dy[kPiece];  // pre becomes gelu(pre)
        for (std::int64_t i = begin; i < end; i += kPiece) {
            const std::int64_t count = std::min(kPiece, end - i);
            load_floats(op.dy_TN, i, dy, count);
            if (op.slope_TN.empty()) {
                if (op.pre_TN.dtype == DType::kU8)
                    decode_pre(op.pre_TN.codes() + i, pre, count);
                else
                    load_floats(op.pre_TN, i, pre, count);
                gelu_backward_rows(pre, dy, count);
            } else {
                multiply_slopes(op.slope_TN.codes() + i, dy, count);
            }
            if (op.fp16) round_to_fp16(dy, count);
            store_floats(dy, op.dy_TN, i, count);
            if (op.gelu_TN.empty()) continue;
            gelu_rows(pre, count);
            if (op.fp16) round_to_fp16(pre, count);
            store_floats(pre, op.gelu_TN, i, count);
        }
    });
    if (!op.dbias_1N.empty()) column_sums(op.dy_TN, op.dbias_1N, op.accumulate);
}

}  // namespace elmo::cpu
