#include "backend/cpu/head/kahan.h"

#include <bit>
#include <cmath>

#include "base/clones.h"

namespace elmo::cpu {
namespace {

inline Bf16 nearest_bf16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
    return {static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : nearest)};
}

ELMO_CLONES std::int64_t kahan_mini(float lr, float decay, float largest, float smallest_normal,
                                    std::uint32_t shift_bits, const float* __restrict w, float* __restrict u,
                                    Bf16* __restrict c, std::int64_t count) {
    std::int32_t saturated = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const float y = (-(decay * w[i]) - lr * u[i]) + to_float(c[i]);
        const float target = w[i] + y, size = std::fabs(target);
        const bool inside = size <= largest;
        // Adding and taking away a number whose last bit is the spacing rounds to a multiple of it.
        const float binade = size > smallest_normal ? size : smallest_normal;
        const float shift =
            std::bit_cast<float>((std::bit_cast<std::uint32_t>(binade) & 0x7f800000u) + shift_bits);
        const float t = std::copysign(inside ? (size + shift) - shift : largest, target);
        saturated += inside ? 0 : 1;
        const float rest = inside ? y - (t - w[i]) : 0.0f;
        c[i] = nearest_bf16(rest);
        u[i] = t;
    }
    return saturated;
}

}  // namespace

ELMO_CLONES void kahan_row(const KahanRates& rates, const float* __restrict w, float* __restrict u,
                           Bf16* __restrict c, std::int64_t count) {
    const float lr = rates.lr, decay = rates.decay;
    for (std::int64_t i = 0; i < count; ++i) {
        const float y = (-(decay * w[i]) - lr * u[i]) + to_float(c[i]);
        const float t = to_float(nearest_bf16(w[i] + y));
        c[i] = nearest_bf16(y - (t - w[i]));
        u[i] = t;
    }
}

std::int64_t kahan_row(const MiniFloat& format, const KahanRates& rates, const float* w, float* u, Bf16* c,
                       std::int64_t count) {
    return kahan_mini(rates.lr, rates.decay, format.max_value(), std::ldexp(1.0f, format.min_exponent()),
                      static_cast<std::uint32_t>(23 - format.mantissa_bits) << 23, w, u, c, count);
}

ELMO_CLONES std::int64_t kahan_row(const GridRow& grid, bool keep_rest, const KahanRates& rates,
                                   const float* __restrict w, float* __restrict u, Bf16* __restrict c,
                                   std::int64_t count) {
    const float lr = rates.lr, decay = rates.decay;
    const GridRow row = grid;
    std::uint32_t saturated = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const float y = (-(decay * w[i]) - lr * u[i]) + to_float(c[i]);
        std::uint32_t beyond = 0;
        const float t = round_to_grid(row, w[i] + y, true, 0, beyond);
        c[i] = nearest_bf16(beyond > 0 && !keep_rest ? 0.0f : y - (t - w[i]));
        u[i] = t;
        saturated += beyond;
    }
    return saturated;
}

ELMO_CLONES void move_compensated(const GridRow& grid, float* __restrict w, Bf16* __restrict c,
                                  std::int64_t count) {
    const GridRow row = grid;
    for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t ignored = 0;
        const float t = round_to_grid(row, w[i], true, 0, ignored);
        c[i] = nearest_bf16(to_float(c[i]) + (w[i] - t));
        w[i] = t;
    }
}

}  // namespace elmo::cpu
