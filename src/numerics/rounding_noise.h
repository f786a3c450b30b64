// Noise for stochastic rounding, chosen so that rounding errors partly cancel. Every kind is addressed noise,
// uniform at each address, so every single rounding is unbiased. The kinds differ in how the noise of several
// addresses is correlated.
#pragma once

#include <cstdint>

#include "numerics/philox.h"

namespace elmo {

enum class NoiseKind : std::uint8_t {
    kIndependent,  // every step, row and column its own
    kPaired,       // column 2j + 1 takes 1 - u where column 2j takes u
    kShared,       // all rows of a column take the same
    kSteps,        // a weight's noise moves by the golden ratio from step to step: of n steps that would each
                   // round up with probability f, n f do so, nearly, instead of a binomial number
    kSharedSteps,  // both: all rows of a column take the same, which moves from step to step
};

constexpr bool is_shared(NoiseKind kind) {
    return kind == NoiseKind::kShared || kind == NoiseKind::kSharedSteps;
}
constexpr bool moves_by_step(NoiseKind kind) {
    return kind == NoiseKind::kSteps || kind == NoiseKind::kSharedSteps;
}

// The offset of moving noise at a step, in the 16 bits of a noise: multiples of the golden ratio modulo 1.
constexpr std::uint32_t golden_move(std::uint64_t step) {
    return (static_cast<std::uint32_t>(step) * 0x9e3779b9u) >> 16;
}

// The noise of columns [8 block, 8 block + 8), as noise_block gives it.
constexpr PhiloxBlock rounding_block(NoiseKind kind, const NoiseKey& key, std::int64_t row,
                                     std::int64_t block) {
    const bool steps = moves_by_step(kind);
    const PhiloxBlock words =
        noise_block({key.seed, steps ? 0 : key.step, key.stream}, is_shared(kind) ? 0 : row, block);
    // The first column of a word is its lower half.
    const std::uint32_t move = steps ? golden_move(key.step) : 0;
    const std::uint32_t flip = kind == NoiseKind::kPaired ? 0xffff0000u : 0;
    const auto drawn = [=](std::uint32_t word) {
        const std::uint32_t low = (word + move) & 0xffffu, high = (word & 0xffff0000u) + (move << 16);
        return low | (flip != 0 ? ~low << 16 : high);
    };
    return {drawn(words[0]), drawn(words[1]), drawn(words[2]), drawn(words[3])};
}

constexpr std::uint16_t rounding_noise(NoiseKind kind, const NoiseKey& key, std::int64_t row,
                                       std::int64_t column) {
    return noise_word(rounding_block(kind, key, row, column / kNoiseColumns),
                      static_cast<int>(column % kNoiseColumns));
}

}  // namespace elmo
