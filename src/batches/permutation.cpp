#include "batches/permutation.h"

#include <bit>

#include "batches/streams.h"
#include "numerics/philox.h"

namespace elmo {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit.
std::uint64_t mix64(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t size) : size_(size) {
    const int bits = size > 1 ? std::bit_width(static_cast<std::uint64_t>(size - 1)) : 0;
    low_bits_ = bits - bits / 2;
    high_bits_ = bits / 2;
    const NoiseKey key{seed, static_cast<std::uint64_t>(epoch), kStreamRowOrder};
    for (int round = 0; round < kRounds; round += 2) {
        const PhiloxBlock block = noise_block(key, 0, round / 2);
        keys_[round] = std::uint64_t{block[1]} << 32 | block[0];
        keys_[round + 1] = std::uint64_t{block[3]} << 32 | block[2];
    }
}

std::int64_t Permutation::operator()(std::int64_t position) const {
    const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1;
    const std::uint64_t high_mask = (std::uint64_t{1} << high_bits_) - 1;
    auto x = static_cast<std::uint64_t>(position);
    do {
        std::uint64_t low = x & low_mask, high = x >> low_bits_;
        for (int round = 0; round < kRounds; round += 2) {
            low ^= mix64(high ^ keys_[round]) & low_mask;
            high ^= mix64(low ^ keys_[round + 1]) & high_mask;
        }
        x = high << low_bits_ | low;
    } while (x >= static_cast<std::uint64_t>(size_));
    return static_cast<std::int64_t>(x);
}

}  // namespace elmo
