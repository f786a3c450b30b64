// Data sets from memory.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/test_folder.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "quiet.h"
#include "sources/layout.h"
#include "sources/tables/guess.h"

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

// Runs tell rows by it: equal ones are the same in another folder too.
TEST_F(RowFolders, RowsAreCalledByTheirHash) {
    const auto name_of = [&](int first, bool test) {
        RowFolder rows;
        rows.add(row_of(first));
        if (test) rows.add_test(row_of(1));
        Config config;
        rows.finish(config);
        EXPECT_TRUE(is_row_folder(config.data)) << config.data;
        return original_value(config, "data");
    };
    EXPECT_TRUE(is_row_folder(name_of(1, false)));
    EXPECT_TRUE(is_row_folder(name_of(1, false) + "/train.jsonl"));
    for (const char* of_people : {"rows/train.jsonl", "elmo-rows-a.csv", "elmo-rows-2024/d.csv",
                                  "elmo-rows-mine", "elmo-rows-", "elmo-rows-2024/train.jsonl"})
        EXPECT_FALSE(is_row_folder(of_people)) << of_people;
    EXPECT_EQ(name_of(1, true), name_of(1, true));
    EXPECT_NE(name_of(1, true), name_of(1, false));
    EXPECT_NE(name_of(1, false), name_of(2, false));
}

TEST_F(RowFolders, ColumnsOfTheTableAreRemembered) {
    for (const char* text_column : {"title+body", "meta.title"}) {
        RowFolder rows;
        rows.name_columns(text_column, "tags");
        for (int i = 0; i < 20; ++i) rows.add(row_of(i));
        rows.add_test(row_of(1));
        Config config;
        rows.finish(config);
        EXPECT_EQ(config.text_column, text_column);
        EXPECT_EQ(config.label_column, "tags");
        const DataSummary summary = import_data(quiet(), config);
        EXPECT_EQ(summary.train_rows, 20);
        EXPECT_EQ(summary.labels, 8);
        // Columns whose texts were joined are not doubted.
        EXPECT_EQ(missing_text_keys(find_layout(ReadOptions(config))), std::vector<std::string>());
    }
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

TEST_F(RowFolders, FieldsOfTablesAreReadAsInFiles) {
    const auto names = [&](const std::vector<std::string>& fields, const std::string& separator) {
        RowFolder rows;
        for (const std::string& field : fields) rows.add({.text = "text of " + field, .label_field = field});
        Config config;
        config.test_share = 0;
        set_option(config, "label_separator", separator);
        rows.finish(config);
        const Dataset data = Dataset::open_labels(quiet(), config);
        std::string all;
        for (std::int64_t label = 0; label < data.num_labels(); ++label)
            (all += all.empty() ? "" : " + ") += data.label_name(label);
        return all;
    };
    EXPECT_EQ(names({" a, b c ,,d", "a"}, "auto"), "a + b c + d");
    EXPECT_EQ(names({"a;b", "b;c", "c;a"}, "auto"), "a + b + c");
    EXPECT_EQ(names({"['a, b', 'c']", "['c']"}, "auto"), "a, b + c");
    EXPECT_EQ(names({"[a, b]", "[b]"}, "auto"), "a + b");
    EXPECT_EQ(names({"a,b", "b"}, "none"), "a,b + b");
    EXPECT_THROW(names({"a, b"}, "list"), DataError);
}

TEST_F(RowFolders, NullsAreCountedWhereTheyAreAllowed) {
    RowFolder rows;
    rows.add({"one", {"a"}});
    rows.add({.text = "two", .labels = {"b"}, .null_label = true});
    rows.add({.text = "three", .null_label = true});
    Config config;
    config.test_share = 0;
    rows.finish(config);
    EXPECT_THROW(Dataset::open_labels(quiet(), config), DataError);
    config.allow_null_labels = true;
    std::vector<std::string> said;
    Sinks sinks;
    sinks.message = [&](Severity, std::string_view line) { said.emplace_back(line); };
    const Dataset data = Dataset::open_labels(quiet().with_sinks(sinks), config);
    EXPECT_EQ(data.num_labels(), 2);
    EXPECT_EQ(data.train().rows(), 3);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_TRUE(testing_data::contains(said[0], "2 rows with null")) << said[0];
}

}  // namespace
}  // namespace elmo
