#include "batches/batch_shards.h"

namespace elmo {

std::vector<std::int64_t> cut_shards(std::span<const std::int32_t> offsets, std::int64_t shards) {
    const auto texts = static_cast<std::int64_t>(offsets.size()) - 1;
    const std::int64_t tokens = offsets.back();
    std::vector<std::int64_t> cuts = {0};
    std::int64_t text = 0;
    // Distances to tokens * shard / shards, times shards.
    const auto distance = [&](std::int64_t at, std::int64_t shard) {
        const std::int64_t difference = shards * offsets[static_cast<std::size_t>(at)] - tokens * shard;
        return difference < 0 ? -difference : difference;
    };
    for (std::int64_t shard = 1; shard < shards; ++shard) {
        // Texts without tokens keep the distance, so it is walked to where it grows.
        for (std::int64_t at = text + 1; at <= texts && distance(at, shard) <= distance(text, shard); ++at)
            if (distance(at, shard) < distance(text, shard)) text = at;
        cuts.push_back(text);
    }
    cuts.push_back(texts);
    return cuts;
}

}  // namespace elmo
