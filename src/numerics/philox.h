// Addressed noise: random bits as a pure function of (seed, step, stream, row, column), through
// Philox4x32-7 (Salmon et al., 2011: the fewest rounds that pass their tests; noise is a large part of the
// head's update). There is no generator state, so the same address gives the same bits on every backend, with
// any number of threads, chunks or ranks, before and after a resume.
//
// One Philox block of 128 bits serves eight neighbouring columns with 16 bits each: column c takes
// 16-bit word c % 8 (little-endian order) of block c / 8.
//
// All of it is constexpr, which lets device code call it too.
#pragma once

#include <array>
#include <cstdint>

namespace elmo {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr int kPhiloxRounds = 7;

constexpr PhiloxBlock philox_round(const PhiloxBlock& c, std::uint32_t key0, std::uint32_t key1) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    return {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(p1),
            static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(p0)};
}

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
    for (int round = 0; round < kPhiloxRounds; ++round) {
        counter = philox_round(counter, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// The keys of all rounds, worked out once.
struct PhiloxKeys {
    std::uint32_t key[kPhiloxRounds][2];
};
constexpr PhiloxKeys philox_keys(std::uint64_t seed) {
    PhiloxKeys keys{};
    for (std::uint32_t round = 0; round < kPhiloxRounds; ++round) {
        keys.key[round][0] = static_cast<std::uint32_t>(seed) + round * 0x9E3779B9u;
        keys.key[round][1] = static_cast<std::uint32_t>(seed >> 32) + round * 0xBB67AE85u;
    }
    return keys;
}
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, const PhiloxKeys& keys) {
    for (int round = 0; round < kPhiloxRounds; ++round)
        counter = philox_round(counter, keys.key[round][0], keys.key[round][1]);
    return counter;
}

// Where the noise of one tensor at one step lives. `stream` names the tensor and the purpose
// (a dropout mask and a rounding of the same tensor have different streams); at most 16 bits.
struct NoiseKey {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;    // below 2^40
    std::uint32_t stream = 0;  // below 2^16
};

inline constexpr std::int64_t kNoiseColumns = 8;  // columns that one block serves

constexpr PhiloxBlock noise_counter(const NoiseKey& key, std::int64_t row, std::int64_t block) {
    const auto urow = static_cast<std::uint64_t>(row);
    return {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(urow),
            static_cast<std::uint32_t>(key.step),
            (static_cast<std::uint32_t>(urow >> 32) & 0xffu) | (key.stream << 8) |
                (static_cast<std::uint32_t>(key.step >> 32) << 24)};
}

// The 128 bits of columns [8*block, 8*block + 8) of a row. Rows are below 2^40, blocks below 2^32.
constexpr PhiloxBlock noise_block(const NoiseKey& key, std::int64_t row, std::int64_t block) {
    return philox4x32(noise_counter(key, row, block), static_cast<std::uint32_t>(key.seed),
                      static_cast<std::uint32_t>(key.seed >> 32));
}

// The same from what the row and what the columns give to it, for many blocks of a row and many rows of a
// block: nine of Philox's fourteen wide products are left to each. A part of the columns serves rows with the
// same upper bits (from 2^32 on).
struct NoiseOfRow {
    std::uint32_t high, low;
};
constexpr NoiseOfRow noise_of_row(const NoiseKey& key, const PhiloxKeys& keys, std::int64_t row) {
    const PhiloxBlock first = philox_round(noise_counter(key, row, 0), keys.key[0][0], keys.key[0][1]);
    const std::uint64_t p = std::uint64_t{0xD2511F53u} * first[0];
    return {static_cast<std::uint32_t>(p >> 32), static_cast<std::uint32_t>(p)};
}
constexpr PhiloxBlock noise_of_columns(const NoiseKey& key, const PhiloxKeys& keys, std::int64_t row,
                                       std::int64_t block) {
    const PhiloxBlock first = philox_round(noise_counter(key, row, block), keys.key[0][0], keys.key[0][1]);
    const PhiloxBlock second = philox_round(first, keys.key[1][0], keys.key[1][1]);
    const std::uint64_t p = std::uint64_t{0xD2511F53u} * second[0];
    return {first[3] ^ keys.key[1][1], second[1] ^ keys.key[2][0],
            static_cast<std::uint32_t>(p >> 32) ^ keys.key[2][1], static_cast<std::uint32_t>(p)};
}
constexpr PhiloxBlock noise_block(const NoiseOfRow& row, const PhiloxBlock& columns, const PhiloxKeys& keys) {
    const std::uint64_t p = std::uint64_t{0xCD9E8D57u} * (row.high ^ columns[0]);
    PhiloxBlock counter = {static_cast<std::uint32_t>(p >> 32) ^ columns[1], static_cast<std::uint32_t>(p),
                           row.low ^ columns[2], columns[3]};
    for (int round = 3; round < kPhiloxRounds; ++round)
        counter = philox_round(counter, keys.key[round][0], keys.key[round][1]);
    return counter;
}

constexpr std::uint16_t noise_word(const PhiloxBlock& block, int column_in_block) {
    return static_cast<std::uint16_t>(block[column_in_block >> 1] >> (16 * (column_in_block & 1)));
}

constexpr std::uint16_t noise16(const NoiseKey& key, std::int64_t row, std::int64_t column) {
    return noise_word(noise_block(key, row, column / kNoiseColumns),
                      static_cast<int>(column % kNoiseColumns));
}

}  // namespace elmo
