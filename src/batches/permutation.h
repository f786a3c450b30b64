// The order of the rows in one epoch: an addressed permutation, it depends only on (seed, epoch, size).
// Any position can be computed by itself, so a resumed run needs no replay and nothing is stored.
#pragma once

#include <array>
#include <cstdint>

namespace elmo {

// A bijection of [0, size): an alternating Feistel network on the next power of two, walked until it lands
// inside (two tries on average at most). Round keys come from Philox.
class Permutation {
  public:
    Permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t size);

    std::int64_t operator()(std::int64_t position) const;
    std::int64_t size() const { return size_; }

  private:
    static constexpr int kRounds = 8;

    std::int64_t size_;
    int low_bits_, high_bits_;
    std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace elmo
