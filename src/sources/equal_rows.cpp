#include "sources/equal_rows.h"

#include <algorithm>
#include <numeric>

#include "io/checksum.h"

namespace elmo {

std::vector<std::int64_t> first_of_equal(
    std::int64_t rows, const std::function<std::span<const std::int32_t>(std::int64_t)>& tokens) {
    std::vector<std::pair<std::uint64_t, std::int64_t>> hashed;
    std::vector<std::int64_t> first(static_cast<std::size_t>(rows));
    std::iota(first.begin(), first.end(), 0);
    for (std::int64_t row = 0; row < rows; ++row)
        if (const auto text = tokens(row); !text.empty())
            hashed.emplace_back(hash64(std::as_bytes(text)), row);
    std::sort(hashed.begin(), hashed.end());
    for (std::size_t i = 1; i < hashed.size(); ++i)
        if (hashed[i].first == hashed[i - 1].first)
            first[static_cast<std::size_t>(hashed[i].second)] =
                first[static_cast<std::size_t>(hashed[i - 1].second)];
    return first;
}

}  // namespace elmo
