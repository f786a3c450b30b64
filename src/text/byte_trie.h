// A set of byte strings with ids that finds those at the start of a text. Nodes are in breadth-first order,
// so the children of a node are neighbours and a node costs nine bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace elmo {

class ByteTrie {
  public:
    // Ids must not be negative. Building takes time linear in the bytes of the strings, after sorting.
    explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> strings);

    // Calls visit(length, id) for every string that `text` starts with, the shortest first.
    template <class Visit>
    void each_prefix(std::string_view text, Visit&& visit) const {
        if (text.empty()) return;
        std::uint32_t node = root_children_[static_cast<unsigned char>(text[0])];
        for (std::size_t i = 1; node != 0; ++i) {
            if (id_[node] >= 0) visit(i, id_[node]);
            if (i == text.size()) break;
            node = child(node, static_cast<unsigned char>(text[i]));
        }
    }

    // Length of the longest string that `text` starts with and its id; 0 when there is none.
    std::size_t longest_prefix(std::string_view text, std::int32_t& id) const {
        std::size_t longest = 0;
        each_prefix(text, [&](std::size_t length, std::int32_t found) {
            longest = length;
            id = found;
        });
        return longest;
    }

  private:
    std::uint32_t child(std::uint32_t node, unsigned char byte) const {
        const std::uint32_t begin = first_child_[node];
        const std::uint32_t count = first_child_[node + 1] - begin;
        if (count == 0) return 0;
        const void* found = std::memchr(label_.data() + begin, byte, count);
        return found == nullptr
                   ? 0
                   : static_cast<std::uint32_t>(static_cast<const unsigned char*>(found) - label_.data());
    }

    std::array<std::uint32_t, 256> root_children_{};  // 0: none; no node but the root has number 0
    std::vector<std::uint32_t> first_child_;          // [nodes + 1]
    std::vector<unsigned char> label_;                // [nodes], the byte that leads here
    std::vector<std::int32_t> id_;                    // [nodes], -1 where no string ends
};

}  // namespace elmo
