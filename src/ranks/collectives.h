// What the rooms above ask of the ranks of a run, built on their exchange: gathering, broadcasting, agreeing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <type_traits>
#include <vector>

#include "elmo/context.h"
#include "elmo/ranks.h"

namespace elmo {

// The context's, or the only rank of a run with one process.
Ranks& ranks_of(const Context& context);

// Every rank's bytes, in the order of ranks; lengths may differ.
std::vector<std::vector<std::byte>> gather(Ranks& ranks, std::span<const std::byte> mine);
// The root's bytes on every rank; all know the length, or with a vector learn it.
void broadcast(Ranks& ranks, std::span<std::byte> bytes, int root = 0);
void broadcast(Ranks& ranks, std::vector<std::byte>& bytes, int root = 0);
// The bits that any rank has set.
std::uint32_t any_bits(Ranks& ranks, std::uint32_t bits);

template <class T>
std::vector<T> gather_values(Ranks& ranks, const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(ranks.size()));
    all[static_cast<std::size_t>(ranks.rank())] = mine;
    std::vector<Ranks::Outgoing> send;
    std::vector<Ranks::Incoming> receive;
    for (int r = 0; r < ranks.size(); ++r) {
        if (r == ranks.rank()) continue;
        send.push_back({r, std::as_bytes(std::span(&mine, 1))});
        receive.push_back({r, std::as_writable_bytes(std::span(&all[static_cast<std::size_t>(r)], 1))});
    }
    ranks.exchange(send, receive);
    return all;
}

// While it lives the first rank works, then the others: what the first leaves on disk, they find.
class FirstRankFirst {
  public:
    explicit FirstRankFirst(Ranks& ranks) : ranks_(ranks), exceptions_(std::uncaught_exceptions()) {
        if (!ranks.is_first()) ranks.barrier();
    }
    // A rank that has failed waits for nobody.
    ~FirstRankFirst() noexcept(false) {
        if (ranks_.is_first() && std::uncaught_exceptions() == exceptions_) ranks_.barrier();
    }
    FirstRankFirst(const FirstRankFirst&) = delete;
    FirstRankFirst& operator=(const FirstRankFirst&) = delete;

  private:
    Ranks& ranks_;
    int exceptions_;
};

}  // namespace elmo
