// Which rows of a table are marked, and the number of each among the marked ones: one word of bits per 32
// rows, and beside it the number of marked rows before them. Two bits per row, found by one load.
//
// Host and device code call it.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace elmo {

constexpr std::int64_t mark_words(std::int64_t rows) {
    return (rows + 31) / 32;
}

// The number of a row among the marked ones, or -1. `marks`: [mark_words(rows), 2].
constexpr std::int64_t marked_number(const std::uint32_t* marks, std::int64_t row) {
    const std::uint32_t* at = marks + row / 32 * 2;
    const std::uint32_t bit = std::uint32_t{1} << (row % 32);
    return (at[0] & bit) == 0 ? -1 : static_cast<std::int64_t>(at[1]) + std::popcount(at[0] & (bit - 1));
}

// Of `rows` rows, these marked (ascending).
inline std::vector<std::uint32_t> mark_rows(std::int64_t rows, std::span<const std::int64_t> marked) {
    std::vector<std::uint32_t> marks(static_cast<std::size_t>(mark_words(rows)) * 2);
    for (const std::int64_t row : marked)
        marks[static_cast<std::size_t>(row / 32 * 2)] |= std::uint32_t{1} << (row % 32);
    std::uint32_t before = 0;
    for (std::size_t i = 0; i < marks.size(); i += 2) {
        marks[i + 1] = before;
        before += static_cast<std::uint32_t>(std::popcount(marks[i]));
    }
    return marks;
}

}  // namespace elmo
