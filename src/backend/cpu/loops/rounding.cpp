#include "backend/cpu/loops/rounding.h"

#include <algorithm>
#include <bit>

#include "base/clones.h"
#include "numerics/packed_codes.h"

namespace elmo::cpu {
namespace {

template <int kMantissa, int kBias, std::uint32_t kTopCode>
inline std::int64_t round_row_to(const float* x, const std::uint16_t* noise, std::uint8_t* to,
                                 std::int64_t count, float max_value) {
    constexpr int kDropped = 23 - kMantissa;
    constexpr int kMinExponent = 1 - kBias;
    constexpr float kSmallestNormal =
        std::bit_cast<float>(static_cast<std::uint32_t>(127 + kMinExponent) << 23);
    constexpr float kFixedScale =
        std::bit_cast<float>(static_cast<std::uint32_t>(127 + kMantissa - kMinExponent + 17) << 23);
    std::int32_t saturated = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i]);
        const std::uint32_t magnitude_bits = bits & 0x7fffffffu;
        const float magnitude = std::bit_cast<float>(magnitude_bits);
        const std::uint32_t carry = 2u * noise[i] + 1u;
        const std::uint32_t normal = ((magnitude_bits + (carry << (kDropped - 17))) >> kDropped) -
                                     (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
        const float capped = magnitude < kSmallestNormal ? magnitude : 0.0f;
        const auto fixed = static_cast<std::uint32_t>(static_cast<std::int32_t>(capped * kFixedScale));
        const std::uint32_t subnormal = (fixed + carry) >> 17;
        std::uint32_t code = magnitude < kSmallestNormal ? subnormal : normal;
        const bool inside = magnitude <= max_value;
        code = inside && code < kTopCode ? code : kTopCode;
        saturated += inside ? 0 : 1;
        to[i] = static_cast<std::uint8_t>(code | ((bits >> 31) << 7));
    }
    return saturated;
}

ELMO_CLONES std::int64_t round_row_e4m3(const float* x, const std::uint16_t* noise, std::uint8_t* to,
                                        std::int64_t count) {
    return round_row_to<3, 7, 0x7e>(x, noise, to, count, 448.0f);
}
ELMO_CLONES std::int64_t round_row_e3m4(const float* x, const std::uint16_t* noise, std::uint8_t* to,
                                        std::int64_t count) {
    return round_row_to<4, 7, 0x7f>(x, noise, to, count, 1.9375f);
}

}  // namespace

ELMO_CLONES void round_row(const float* x, const std::uint16_t* noise, Bf16* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const auto u = std::bit_cast<std::uint32_t>(x[i]);
        const std::uint32_t magnitude = u & 0x7fffffffu;
        std::uint32_t rounded = magnitude + noise[i];
        rounded = rounded < 0x7f7fffffu ? rounded : 0x7f7fffffu;  // saturate
        const std::uint32_t quiet = magnitude > 0x7f800000u ? magnitude | 0x400000u : magnitude;
        rounded = magnitude < 0x7f800000u ? rounded : quiet;  // Inf and NaN pass
        to[i].bits = static_cast<std::uint16_t>((rounded | (u & 0x80000000u)) >> 16);
    }
}

ELMO_CLONES std::int64_t round_row(const GridRow& grid, bool nearest, const std::uint16_t* noise, float* x,
                                   std::int64_t count) {
    const GridRow row = grid;
    std::uint32_t saturated = 0;
    if (nearest)
        for (std::int64_t i = 0; i < count; ++i) x[i] = round_to_grid(row, x[i], true, 0, saturated);
    else
        for (std::int64_t i = 0; i < count; ++i) x[i] = round_to_grid(row, x[i], false, noise[i], saturated);
    return saturated;
}

namespace {

ELMO_CLONES void decode_codes(const GridRow& grid, const std::uint8_t* codes, float* to, std::int64_t count) {
    const GridRow row = grid;
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode_grid_code(row, codes[i]);
}

ELMO_CLONES void encode_codes(const GridRow& grid, const float* x, std::uint8_t* codes, std::int64_t count) {
    const GridRow row = grid;
    for (std::int64_t i = 0; i < count; ++i) codes[i] = encode_grid_code(row, x[i]);
}

constexpr std::int64_t kUnpacked = 32 * kCodeGroup;  // codes unpacked at a time

}  // namespace

void decode_row(const GridRow& grid, int bits, const std::uint8_t* row, float* to, std::int64_t count) {
    if (bits == 8) return decode_codes(grid, row, to, count);
    std::uint8_t codes[kUnpacked];
    for (std::int64_t first = 0; first < count; first += kUnpacked) {
        const std::int64_t n = std::min(kUnpacked, count - first);
        for (std::int64_t i = 0; i < n; i += kCodeGroup, row += bits) {
            std::uint64_t group = 0;
            for (int byte = 0; byte < bits; ++byte) group |= std::uint64_t{row[byte]} << (8 * byte);
            for (int j = 0; j < kCodeGroup; ++j) codes[i + j] = code_of_group(group, bits, j);
        }
        decode_codes(grid, codes, to + first, n);
    }
}

void encode_row(const GridRow& grid, int bits, const float* x, std::uint8_t* row, std::int64_t count) {
    if (bits == 8) return encode_codes(grid, x, row, count);
    std::uint8_t codes[kUnpacked];
    for (std::int64_t first = 0; first < count; first += kUnpacked) {
        const std::int64_t n = std::min(kUnpacked, count - first);
        encode_codes(grid, x + first, codes, n);
        for (std::int64_t i = 0; i < n; i += kCodeGroup, row += bits) {
            std::uint64_t group = 0;
            for (int j = 0; j < kCodeGroup; ++j) group |= group_of_code(codes[i + j], bits, j);
            for (int byte = 0; byte < bits; ++byte)
                row[byte] = static_cast<std::uint8_t>(group >> (8 * byte));
        }
    }
}

std::int64_t round_row(const MiniFloat& format, const float* x, const std::uint16_t* noise, std::uint8_t* to,
                       std::int64_t count) {
    return format.mantissa_bits == 3 ? round_row_e4m3(x, noise, to, count)
                                     : round_row_e3m4(x, noise, to, count);
}

}  // namespace elmo::cpu
