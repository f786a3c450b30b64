// Choosing a share of rows by a hash, the same on every machine and in every version.
#pragma once

#include <cstdint>

namespace elmo {

// True for about `share` of all 64-bit hashes.
inline bool falls_in_share(std::uint64_t hash, double share) {
    return static_cast<double>(hash >> 11) * 0x1p-53 < share;
}

}  // namespace elmo
