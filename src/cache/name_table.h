// Distinct names, numbered as they come: bytes in chunks that never move, numbers in an open hash table. A
// name costs its bytes and about twenty more, so millions of labels fit where millions of strings would not.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace elmo {

class NameTable {
  public:
    NameTable();

    // The number of the name, new or known. DataError beyond 2^32 - 2 names.
    std::uint32_t add(std::string_view name);
    // Safe from many threads while nothing is added.
    std::optional<std::uint32_t> find(std::string_view name) const;

    std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
    std::string_view name(std::uint32_t number) const {
        const Entry& entry = entries_[number];
        return {chunks_[entry.chunk].get() + entry.begin, entry.length};
    }
    // Numbers in the order of their names' bytes.
    std::vector<std::uint32_t> sorted() const;

  private:
    struct Entry {
        std::uint32_t chunk, begin, length;
    };
    std::size_t slot_of(std::string_view name) const;
    void grow();

    std::vector<std::unique_ptr<char[]>> chunks_;
    std::size_t chunk_used_ = 0, chunk_size_ = 0;  // of the last one
    std::deque<Entry> entries_;
    std::vector<std::uint32_t> slots_;  // number + 1, 0 where free
};

}  // namespace elmo
