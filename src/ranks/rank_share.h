// What a rank has of a run: a range of the label groups, and a range of the shards of each batch. Groups and
// shards belong to the run (docs/numerics.md); only who has them depends on the number of ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace elmo {

struct ShareRange {
    std::int64_t first = 0, last = 0;
    std::int64_t size() const { return last - first; }
};

struct RankShare {
    static constexpr std::int64_t kTile = 256;  // labels: groups end at whole tiles

    std::int64_t rank = 0, ranks = 1;
    std::int64_t groups = 1, shards = 1;

    bool is_alone() const { return ranks == 1; }
    // One group, one shard, one rank: nothing is cut and nothing added.
    bool is_whole() const { return ranks == 1 && groups == 1 && shards == 1; }

    // Part `index` of `parts` of a whole.
    static ShareRange part(std::int64_t whole, std::int64_t index, std::int64_t parts) {
        return {whole * index / parts, whole * (index + 1) / parts};
    }
    ShareRange own_shards(std::int64_t of_rank) const { return part(shards, of_rank, ranks); }
    ShareRange own_shards() const { return own_shards(rank); }

    // Fewer labels than that many tiles make fewer groups.
    std::int64_t num_groups(std::int64_t labels) const { return std::min(groups, num_tiles(labels)); }
    ShareRange own_groups(std::int64_t labels, std::int64_t of_rank) const {
        return part(num_groups(labels), of_rank, ranks);
    }
    ShareRange own_groups(std::int64_t labels) const { return own_groups(labels, rank); }
    ShareRange group_labels(std::int64_t labels, std::int64_t group) const {
        return labels_of_tiles(labels, part(num_tiles(labels), group, num_groups(labels)));
    }
    ShareRange own_labels(std::int64_t labels, std::int64_t of_rank) const {
        const ShareRange own = own_groups(labels, of_rank);
        if (own.size() == 0) return {0, 0};
        return {group_labels(labels, own.first).first, group_labels(labels, own.last - 1).last};
    }
    ShareRange own_labels(std::int64_t labels) const { return own_labels(labels, rank); }

  private:
    static std::int64_t num_tiles(std::int64_t labels) { return (labels + kTile - 1) / kTile; }
    static ShareRange labels_of_tiles(std::int64_t labels, ShareRange tiles) {
        return {std::min(labels, tiles.first * kTile), std::min(labels, tiles.last * kTile)};
    }
};

// The rank with the most labels, the first of several.
inline std::int64_t fullest_rank(const RankShare& share, std::int64_t labels) {
    std::int64_t fullest = 0;
    for (std::int64_t r = 1; r < share.ranks; ++r)
        if (share.own_labels(labels, r).size() > share.own_labels(labels, fullest).size()) fullest = r;
    return fullest;
}

}  // namespace elmo
