// What only the first rank has, given out to those whose part of it it is.
#pragma once

#include <span>
#include <vector>

#include "ranks/collectives.h"

namespace elmo {

// part_of(rank) on the first rank; every rank returns its own part. A collective.
template <class T, class PartOf>
std::vector<T> scatter(Ranks& ranks, const PartOf& part_of) {
    std::vector<std::uint64_t> lengths(static_cast<std::size_t>(ranks.size()));
    std::vector<Ranks::Outgoing> send;
    if (!ranks.is_first()) {
        std::uint64_t length = 0;
        const Ranks::Incoming count{0, std::as_writable_bytes(std::span(&length, 1))};
        ranks.exchange({}, {&count, 1});
        std::vector<T> mine(length);
        const Ranks::Incoming values{0, std::as_writable_bytes(std::span(mine))};
        if (length > 0) ranks.exchange({}, {&values, 1});
        return mine;
    }
    for (int r = 1; r < ranks.size(); ++r) {
        std::uint64_t& length = lengths[static_cast<std::size_t>(r)];
        length = std::span<const T>(part_of(r)).size();
        send.push_back({r, std::as_bytes(std::span(&length, 1))});
    }
    ranks.exchange(send, {});
    send.clear();
    for (int r = 1; r < ranks.size(); ++r)
        if (const std::span<const T> part = part_of(r); !part.empty())
            send.push_back({r, std::as_bytes(part)});
    ranks.exchange(send, {});
    const std::span<const T> mine = part_of(0);
    return {mine.begin(), mine.end()};
}

}  // namespace elmo
