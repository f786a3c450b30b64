// Any small floating-point format as a grid of numbers that BF16 or FP32 holds: sign, E exponent bits, M
// mantissa bits, a bias, subnormals, every code finite (but E4M3's, see is_e4m3). Head weights of
// `--precision exmy:...` are on such a grid: rounded to the format's numbers, stored in more bits. E = 0 is
// the uniform grid (integers times a power of two). With an exponent per row, the grid of row l is
// 2^exponent[l] times the format's.
//
// All of it is constexpr, which lets device code call it too: one definition for every backend.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace elmo {

struct WeightGrid {
    int exponent_bits = 0, mantissa_bits = 0, bias = 0;
    bool row_scaled = false;
    bool nearest = false;  // rounds to nearest even instead of stochastically

    constexpr bool used() const { return exponent_bits + mantissa_bits > 0; }
    // Sign included; without the exponents of rows.
    constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
    // Bytes of a row of that many codes (numerics/packed_codes.h), and the codes of a row of that many bytes.
    constexpr std::int64_t packed_bytes(std::int64_t width) const { return width * bits() / 8; }
    constexpr std::int64_t packed_width(std::int64_t bytes) const { return bytes * 8 / bits(); }
    // Whether BF16 holds every number of the grid; FP32 always does.
    constexpr bool fits_bf16() const {
        return mantissa_bits <= 7 && (row_scaled || 1 - bias - mantissa_bits >= -133);
    }
    // The numbers of precision fp8: the code above 448 is NaN there, so this grid leaves it out too.
    constexpr bool is_e4m3() const {
        return exponent_bits == 4 && mantissa_bits == 3 && bias == 7 && !row_scaled;
    }
    bool operator==(const WeightGrid&) const = default;
};

// All of BF16's finite numbers.
inline constexpr WeightGrid kBf16Grid{8, 7, 127};

// The grids whose codes are stored, with an exponent per row: precision e2m5, e2m3 and e2m1.
inline constexpr WeightGrid kE2M5Grid{2, 5, 1, true};
inline constexpr WeightGrid kE2M3Grid{2, 3, 1, true};
inline constexpr WeightGrid kE2M1Grid{2, 1, 1, true};

inline constexpr int kRowExponentLimit = 60;  // of either sign
// A row's exponent as it is stored, in a byte.
constexpr std::uint8_t encode_row_exponent(int exponent) {
    return static_cast<std::uint8_t>(exponent + 128);
}
constexpr int decode_row_exponent(std::uint8_t stored) {
    return static_cast<int>(stored) - 128;
}

// The grid of one row as rounding needs it.
struct GridRow {
    int mantissa_bits = 0;
    int min_exponent = 0;  // below 2^min_exponent the spacing is constant
    float max = 0;         // the largest number
};

// 2^n for n of a normal number.
constexpr float power_of_two(int n) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

constexpr GridRow grid_row(const WeightGrid& grid, int row_exponent = 0) {
    const int m = grid.mantissa_bits, lowest = 1 - grid.bias + row_exponent;
    if (grid.exponent_bits == 0)
        return {m, lowest, static_cast<float>((1u << m) - 1) * power_of_two(-m) * power_of_two(lowest)};
    // An exponent that FP32 does not have counts as its largest.
    const int top = (1 << grid.exponent_bits) - 1 - grid.bias + row_exponent;
    return {m, lowest,
            static_cast<float>((2u << m) - (grid.is_e4m3() ? 2 : 1)) * power_of_two(-m) *
                power_of_two(top < 127 ? top : 127)};
}

// The smallest exponent of a row whose grid reaches `largest`.
constexpr int row_exponent_for(const WeightGrid& grid, float largest) {
    int exponent = -kRowExponentLimit;
    while (exponent < kRowExponentLimit && !(largest <= grid_row(grid, exponent).max)) ++exponent;
    return exponent;
}

// x rounded to the grid. Stochastic: the discarded fraction of a unit, taken to 17 bits, plus 2 noise + 1
// carries or not, as in numerics/minifloat.h. A value beyond the largest number, or NaN, becomes the largest
// number and is counted.
constexpr float round_to_grid(const GridRow& row, float x, bool nearest, std::uint32_t noise,
                              std::uint32_t& saturated) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), size_bits = bits & 0x7fffffffu;
    const std::uint32_t sign = bits & 0x80000000u;
    const bool inside = std::bit_cast<float>(size_bits) <= row.max;
    // x = digits 2^(exponent - 150) = (whole + fraction / 2^dropped) spacing, spacing = 2^(binade - 127 - M).
    const int stored = static_cast<int>(size_bits >> 23), exponent = stored > 1 ? stored : 1;
    const std::uint32_t digits = (size_bits & 0x7fffffu) | (stored > 0 ? 0x800000u : 0u);
    const int lowest = row.min_exponent + 127, binade = exponent > lowest ? exponent : lowest;
    const int dropped = 23 - row.mantissa_bits + binade - exponent;  // at least 1
    const int shift = dropped < 31 ? dropped : 31;                   // digits have 24 bits
    const std::uint32_t whole = digits >> shift, fraction = digits & ((1u << shift) - 1);
    const int right = dropped - 17 < 31 ? dropped - 17 : 31;
    const std::uint32_t fraction17 = right >= 0 ? fraction >> (right & 31) : fraction << (-right & 31);
    const std::uint32_t half = 1u << ((dropped < 26 ? dropped : 26) - 1);  // from 25 on above all digits
    const std::uint32_t by_noise = (fraction17 + 2 * noise + 1) >> 17;
    const std::uint32_t by_nearest = fraction > half || (fraction == half && (whole & 1u) != 0) ? 1u : 0u;
    const std::uint32_t units = whole + (nearest ? by_nearest : by_noise);
    const float size = static_cast<float>(static_cast<std::int32_t>(units)) *
                       power_of_two(-row.mantissa_bits) * power_of_two(binade - 127);
    saturated += inside ? 0u : 1u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(inside ? size : row.max) | sign);
}

// The codes of a grid of at most 8 bits: the sign in bit 7, exponent and mantissa at the bottom. Numbers and
// codes of a row; encoding takes numbers that are on its grid.
constexpr float decode_grid_code(const GridRow& row, std::uint32_t code) {
    const std::uint32_t size = code & 0x7fu, field = size >> row.mantissa_bits;
    const std::uint32_t digits =
        (size & ((1u << row.mantissa_bits) - 1)) | (field > 0 ? 1u << row.mantissa_bits : 0u);
    const int binade = row.min_exponent + static_cast<int>(field > 0 ? field - 1 : 0);
    const float value = static_cast<float>(static_cast<std::int32_t>(digits)) *
                        power_of_two(-row.mantissa_bits) * power_of_two(binade);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (code & 0x80u) << 24);
}
constexpr std::uint8_t encode_grid_code(const GridRow& row, float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const float size = std::bit_cast<float>(bits & 0x7fffffffu);
    const int exponent = static_cast<int>((bits & 0x7fffffffu) >> 23) - 127;
    const int binade = exponent > row.min_exponent ? exponent : row.min_exponent;
    const auto units = static_cast<std::uint32_t>(
        static_cast<std::int32_t>(size * power_of_two(-binade) * power_of_two(row.mantissa_bits)));
    const std::uint32_t code =
        (static_cast<std::uint32_t>(binade - row.min_exponent) << row.mantissa_bits) + units;
    return static_cast<std::uint8_t>(code | (bits >> 24 & 0x80u));
}

// "exmy:E,M", "exmy:E,M,BIAS" (the bias otherwise 2^(E-1) - 1, and 0 for E = 0) or "exmy:E,M,row". Whether a
// name starts like this, and its grid: ConfigError names the mistake.
bool is_grid_name(std::string_view precision);
WeightGrid parse_grid(std::string_view precision);
std::string grid_name(const WeightGrid& grid);  // what parse_grid reads; without the kind of rounding

}  // namespace elmo
