// Marks of rows against a list of them.
#include "numerics/row_marks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace elmo {
namespace {

TEST(RowMarks, NumberTheMarkedRowsInOrder) {
    for (const std::int64_t rows : {1, 31, 32, 33, 1000}) {
        const std::vector<std::vector<std::int64_t>> lists = {{}, {0}, {rows - 1}};
        for (std::vector<std::int64_t> marked : lists) {
            for (std::int64_t row = 3; row < rows - 1; row += 1 + row % 7) marked.push_back(row);
            std::ranges::sort(marked);
            const std::vector<std::uint32_t> marks = mark_rows(rows, marked);
            ASSERT_EQ(marks.size(), static_cast<std::size_t>(2 * mark_words(rows)));
            for (std::int64_t row = 0; row < rows; ++row) {
                const auto at = std::ranges::find(marked, row);
                EXPECT_EQ(marked_number(marks.data(), row), at == marked.end() ? -1 : at - marked.begin());
            }
        }
    }
}

}  // namespace
}  // namespace elmo
