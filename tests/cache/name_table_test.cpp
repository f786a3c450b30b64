// Names and numbers: many, long, empty, and in order.
#include "cache/name_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace elmo {
namespace {

TEST(NameTable, NumbersAsTheyCome) {
    NameTable table;
    EXPECT_EQ(table.add("b"), 0u);
    EXPECT_EQ(table.add(""), 1u);
    EXPECT_EQ(table.add("a"), 2u);
    EXPECT_EQ(table.add("b"), 0u);
    EXPECT_EQ(table.size(), 3);
    EXPECT_EQ(table.find("a"), 2u);
    EXPECT_EQ(table.find("c"), std::nullopt);
    EXPECT_EQ(table.sorted(), (std::vector<std::uint32_t>{1, 2, 0}));
}

TEST(NameTable, ManyAndLongNames) {
    NameTable table;
    const std::string long_name(std::size_t{5} << 20, 'x');  // longer than a chunk
    for (int i = 0; i < 200000; ++i) {
        ASSERT_EQ(table.add("name " + std::to_string(i)), static_cast<std::uint32_t>(i + (i > 1000)));
        if (i == 1000) {
            ASSERT_EQ(table.add(long_name), 1001u);
        }
    }
    EXPECT_EQ(table.size(), 200001);
    EXPECT_EQ(table.name(1001), long_name);
    for (int i = 0; i < 200000; i += 97) {
        const auto number = table.find("name " + std::to_string(i));
        ASSERT_TRUE(number.has_value());
        EXPECT_EQ(table.name(*number), "name " + std::to_string(i));
    }
    const auto order = table.sorted();
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end(),
                               [&](auto a, auto b) { return table.name(a) < table.name(b); }));
}

}  // namespace
}  // namespace elmo
