// Codes of fewer than 8 bits in rows of bytes: code d of a row takes the bits from d * bits on, the lowest
// bit of a byte first. Unpacked, a code is as numerics/weight_grid.h has it: the sign in bit 7, exponent and
// mantissa at the bottom; packed, the sign follows them. Eight codes, a group, are `bits` whole bytes.
//
// All of it is constexpr, which lets device code call it too; `bits` is 2 to 8.
#pragma once

#include <cstdint>

namespace elmo {

inline constexpr int kCodeGroup = 8;

constexpr std::uint32_t packed_from_code(std::uint32_t code, int bits) {
    return (code & 0x7fu) | (code >> 7) << (bits - 1);
}
constexpr std::uint32_t code_from_packed(std::uint32_t packed, int bits) {
    const std::uint32_t size = (1u << (bits - 1)) - 1;
    return (packed & size) | (packed >> (bits - 1) & 1u) << 7;
}

// One code of a row: the definition.
constexpr std::uint8_t code_at(const std::uint8_t* row, int bits, std::int64_t d) {
    const std::int64_t byte = d * bits / 8;
    const int shift = static_cast<int>(d * bits % 8);
    std::uint32_t packed = static_cast<std::uint32_t>(row[byte]) >> shift;
    if (shift + bits > 8) packed |= static_cast<std::uint32_t>(row[byte + 1]) << (8 - shift);
    return static_cast<std::uint8_t>(code_from_packed(packed, bits));
}
constexpr void put_code(std::uint8_t* row, int bits, std::int64_t d, std::uint8_t code) {
    const std::int64_t byte = d * bits / 8;
    const int shift = static_cast<int>(d * bits % 8);
    const std::uint32_t mask = ((1u << bits) - 1) << shift, placed = packed_from_code(code, bits) << shift;
    row[byte] = static_cast<std::uint8_t>((row[byte] & ~mask) | placed);
    if (shift + bits > 8)
        row[byte + 1] = static_cast<std::uint8_t>((row[byte + 1] & ~(mask >> 8)) | placed >> 8);
}

// Code i of a group, and what it adds to the group; the group is one number, its lowest byte first.
constexpr std::uint8_t code_of_group(std::uint64_t group, int bits, int i) {
    return static_cast<std::uint8_t>(
        code_from_packed(static_cast<std::uint32_t>(group >> (i * bits)) & 0xffu, bits));
}
constexpr std::uint64_t group_of_code(std::uint8_t code, int bits, int i) {
    return static_cast<std::uint64_t>(packed_from_code(code, bits)) << (i * bits);
}

}  // namespace elmo
