// The one rank of a run with one process, and what is built on the exchanges of any ranks.
#include "ranks/collectives.h"

#include <algorithm>
#include <cstring>

namespace elmo {

Ranks::~Ranks() = default;

namespace {

class OneRank final : public Ranks {
  public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    void exchange(std::span<const Outgoing>, std::span<const Incoming>) override {}
    void barrier() override {}
};

}  // namespace

Ranks& ranks_of(const Context& context) {
    static OneRank one;  // has no state that anybody reads
    return context.ranks() != nullptr ? *context.ranks() : one;
}

std::vector<std::vector<std::byte>> gather(Ranks& ranks, std::span<const std::byte> mine) {
    const auto size = static_cast<std::size_t>(ranks.size()), here = static_cast<std::size_t>(ranks.rank());
    std::vector<std::uint64_t> lengths(size);
    lengths[here] = mine.size();
    std::vector<Ranks::Outgoing> send;
    std::vector<Ranks::Incoming> receive;
    for (std::size_t r = 0; r < size; ++r) {
        if (r == here) continue;
        send.push_back({static_cast<int>(r), std::as_bytes(std::span(&lengths[here], 1))});
        receive.push_back({static_cast<int>(r), std::as_writable_bytes(std::span(&lengths[r], 1))});
    }
    ranks.exchange(send, receive);
    std::vector<std::vector<std::byte>> all(size);
    for (std::size_t r = 0; r < size; ++r) all[r].resize(lengths[r]);
    std::copy(mine.begin(), mine.end(), all[here].begin());
    send.clear();
    receive.clear();
    for (std::size_t r = 0; r < size; ++r) {
        if (r == here) continue;
        if (!mine.empty()) send.push_back({static_cast<int>(r), mine});
        if (!all[r].empty()) receive.push_back({static_cast<int>(r), all[r]});
    }
    ranks.exchange(send, receive);
    return all;
}

void broadcast(Ranks& ranks, std::vector<std::byte>& bytes, int root) {
    std::uint64_t length = bytes.size();
    broadcast(ranks, std::as_writable_bytes(std::span(&length, 1)), root);
    bytes.resize(length);
    broadcast(ranks, std::span(bytes), root);
}

void broadcast(Ranks& ranks, std::span<std::byte> bytes, int root) {
    if (bytes.empty() || ranks.size() == 1) return;
    std::vector<Ranks::Outgoing> send;
    std::vector<Ranks::Incoming> receive;
    if (ranks.rank() == root) {
        for (int r = 0; r < ranks.size(); ++r)
            if (r != root) send.push_back({r, bytes});
    } else {
        receive.push_back({root, bytes});
    }
    ranks.exchange(send, receive);
}

std::uint32_t any_bits(Ranks& ranks, std::uint32_t bits) {
    if (ranks.size() == 1) return bits;
    std::uint32_t all = 0;
    for (const std::uint32_t one : gather_values(ranks, bits)) all |= one;
    return all;
}

}  // namespace elmo
