// Distinct names, numbered as they come: bytes in one arena, numbers in an open hash table. A name costs its
// bytes and about twenty more, so that millions of labels fit where millions of strings would not.
#pragma once

#include <cstdint>
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

    std::int64_t size() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
    std::string_view name(std::uint32_t number) const {
        return {bytes_.data() + offsets_[number],
                static_cast<std::size_t>(offsets_[number + 1] - offsets_[number])};
    }
    // Numbers in the order of their names' bytes.
    std::vector<std::uint32_t> sorted() const;

  private:
    std::size_t slot_of(std::string_view name) const;
    void grow();

    std::vector<char> bytes_;
    std::vector<std::int64_t> offsets_;  // [size + 1]
    std::vector<std::uint32_t> slots_;   // number + 1, 0 where free
};

}  // namespace elmo
