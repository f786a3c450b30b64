// The sparse matrix reader on rows that are right and on everything that can be wrong with them.
#include "sources/matrices/sparse_matrix.h"

#include <gtest/gtest.h>

#include "elmo/error.h"

namespace elmo {
namespace {

using Ids = std::vector<std::uint32_t>;

SparseRow parse(std::string_view line, std::int64_t columns = 100, SparseRules rules = {},
                ImportCounts* counts = nullptr) {
    SparseRow row;
    ImportCounts own;
    parse_sparse_row({line, 7, "file"}, columns, rules, row, counts != nullptr ? *counts : own);
    return row;
}

std::string error(std::string_view line, SparseRules rules = {}) {
    try {
        parse(line, 100, rules);
    } catch (const DataError& e) {
        return e.what();
    }
    return "";
}

TEST(SparseMatrix, ReadsEntries) {
    EXPECT_EQ(parse("").indices, Ids{});
    EXPECT_EQ(parse("  \t ").indices, Ids{});
    EXPECT_EQ(parse("0:1 5:1.00000  99:0.25 ").indices, (Ids{0, 5, 99}));
    EXPECT_EQ(parse("0:1 5:1.00000 99:-0.25").values, (std::vector<float>{1, 1, -0.25}));
    EXPECT_EQ(parse("3 4:1e-3").values, (std::vector<float>{1, 1e-3f}));
}

TEST(SparseMatrix, AZeroIsNoLabelButAScore) {
    EXPECT_EQ(parse("1:0 2:1 3:0.0").indices, Ids{2});
    SparseRules scores;
    scores.ascending = false;
    scores.keep_zeros = true;
    EXPECT_EQ(parse("7:0 2:1 3:-1", 100, scores).indices, (Ids{7, 2, 3}));
    EXPECT_EQ(error("7:0 2:1 7:-1", scores), "file:7: expected every index once, found 7 twice");
}

TEST(SparseMatrix, NamesWhatIsWrong) {
    EXPECT_EQ(error("1:1 100:1"), "file:7: expected an index below the header's 100 columns, found '100:1'");
    EXPECT_EQ(
        error("1:1 1:1"),
        "file:7: expected every index once, found 1 again; merge repeated ones with --allow-repeated-labels");
    EXPECT_EQ(error("5:1 4:1"),
              "file:7: expected ascending indices, found 4 after 5; sort (and merge) them with "
              "--allow-repeated-labels");
    for (const char* bad : {"x", "-1:1", "1:", "1:x", ":1", "1:1:1", "1.5:1", "1:nan", "1:inf", "1:1e99",
                            "+1:1", "18446744073709551616:1"})
        EXPECT_EQ(error(bad), std::string("file:7: expected entries 'index:value', found '") + bad + "'");
    EXPECT_NE(error("18446744073709551615:1"), "");
    EXPECT_NE(error(std::string_view("1:1\0", 4)), "");
}

TEST(SparseMatrix, MendsAndCountsWhenAllowed) {
    SparseRules rules;
    rules.mend = true;
    ImportCounts counts;
    EXPECT_EQ(parse("9:1 3:1 9:1 3:1 4:0 3:1", 100, rules, &counts).indices, (Ids{3, 9}));
    EXPECT_EQ(counts.merged_labels, 3);
    EXPECT_EQ(counts.unsorted_rows, 1);
    EXPECT_EQ(parse("1:1 1:2", 100, rules, &counts).values, std::vector<float>{1});
    EXPECT_EQ(counts.merged_labels, 4);
    EXPECT_EQ(counts.unsorted_rows, 1);
}

TEST(SparseMatrix, Header) {
    EXPECT_EQ(parse_sparse_header({"3 4294967295", 1, "f"}).columns, 4294967295);
    EXPECT_EQ(parse_sparse_header({" 3  7 ", 1, "f"}).rows, 3);
    for (const char* bad : {"", "3", "3 4 5", "-1 4", "3 -4", "3 4294967296", "a b", "0:1 2:1", "3.0 4"})
        EXPECT_THROW(parse_sparse_header({bad, 1, "f"}), DataError) << bad;
}

}  // namespace
}  // namespace elmo
