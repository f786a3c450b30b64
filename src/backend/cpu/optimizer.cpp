// AdamW and the filling of weights, CPU backend.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/noise.h"
#include "backend/cpu/loops/rounding.h"
#include "backend/cpu/scratch.h"
#include "base/clones.h"
#include "base/parallel.h"
#include "numerics/normal.h"
#include "numerics/row_exponents.h"

namespace elmo::cpu {
namespace {

constexpr std::int64_t kPiece = kMomentBlock;  // columns at a time

struct AdamWFactors {
    float lr, beta1, beta2, epsilon, weight_decay, grad_scale, correction1, correction2;
};

// The moments and the update of `count` elements; u receives the (negated) update.
ELMO_CLONES void adamw_piece(const AdamWFactors& f, const float* __restrict grad, const float* __restrict w,
                             float* __restrict m, float* __restrict v, float* __restrict u,
                             std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float g = grad[i] * f.grad_scale;
        m[i] = f.beta1 * m[i] + (1.0f - f.beta1) * g;
        v[i] = f.beta2 * v[i] + (1.0f - f.beta2) * (g * g);
        const float direction = (m[i] * f.correction1) / (std::sqrt(v[i] * f.correction2) + f.epsilon);
        u[i] = -f.lr * (direction + f.weight_decay * w[i]);
    }
}

// Kahan: y = u + c; t = bf16(w + y); c = y - (t - w); w = t.
ELMO_CLONES void kahan_piece(const float* __restrict u, float* __restrict w, float* __restrict c,
                             std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float y = u[i] + c[i];
        const auto sum = std::bit_cast<std::uint32_t>(w[i] + y);
        const float t = std::bit_cast<float>((sum + 0x7fffu + ((sum >> 16) & 1u)) & 0xffff0000u);
        c[i] = y - (t - w[i]);
        w[i] = t;
    }
}

// All of a BF16 piece in one loop, for numbers below kLargestPlain: nothing saturates, nothing is NaN.
// Returns the largest magnitude, as bits: beyond kLargestPlain what was written is wrong.
struct Bf16Piece {
    std::uint16_t w[kPiece], m[kPiece], v[kPiece], c[kPiece];
};
constexpr std::int32_t kLargestPlain = 0x7f7effff;

inline float bf16_value(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
inline std::uint32_t plus_half(std::uint32_t bits) {  // then cut to 16 bits: to nearest, ties to even
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}
inline std::int32_t magnitude(std::uint32_t bits) {
    return static_cast<std::int32_t>(bits & 0x7fffffffu);
}

ELMO_CLONES std::int32_t bf16_piece(
    const AdamWFactors& factors, const float* __restrict grad, const std::uint16_t* __restrict old_w,
    const std::uint16_t* __restrict old_m, const std::uint16_t* __restrict old_v,
    const std::uint16_t* __restrict old_c, const std::uint16_t* __restrict noise_m,
    const std::uint16_t* __restrict noise_v, Bf16Piece& __restrict out, std::int64_t count) {
    const AdamWFactors f = factors;
    std::int32_t largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const float g = grad[i] * f.grad_scale, w = bf16_value(old_w[i]);
        const float m = f.beta1 * bf16_value(old_m[i]) + (1.0f - f.beta1) * g;
        const float v = f.beta2 * bf16_value(old_v[i]) + (1.0f - f.beta2) * (g * g);
        const float direction = (m * f.correction1) / (std::sqrt(v * f.correction2) + f.epsilon);
        const float y = -f.lr * (direction + f.weight_decay * w) + bf16_value(old_c[i]);
        const auto sum = std::bit_cast<std::uint32_t>(w + y);
        const std::uint32_t t = plus_half(sum) & 0xffff0000u;
        const auto c = std::bit_cast<std::uint32_t>(y - (std::bit_cast<float>(t) - w));
        const auto m_bits = std::bit_cast<std::uint32_t>(m), v_bits = std::bit_cast<std::uint32_t>(v);
        largest = std::max(largest, magnitude(sum));
        largest = std::max(largest, std::max(magnitude(m_bits), magnitude(v_bits)));
        out.w[i] = static_cast<std::uint16_t>(t >> 16);
        out.c[i] = static_cast<std::uint16_t>(plus_half(c) >> 16);
        out.m[i] = static_cast<std::uint16_t>((m_bits + noise_m[i]) >> 16);
        out.v[i] = static_cast<std::uint16_t>((v_bits + noise_v[i]) >> 16);
    }
    return largest;
}

// State in bytes: the moments of a block, which are rounded when the largest is known.
struct Moments {
    float m[kPiece], v[kPiece];
    std::int32_t largest_m, largest_v;  // magnitudes, as bits
};

ELMO_CLONES void bytes_piece(const AdamWFactors& factors, const float* __restrict grad,
                             const std::uint8_t* __restrict exponents, const std::uint8_t* __restrict m_codes,
                             const std::uint8_t* __restrict v_codes, const std::uint16_t* __restrict noise,
                             std::uint16_t* __restrict weights, std::uint8_t* __restrict c_codes,
                             Moments& __restrict out, std::int64_t count) {
    const AdamWFactors f = factors;
    const std::uint32_t m_exponent = exponents[0], v_exponent = exponents[1];
    std::int32_t largest_m = 0, largest_v = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const float g = grad[i] * f.grad_scale, w = decode_weight(weights[i], c_codes[i]);
        const float m = f.beta1 * decode_first_moment(m_codes[i], m_exponent) + (1.0f - f.beta1) * g;
        const float v = f.beta2 * decode_second_moment(v_codes[i], v_exponent) + (1.0f - f.beta2) * (g * g);
        const float direction = (m * f.correction1) / (std::sqrt(v * f.correction2) + f.epsilon);
        const float u = -f.lr * (direction + f.weight_decay * w);
        const std::uint32_t now = round_weight(w + u, noise[i]);
        weights[i] = static_cast<std::uint16_t>(weight_bf16(now) >> 16);
        c_codes[i] = static_cast<std::uint8_t>(weight_rest(now));
        out.m[i] = m;
        out.v[i] = v;
        largest_m = std::max(largest_m, magnitude(std::bit_cast<std::uint32_t>(m)));
        largest_v = std::max(largest_v, magnitude(std::bit_cast<std::uint32_t>(v)));
    }
    out.largest_m = largest_m;
    out.largest_v = largest_v;
}

ELMO_CLONES void encode_piece(const Moments& __restrict moments, const std::uint16_t* __restrict noise,
                              std::uint8_t* __restrict exponents, std::uint8_t* __restrict m_codes,
                              std::uint8_t* __restrict v_codes, std::int64_t count) {
    const std::uint32_t m = moment_exponent(static_cast<std::uint32_t>(moments.largest_m), kFirstMomentRange);
    const std::uint32_t v =
        moment_exponent(static_cast<std::uint32_t>(moments.largest_v), kSecondMomentRange);
    for (std::int64_t i = 0; i < count; ++i) {
        m_codes[i] = static_cast<std::uint8_t>(encode_first_moment(moments.m[i], m, noise[i]) >> 24);
        v_codes[i] = static_cast<std::uint8_t>(encode_second_moment(moments.v[i], v, noise[i]) >> 24);
    }
    exponents[0] = static_cast<std::uint8_t>(m);
    exponents[1] = static_cast<std::uint8_t>(v);
}

ELMO_CLONES void add_piece(float* __restrict w, const float* __restrict u, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) w[i] += u[i];
}

// noise_normal of each column times sigma, from the words of its row: two per column.
ELMO_CLONES void normal_row(const std::uint32_t* __restrict words, float sigma, float* __restrict out,
                            std::int64_t count) {
    for (std::int64_t c = 0; c < count; ++c) out[c] = sigma * normal_of(words[2 * c], words[2 * c + 1]);
}

}  // namespace

void CpuBackend::adamw(std::span<const AdamWUpdate> ops) {
    for (const AdamWUpdate& op : ops) update_tensor(op);
}

void CpuBackend::update_tensor(const AdamWUpdate& op) {
    const AdamWFactors factors{
        op.lr,
        op.beta1,
        op.beta2,
        op.epsilon,
        op.weight_decay,
        op.grad_scale,
        static_cast<float>(1.0 / (1.0 - std::pow(double{op.beta1}, static_cast<double>(op.t)))),
        static_cast<float>(1.0 / (1.0 - std::pow(double{op.beta2}, static_cast<double>(op.t))))};
    const bool bf16 = op.w.dtype == DType::kBf16, kahan = !op.c.empty();
    const NoiseKey second{op.key.seed, op.key.step, op.key.stream + 1};
    const std::int64_t cols = op.w.cols;
    const std::int64_t rows_at_once = std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(cols, 1));
    parallel_ranges(op.w.rows, rows_at_once, [&](std::int64_t begin, std::int64_t end) {
        ScratchCutter cut(thread_scratch(2 * ScratchCutter::padded(noise_row_capacity(cols) * 2)));
        auto* noise_m = cut.take<std::uint16_t>(noise_row_capacity(cols));
        auto* noise_v = cut.take<std::uint16_t>(noise_row_capacity(cols));
        float w[kPiece], grad[kPiece], m[kPiece], v[kPiece], u[kPiece], c[kPiece];
        Bf16Piece piece;
        Moments moments;
        for (std::int64_t row = begin; row < end; ++row) {
            if (op.in_bytes()) {
                noise_row(op.bytes_key(), op.first_row + row, cols, noise_m);
                for (std::int64_t i = 0; i < cols; ++i) noise_m[i] += noise_shift(op.t);
            } else if (bf16) {
                noise_row(op.key, op.first_row + row, cols, noise_m);
                noise_row(second, op.first_row + row, cols, noise_v);
            }
            for (std::int64_t column = 0; column < cols; column += kPiece) {
                const std::int64_t first = row * cols + column, count = std::min(kPiece, cols - column);
                load_floats(op.grad, first, grad, count);
                if (op.in_bytes()) {
                    std::uint8_t* const exponents =
                        op.exponents.codes() + row * op.exponents.cols + 2 * (column / kPiece);
                    std::uint8_t *const m_codes = op.m.codes() + first, *const v_codes = op.v.codes() + first;
                    bytes_piece(factors, grad, exponents, m_codes, v_codes, noise_m + column,
                                reinterpret_cast<std::uint16_t*>(op.w.as<Bf16>() + first),
                                op.c.codes() + first, moments, count);
                    encode_piece(moments, noise_m + column, exponents, m_codes, v_codes, count);
                    continue;
                }
                if (bf16 && kahan) {
                    const auto bits = [&](const View& of) {
                        return reinterpret_cast<std::uint16_t*>(of.as<Bf16>() + first);
                    };
                    if (bf16_piece(factors, grad, bits(op.w), bits(op.m), bits(op.v), bits(op.c),
                                   noise_m + column, noise_v + column, piece, count) <= kLargestPlain) {
                        std::copy_n(piece.w, count,
                                    bits(op.w));  // not memcpy: GCC makes it a slow "rep movs"
                        std::copy_n(piece.m, count, bits(op.m));
                        std::copy_n(piece.v, count, bits(op.v));
                        std::copy_n(piece.c, count, bits(op.c));
                        continue;
                    }
                }
                load_floats(op.w, first, w, count);
                load_floats(op.m, first, m, count);
                load_floats(op.v, first, v, count);
                adamw_piece(factors, grad, w, m, v, u, count);
                if (!bf16) {
                    add_piece(w, u, count);
                    store_floats(w, op.w, first, count);
                    store_floats(m, op.m, first, count);
                    store_floats(v, op.v, first, count);
                    continue;
                }
                if (kahan) {
                    load_floats(op.c, first, c, count);
                    kahan_piece(u, w, c, count);
                    store_floats(c, op.c, first, count);
                } else {
                    add_piece(w, u, count);
                }
                store_floats(w, op.w, first, count);  // to nearest
                round_row(m, noise_m + column, op.m.as<Bf16>() + first, count);
                round_row(v, noise_v + column, op.v.as<Bf16>() + first, count);
            }
        }
    });
}

void CpuBackend::fill_normal(const FillNormal& op) {
    const std::int64_t cols = op.width();
    parallel_ranges(op.w.rows, 64, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::uint16_t> noise(static_cast<std::size_t>(noise_row_capacity(cols)));
        std::vector<std::uint32_t> words(static_cast<std::size_t>(noise_row_capacity(4 * cols) / 2));
        std::vector<float> x(static_cast<std::size_t>(cols));
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t global = op.first_row + row;
            // The words of a block lie in memory as its 16-bit pieces do: four pieces, one deviate.
            noise_row(op.key, global, 4 * cols, reinterpret_cast<std::uint16_t*>(words.data()));
            normal_row(words.data(), op.sigma, x.data(), cols);
            if (op.w.dtype == DType::kF32 && !op.grid.used()) {
                store_floats(x.data(), op.w, row * cols, cols);
                continue;
            }
            noise_row(op.rounding, global, cols, noise.data());
            if (op.grid.used()) {
                float largest = 0;
                for (const float value : x) largest = std::max(largest, std::abs(value));
                const int exponent = op.grid.row_scaled ? first_row_exponent(op.grid, largest) : 0;
                if (op.grid.row_scaled) op.row_exponents.codes()[row] = encode_row_exponent(exponent);
                const GridRow grid = grid_row(op.grid, exponent);
                (void)round_row(grid, false, noise.data(), x.data(), cols);
                if (op.w.dtype == DType::kU8)
                    encode_row(grid, op.grid.bits(), x.data(), op.w.codes() + row * op.w.cols, cols);
                else
                    store_floats(x.data(), op.w, row * cols, cols);
                continue;
            }
            if (op.w.dtype == DType::kBf16)
                round_row(x.data(), noise.data(), op.w.as<Bf16>() + row * cols, cols);
            else
                (void)round_row(format_of(op.w.dtype), x.data(), noise.data(), op.w.codes() + row * cols,
                                cols);
        }
    });
}

}  // namespace elmo::cpu
