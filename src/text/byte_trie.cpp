#include "text/byte_trie.h"

#include <algorithm>

namespace elmo {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> strings) {
    std::sort(strings.begin(), strings.end());
    // The strings below a node are strings[begin, end), equal in their first `depth` bytes.
    struct Range {
        std::size_t begin, end, depth;
    };
    std::vector<Range> ranges = {{0, strings.size(), 0}};
    label_.push_back(0);
    for (std::size_t node = 0; node < ranges.size(); ++node) {
        auto [begin, end, depth] = ranges[node];
        first_child_.push_back(static_cast<std::uint32_t>(ranges.size()));
        id_.push_back(-1);
        for (; begin < end && strings[begin].first.size() == depth; ++begin)
            id_[node] = strings[begin].second;
        while (begin < end) {
            const char byte = strings[begin].first[depth];
            const std::size_t first = begin;
            while (begin < end && strings[begin].first[depth] == byte) ++begin;
            if (node == 0)
                root_children_[static_cast<unsigned char>(byte)] = static_cast<std::uint32_t>(ranges.size());
            label_.push_back(static_cast<unsigned char>(byte));
            ranges.push_back({first, begin, depth + 1});
        }
    }
    first_child_.push_back(static_cast<std::uint32_t>(ranges.size()));
}

}  // namespace elmo
