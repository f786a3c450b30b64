// The shards of a batch: contiguous ranges of its texts with about equal numbers of tokens. A function of the
// batch and the number of shards, never of the ranks that work on them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace elmo {

// Where each shard begins among the texts: shards + 1 numbers. offsets: where each text begins among the
// tokens. A shard ends where the number of tokens so far is closest to its part of all; of two such places it
// is the earlier. A shard may be without texts.
std::vector<std::int64_t> cut_shards(std::span<const std::int32_t> offsets, std::int64_t shards);

}  // namespace elmo
