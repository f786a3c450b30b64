// Label layouts: rows and labels are each other's inverse, for any part.
#include "tensor/label_layout.h"

#include <gtest/gtest.h>

namespace elmo {
namespace {

void expect_inverse(const LabelLayout& layout, const std::vector<std::int64_t>& labels, std::int64_t all) {
    ASSERT_EQ(layout.rows(), static_cast<std::int64_t>(labels.size()));
    for (std::int64_t row = 0; row < layout.rows(); ++row)
        EXPECT_EQ(layout.label(row), labels[static_cast<std::size_t>(row)]);
    std::int64_t found = 0;
    for (std::int64_t label = 0; label < all; ++label)
        if (const std::int64_t row = layout.row(label); row >= 0) {
            EXPECT_EQ(layout.label(row), label);
            ++found;
        }
    EXPECT_EQ(found, layout.rows());
}

TEST(LabelLayout, RowsAndLabelsAreInverse) {
    expect_inverse(LabelLayout::range(0, 5), {0, 1, 2, 3, 4}, 9);
    expect_inverse(LabelLayout::range(3, 6), {3, 4, 5}, 9);
    expect_inverse(LabelLayout::gathered({1, 4, 7}), {1, 4, 7}, 9);
    expect_inverse(LabelLayout::gathered({8}), {8}, 9);
}

}  // namespace
}  // namespace elmo
