#include "backend/cpu/linear/fp8_grid.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "backend/cpu/loops/convert.h"
#include "base/clones.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

ELMO_CLONES std::uint16_t largest_bits(const Bf16* x, std::int64_t count) {
    std::uint16_t largest = 0;
    for (std::int64_t i = 0; i < count; ++i)
        largest = std::max(largest, static_cast<std::uint16_t>(x[i].bits & 0x7fffu));
    return largest;
}

// Adding and taking away a number whose last bit is the grid's spacing rounds to a multiple of the spacing.
// The scale keeps magnitudes within the largest number, unless there is a number that is not finite: then
// they may be beyond it and saturate.
template <int kMantissa, int kMinExponent>
inline float nearest(float x, float largest) {
    const float magnitude = std::min(std::abs(x), largest);
    constexpr float kSmallest = std::bit_cast<float>(static_cast<std::uint32_t>(127 + kMinExponent) << 23);
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(std::max(magnitude, kSmallest)) & 0x7f800000u;
    const auto shift = std::bit_cast<float>(exponent + (static_cast<std::uint32_t>(23 - kMantissa) << 23));
    return std::copysign((magnitude + shift) - shift, x);
}

// x - x is 0, or NaN where x is not finite.
ELMO_CLONES void round_e4m3(float* x, std::int64_t count, float up, float down) {
    for (std::int64_t i = 0; i < count; ++i) x[i] = nearest<3, -6>(x[i] * up, 448.0f) * down + (x[i] - x[i]);
}
ELMO_CLONES void round_e5m2(float* x, std::int64_t count, float up, float down) {
    for (std::int64_t i = 0; i < count; ++i)
        x[i] = nearest<2, -14>(x[i] * up, 57344.0f) * down + (x[i] - x[i]);
}

}  // namespace

float amax_of(ThreadPool& threads, const View& matrix) {
    std::atomic<std::uint16_t> largest{0};
    threads.parallel_ranges(matrix.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        const std::uint16_t found = largest_bits(matrix.as<Bf16>() + begin, end - begin);
        std::uint16_t before = largest.load();
        while (before < found && !largest.compare_exchange_weak(before, found)) {
        }
    });
    return to_float(Bf16{largest.load()});
}

Fp8Grid::Fp8Grid(const MiniFloat& format, float amax)
    : kind_(format.mantissa_bits == 3 ? Kind::kE4M3 : Kind::kE5M2) {
    const int power = scale_exponent(format, std::bit_cast<std::uint32_t>(amax));
    up_ = std::ldexp(1.0f, power);
    down_ = std::ldexp(1.0f, -power);
}

void Fp8Grid::round(float* x, std::int64_t count) const {
    if (kind_ == Kind::kE4M3) round_e4m3(x, count, up_, down_);
    if (kind_ == Kind::kE5M2) round_e5m2(x, count, up_, down_);
}

void Fp8Grid::round(Bf16* x, std::int64_t count) const {
    if (kind_ == Kind::kNone) return;
    constexpr std::int64_t kPiece = 1024;
    float piece[kPiece];
    for (std::int64_t i = 0; i < count; i += kPiece) {
        const std::int64_t n = std::min(kPiece, count - i);
        bf16_to_float(x + i, piece, n);
        round(piece, n);
        float_to_bf16(piece, x + i, n);
    }
}

}  // namespace elmo::cpu
