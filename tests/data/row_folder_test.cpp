// Data sets from memory.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/test_folder.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

class RowFolders : public testing_data::TestFolder {};

const std::vector<std::string> kAwkward = {"plain",       "with, comma",      "with \"quotes\" and \\",
                                           "with a\ttab", "\u00fcml\u00e4ut", "line\nend"};

Row row_of(int i) {
    return {"text " + std::to_string(i) + " " + kAwkward[static_cast<std::size_t>(i) % kAwkward.size()],
            {kAwkward[static_cast<std::size_t>(i) % 5], "label " + std::to_string(i % 3)}};
}

TEST_F(RowFolders, RowsFromMemoryAreADataSet) {
    std::filesystem::path folder;
    {
        RowFolder rows;
        for (int i = 0; i < 20; ++i) rows.add(row_of(i));
        for (int i = 0; i < 5; ++i) rows.add_test(row_of(i));
        RowFolder moved = std::move(rows);
        Config config;
        moved.finish(config);
        folder = config.data;
        // So that they are not read with the columns of a run.
        for (const char* key : {"data", "format", "text_column", "label_column"})
            EXPECT_TRUE(given(config, key)) << key;
        EXPECT_TRUE(std::filesystem::exists(folder / "train.jsonl"));
        const DataSummary summary = import_data(quiet(), config);
        EXPECT_EQ(summary.train_rows, 20);
        EXPECT_EQ(summary.test_rows, 5);
        EXPECT_EQ(summary.labels, 8);
        EXPECT_EQ(summary.labels_per_row, 2);
        EXPECT_TRUE(summary.has_label_names);
    }
    EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(RowFolders, AGivenFolderStaysAndIsNotWrittenTwice) {
    const std::string folder = (folder_ / "rows").string();
    RowFolder(folder).add(row_of(1));
    EXPECT_TRUE(std::filesystem::exists(folder + "/train.jsonl"));
    RowFolder again(folder);
    EXPECT_THROW(again.add(row_of(1)), DataError);
}

TEST_F(RowFolders, WhatIsNotUtf8IsRefusedWithItsRow) {
    RowFolder rows;
    rows.add(row_of(1));
    try {
        rows.add({"a\xff", {"x"}});
        FAIL();
    } catch (const DataError& error) {
        EXPECT_STREQ(error.what(), "row 2 of train.jsonl: expected a text of valid UTF-8, found 'a\\xff'");
    }
    EXPECT_THROW(rows.add_test({"a", {"\xc0"}}), DataError);
}

TEST(LabelsInField, AreCutAsInFiles) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(labels_in_field(" a, b c ,,d", ","), (Names{"a", "b c", "d"}));
    EXPECT_EQ(labels_in_field("a,b", ""), Names{"a,b"});
    EXPECT_EQ(labels_in_field("", ","), Names());
    for (const char* separator : {"list", "auto"}) {
        EXPECT_EQ(labels_in_field("['a, b', 'c']", separator), (Names{"a, b", "c"}));
        EXPECT_EQ(labels_in_field("[\"a\"]", separator), Names{"a"});
        EXPECT_EQ(labels_in_field(" ", separator), Names());
    }
    EXPECT_THROW(labels_in_field("a, b", "list"), DataError);
    EXPECT_EQ(labels_in_field("['a']", ","), Names{"['a']"});
}

}  // namespace
}  // namespace elmo
