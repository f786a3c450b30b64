// Residual, dropout and LayerNorm of the CPU backend: a row at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/linear/operand_grid.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/dropout.h"
#include "backend/cpu/scratch.h"
#include "base/clones.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

constexpr std::int64_t kRows = 16;  // rows of one piece of work

// Sums in eight lanes, then the lanes in order: vectorises, and one fixed order on every machine.
constexpr int kLanes = 16;

ELMO_CLONES float sum_row(const float* __restrict x, std::int64_t count) {
    float lanes[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l];
    for (int l = 0; i < count; ++i, ++l) lanes[l] += x[i];
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
}

ELMO_CLONES float sum_squares(const float* __restrict x, float mean, std::int64_t count) {
    float lanes[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lanes[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int l = 0; i < count; ++i, ++l) lanes[l] += (x[i] - mean) * (x[i] - mean);
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
}

ELMO_CLONES float dot(const float* __restrict a, const float* __restrict b, std::int64_t count) {
    float lanes[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
    for (int l = 0; i < count; ++i, ++l) lanes[l] += a[i] * b[i];
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
}

ELMO_CLONES void add_to(float* __restrict y, const float* __restrict x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

ELMO_CLONES void normalise(const float* __restrict x, float mean, float scale, const float* __restrict gamma,
                           const float* __restrict beta, float* __restrict y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
}

ELMO_CLONES void centre(const float* x, float mean, float scale, float* y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale;
}

// Normals as E4M3, whose largest is 448.
const OperandGrid& normal_grid() {
    static const OperandGrid grid(kE4M3, 448.0f);
    return grid;
}

// xhat = (x - mean) * scale; g = dy * gamma; dgamma += dy * xhat; dbeta += dy.
ELMO_CLONES void norm_backward_terms(const float* __restrict dy, const float* __restrict gamma, float mean,
                                     float scale, float* __restrict x, float* __restrict g,
                                     float* __restrict dgamma, float* __restrict dbeta, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        x[i] = (x[i] - mean) * scale;
        g[i] = dy[i] * gamma[i];
        dgamma[i] += dy[i] * x[i];
        dbeta[i] += dy[i];
    }
}

ELMO_CLONES void norm_backward_finish(const float* __restrict g, const float* __restrict xhat, float mean_g,
                                      float mean_gx, float scale, float* __restrict dx, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) dx[i] = (g[i] - mean_g - xhat[i] * mean_gx) * scale;
}

}  // namespace

void CpuBackend::residual_norm_forward(const ResidualNormForward& op) {
    const std::int64_t tokens = op.y_TD.rows, width = op.y_TD.cols;
    ScratchCutter shared(shared_scratch_.data);
    float* gamma = shared.take<float>(width);
    float* beta = shared.take<float>(width);
    load_floats(op.gamma_1D, 0, gamma, width);
    load_floats(op.beta_1D, 0, beta, width);
    parallel_ranges(tokens, kRows, [&](std::int64_t begin, std::int64_t end) {
        ScratchCutter cut(thread_scratch(4 * ScratchCutter::padded(noise_row_capacity(width) * 4)));
        float* x = cut.take<float>(width);
        float* y = cut.take<float>(width);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(width));
        for (std::int64_t t = begin; t < end; ++t) {
            load_floats(op.a_TD, t * width, x, width);
            apply_dropout(op.dropout, t, x, noise, width);
            if (!op.residual_TD.empty()) {
                load_floats(op.residual_TD, t * width, y, width);
                add_to(x, y, width);
            }
            // The statistics are those of the stored sum, so that the backward sees the same numbers.
            if (op.sum_TD.empty()) {
                if (op.a_TD.dtype == DType::kBf16) round_to_bf16(x, width);
            } else {
                store_floats(x, op.sum_TD, t * width, width);
                load_floats(op.sum_TD, t * width, x, width);
            }
            const float mean = sum_row(x, width) / static_cast<float>(width);
            const float variance = sum_squares(x, mean, width) / static_cast<float>(width);
            const float scale = 1.0f / std::sqrt(variance + op.epsilon);
            normalise(x, mean, scale, gamma, beta, y, width);
            if (op.y_dropout.threshold() > 0) {
                if (op.y_TD.dtype == DType::kBf16) round_to_bf16(y, width);
                apply_dropout(op.y_dropout, t, y, noise, width);
            }
            store_floats(y, op.y_TD, t * width, width);
            if (!op.normal_TD.empty()) {
                centre(x, mean, scale, y, width);
                normal_grid().encode({y, DType::kF32, 1, width}, 0, width, op.normal_TD.codes() + t * width);
            }
            op.stats_T2.as<float>()[2 * t] = mean;
            op.stats_T2.as<float>()[2 * t + 1] = scale;
        }
    });
}

void CpuBackend::residual_norm_backward(const ResidualNormBackward& op) {
    const std::int64_t tokens = op.dy_TD.rows, width = op.dy_TD.cols;
    // Partial sums of dgamma and dbeta in a fixed number of pieces, added in order.
    constexpr std::int64_t kPieces = 16;
    ScratchCutter shared(shared_scratch_.data);
    float* gamma = shared.take<float>(width);
    float* beta = shared.take<float>(width);
    float* partial = shared.take<float>(kPieces * 2 * width);
    load_floats(op.gamma_1D, 0, gamma, width);
    if (!op.y_TD.empty()) load_floats(op.beta_1D, 0, beta, width);
    std::memset(partial, 0, static_cast<std::size_t>(kPieces * 2 * width) * sizeof(float));
    const std::int64_t rows_a_piece = (tokens + kPieces - 1) / kPieces;
    parallel_for(kPieces, [&](std::int64_t piece) {
        ScratchCutter cut(thread_scratch(5 * ScratchCutter::padded(noise_row_capacity(width) * 4)));
        float* dy = cut.take<float>(width);
        float* x = cut.take<float>(width);
        float* g = cut.take<float>(width);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(width));
        float* dgamma = partial + piece * 2 * width;
        const std::int64_t end = std::min(tokens, (piece + 1) * rows_a_piece);
        for (std::int64_t t = piece * rows_a_piece; t < end; ++t) {
            const float mean = op.stats_T2.as<float>()[2 * t], scale = op.stats_T2.as<float>()[2 * t + 1];
            load_floats(op.dy_TD, t * width, dy, width);
            if (!op.more_dy_TD.empty()) {
                load_floats(op.more_dy_TD, t * width, x, width);
                add_to(dy, x, width);
                if (op.dy_TD.dtype == DType::kBf16) round_to_bf16(dy, width);
            }
            if (op.dy_dropout.threshold() > 0) {
                apply_dropout(op.dy_dropout, t, dy, noise, width);
                if (op.dy_TD.dtype == DType::kBf16) round_to_bf16(dy, width);
            }
            float centre_at = mean, times = scale;  // what makes normals of x
            if (!op.normal_TD.empty()) {
                normal_grid().decode(op.normal_TD.codes() + t * width, x, width);
                centre_at = 0, times = 1;
            } else {
                load_floats(op.sum_TD, t * width, x, width);
            }
            if (!op.y_TD.empty()) {
                normalise(x, mean, scale, gamma, beta, g, width);
                store_floats(g, op.y_TD, t * width, width);
            }
            if (op.rounds && op.normal_TD.empty()) {
                centre(x, mean, scale, x, width);
                normal_grid().round(x, width);
                centre_at = 0, times = 1;
            }
            norm_backward_terms(dy, gamma, centre_at, times, x, g, dgamma, dgamma + width, width);
            const float mean_g = sum_row(g, width) / static_cast<float>(width);
            const float mean_gx = dot(g, x, width) / static_cast<float>(width);
            norm_backward_finish(g, x, mean_g, mean_gx, scale, dy, width);
            store_floats(dy, op.dsum_TD, t * width, width);
            if (op.da_TD.empty()) continue;
            apply_dropout(op.dropout, t, dy, noise, width);
            store_floats(dy, op.da_TD, t * width, width);
        }
    });
    for (std::int64_t piece = 1; piece < kPieces; ++piece)
        add_to(partial, partial + piece * 2 * width, 2 * width);
    const auto deliver = [&](float* sum, const View& to) {
        if (op.accumulate) {
            load_floats(to, 0, gamma, width);
            add_to(sum, gamma, width);
        }
        store_floats(sum, to, 0, width);
    };
    deliver(partial, op.dgamma_1D);
    deliver(partial + width, op.dbeta_1D);
    if (!op.dbias_1D.empty())
        column_sums(op.da_TD.empty() ? op.dsum_TD : op.da_TD, op.dbias_1D, op.accumulate);
}

void CpuBackend::dropout(const DropoutApply& op) {
    if (op.dropout.threshold() == 0) return;
    const std::int64_t width = op.x_TD.cols;
    parallel_ranges(op.x_TD.rows, kRows, [&](std::int64_t begin, std::int64_t end) {
        ScratchCutter cut(thread_scratch(2 * ScratchCutter::padded(noise_row_capacity(width) * 4)));
        float* x = cut.take<float>(width);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(width));
        for (std::int64_t t = begin; t < end; ++t) {
            load_floats(op.x_TD, t * width, x, width);
            apply_dropout(op.dropout, t, x, noise, width);
            store_floats(x, op.x_TD, t * width, width);
        }
    });
}

void CpuBackend::add(const AddInPlace& op) {
    parallel_ranges(op.y_TD.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kPiece = 1024;
        float y[kPiece], x[kPiece];
        for (std::int64_t i = begin; i < end; i += kPiece) {
            const std::int64_t count = std::min(kPiece, end - i);
            load_floats(op.y_TD, i, y, count);
            load_floats(op.x_TD, i, x, count);
            add_to(y, x, count);
            store_floats(y, op.y_TD, i, count);
        }
    });
}

}  // namespace elmo::cpu
