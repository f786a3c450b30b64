#include "backend/cpu/linear/operand_grid.h"

#include <algorithm>
#include <array>
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

ELMO_CLONES void encode_e4m3(const float* x, std::int64_t count, float up, std::uint8_t* codes) {
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t sign = std::bit_cast<std::uint32_t>(x[i]) >> 24 & 0x80u;
        const bool finite = x[i] - x[i] == 0.0f;
        const float size = std::abs(nearest<3, -6>((finite ? x[i] : 0.0f) * up, 448.0f));
        const std::uint32_t normal = (std::bit_cast<std::uint32_t>(size) >> 20) - (120u << 3);
        const auto small = static_cast<std::uint32_t>(static_cast<std::int32_t>(size * 512.0f));
        const std::uint32_t code = size < 0x1p-6f ? small : normal;
        codes[i] = static_cast<std::uint8_t>(sign | (finite ? code : 0x7fu));
    }
}

// body(begin of a piece, its count, room for it as FP32)
template <class Body>
void by_pieces(std::int64_t count, const Body& body) {
    constexpr std::int64_t kPiece = 1024;
    float piece[kPiece];
    for (std::int64_t i = 0; i < count; i += kPiece) body(i, std::min(kPiece, count - i), piece);
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

OperandGrid::OperandGrid(const MiniFloat& format, float amax)
    : kind_(format.mantissa_bits == 3 ? Kind::kE4M3 : Kind::kE5M2) {
    const int power = scale_exponent(format, std::bit_cast<std::uint32_t>(amax));
    up_ = std::ldexp(1.0f, power);
    down_ = std::ldexp(1.0f, -power);
}

void OperandGrid::round(float* x, std::int64_t count) const {
    if (kind_ == Kind::kE4M3) round_e4m3(x, count, up_, down_);
    if (kind_ == Kind::kE5M2) round_e5m2(x, count, up_, down_);
    if (kind_ == Kind::kFp16) round_to_fp16(x, count);
}

void OperandGrid::round(Bf16* x, std::int64_t count) const {
    if (kind_ == Kind::kNone) return;
    by_pieces(count, [&](std::int64_t i, std::int64_t n, float* piece) {
        bf16_to_float(x + i, piece, n);
        round(piece, n);
        float_to_bf16(piece, x + i, n);
    });
}

void OperandGrid::encode(const View& x, std::int64_t begin, std::int64_t count, std::uint8_t* codes) const {
    by_pieces(count, [&](std::int64_t i, std::int64_t n, float* piece) {
        load_floats(x, begin + i, piece, n);
        encode_e4m3(piece, n, up_, codes + i);
    });
}

void OperandGrid::decode(const std::uint8_t* codes, float* x, std::int64_t count) const {
    static const std::array<float, 256> kNumbers = [] {
        std::array<float, 256> numbers{};
        for (std::uint32_t code = 0; code < 256; ++code) numbers[code] = kE4M3.decode(code);
        return numbers;
    }();
    for (std::int64_t i = 0; i < count; ++i) x[i] = kNumbers[codes[i]] * down_;
}

void OperandGrid::decode(const std::uint8_t* codes, Bf16* x, std::int64_t count) const {
    by_pieces(count, [&](std::int64_t i, std::int64_t n, float* piece) {
        decode(codes + i, piece, n);
        float_to_bf16(piece, x + i, n);
    });
}

}  // namespace elmo::cpu
