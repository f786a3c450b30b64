// Texts for prediction: lines and JSON lines, what is refused, and that a waiting pipe is not waited for.
#include "elmo/text_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

class TextReaderTest : public testing::Test {
  protected:
    std::filesystem::path file(const std::string& name, const std::string& bytes) {
        const auto path = folder_ / name;
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }
    std::vector<std::string> all(const std::filesystem::path& path, const Config& config = {}) {
        TextReader reader(path.string(), config);
        std::vector<std::string> texts;
        for (auto batch = reader.next(2); !batch.empty(); batch = reader.next(2))
            texts.insert(texts.end(), batch.begin(), batch.end());
        return texts;
    }
    std::string error(const std::filesystem::path& path, const Config& config = {}) {
        try {
            all(path, config);
        } catch (const DataError& e) {
            return e.what();
        }
        return "no DataError";
    }
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("elmo_text_reader_" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::filesystem::path folder_;
};

using Texts = std::vector<std::string>;

TEST_F(TextReaderTest, LinesStandAsTheyAreEmptyOnesToo) {
    EXPECT_EQ(all(file("a.txt", "one\n\n two \r\n{x\nlast")), (Texts{"one", "", " two ", "{x", "last"}));
    EXPECT_EQ(all(file("empty.txt", "")), Texts{});
}

// As the rows of training data, whose empty lines at the end are none.
TEST_F(TextReaderTest, EmptyLinesAtTheEndOfRowsAreNoTexts) {
    EXPECT_EQ(all(file("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n\n\n")), (Texts{"one", "two"}));
    EXPECT_EQ(all(file("a", "{\"text\": \"one\"}\n\n")), (Texts{"one"}));
    EXPECT_NE(error(file("b.jsonl", "{\"text\": \"one\"}\n\n\n{\"text\": \"two\"}\n")).find("b.jsonl:2: "),
              std::string::npos);
    EXPECT_EQ(all(file("a.txt", "__label__a one\n\n__label__b two\n\n")), (Texts{"one", "", "two"}));
}

// What is known is answered before a wait.
TEST_F(TextReaderTest, AnEmptyLineOfAPipeKeepsNoAnswers) {
    const std::string path = folder_ / "pipe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int pipe = open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(pipe, 0);
    const std::string first = "__label__a one\n__label__b two\n\n", rest = "__label__c three\n";
    ASSERT_EQ(write(pipe, first.data(), first.size()), static_cast<ssize_t>(first.size()));
    TextReader reader(path, {});
    Texts texts = reader.next(10);
    while (texts.size() < 2) {
        const Texts more = reader.next(10);
        texts.insert(texts.end(), more.begin(), more.end());
    }
    EXPECT_EQ(texts, (Texts{"one", "two"}));
    ASSERT_EQ(write(pipe, rest.data(), rest.size()), static_cast<ssize_t>(rest.size()));
    EXPECT_EQ(reader.next(1), Texts{""});
    EXPECT_EQ(reader.next(1), Texts{"three"});
    close(pipe);
}

// Sparse rows may have no features, or no labels either.
TEST_F(TextReaderTest, RowsWithoutFeaturesAreSparseToo) {
    EXPECT_EQ(all(file("a.txt", "3 100 10\n3,5\n1 4:1\n\n")).size(), 3U);
}

TEST_F(TextReaderTest, LinesWithATabAreAnsweredWholeWithALineThatSaysSo) {
    const auto path = file("a.txt", "one\tx\ntwo\ty\n");
    TextReader reader(path.string(), {});
    EXPECT_EQ(reader.next(2), (Texts{"one\tx", "two\ty"}));
    EXPECT_NE(reader.detected().find("--format tsv"), std::string::npos) << reader.detected();
    Config config;
    config.format = "tsv";
    mark_option(config, "format", Origin::kGiven, "");
    EXPECT_EQ(all(path, config), (Texts{"one", "two"}));
}

// The run was trained on a table without a header; this one has it, and another name.
TEST_F(TextReaderTest, AHeaderThatIsTheColumnsOfTheRun) {
    Config config;
    config.columns = "id,text,labels";
    mark_option(config, "columns", Origin::kRun, "the run's recipe");
    EXPECT_EQ(all(file("a.txt", "id,text,labels\n1,one,a\n2,two,b\n"), config), (Texts{"one", "two"}));
    EXPECT_EQ(all(file("b.txt", "sep=;\nid;text;labels\n1;one;a\n"), config), (Texts{"one"}));
}

TEST_F(TextReaderTest, LinesOfUtf8AreReadSoBesideLatin1) {
    Config config;
    config.encoding = "latin-1";
    EXPECT_EQ(all(file("a.txt",
                       "\xef\xbb\xbf"
                       "caf\u00e9\ncaf\xe9\n"),
                  config),
              (Texts{"caf\u00e9", "caf\u00e9"}));
    const auto json = file("a.jsonl", "{\"text\": \"caf\u00e9\"}\n");
    EXPECT_EQ(all(json, config), (Texts{"caf\u00e9"}));
    TextReader reader(json.string(), config);
    reader.next(1);
    const std::string line = "rows that are UTF-8 are read so, in spite of --encoding latin-1";
    EXPECT_NE(reader.detected().find(line), std::string::npos) << reader.detected();
    // It is said once, wherever the first of them is.
    TextReader late(file("late.txt", "caf\xe9\nplain\ncaf\u00e9\ncaf\u00e9\n").string(), config);
    for (const bool is_said : {false, false, true, false}) {
        late.next(1);
        EXPECT_EQ(late.detected().find(line) != std::string::npos, is_said) << late.detected();
    }
}

// fastText's labels are left out; the first row of a file may have none.
TEST_F(TextReaderTest, LabelsBeforeTexts) {
    EXPECT_EQ(all(file("a.txt", "__label__x one\ntwo\n")), (Texts{"one", "two"}));
    EXPECT_EQ(all(file("b.txt", "one\n__label__x two\n__label__y __label__x three\n")),
              (Texts{"one", "two", "three"}));
    EXPECT_EQ(all(file("c.txt", "one\ntwo\n__label__ is how a label begins\n")),
              (Texts{"one", "two", "__label__ is how a label begins"}));
    EXPECT_EQ(all(file("d.txt", "3 1:0.5\n1:2 7:1\n")), (Texts{"1:0.5", "1:2 7:1"}));
    EXPECT_EQ(all(file("e.txt", "3 1:0.5\n1:2 7:1\nbus at 9:30\n")),
              (Texts{"3 1:0.5", "1:2 7:1", "bus at 9:30"}));
}

TEST_F(TextReaderTest, TablesByTheirColumn) {
    const std::string csv = "id,text,labels\n1,\"one, \"\"two\"\"\nthree\",x\n2,,y\n3,four,\n";
    const Texts texts = {"one, \"two\"\nthree", "", "four"};
    EXPECT_EQ(all(file("a.csv", csv)), texts);
    EXPECT_EQ(all(file("B.CSV", csv)), texts);
    EXPECT_EQ(all(file("a.tsv", "labels\ttext\nx\tone, \"two\"\n\tfour\n")), (Texts{"one, \"two\"", "four"}));
    EXPECT_EQ(all(file("plain.tsv", "one\tx\ntwo\ty\n")), (Texts{"one", "two"}));  // no header: text, labels
    Config config;
    config.text_column = "title+body";
    EXPECT_EQ(all(file("c.csv", "body,title\nb,t\n,u\n"), config), (Texts{"t b", "u"}));
    EXPECT_EQ(error(file("d.csv", "title\nx\n")),
              (folder_ / "d.csv").string() +
                  ":1: expected a header with the column 'text', found 'title'; name the column with "
                  "--text-column, or all of a file without a header with --columns");
    EXPECT_NE(error(file("e.csv", "text,x\na,b,c\n")).find("e.csv:2: expected 2 fields"), std::string::npos);
    EXPECT_NE(error(file("f.csv", "text\n\xff\n")).find("f.csv:2: expected UTF-8"), std::string::npos);
    config = {};
    config.input = "text";
    EXPECT_EQ(all(file("a.csv", "one, two\n"), config), (Texts{"one, two"}));
}

// Two columns may be text<TAB>labels without a header, but not where the run's data has columns.
TEST_F(TextReaderTest, ATsvWithoutTheRunsColumnIsNotReadByItsFirstOne) {
    const auto of_run = [](const std::string& column) {
        Config config;
        config.text_column = column;
        mark_option(config, "text_column", Origin::kRun, "the run's recipe");
        return config;
    };
    const auto path = file("a.tsv", "id\ttitle\n1\tNordland\n");
    for (const char* column : {"name", "name+body", "text"})  // the last: ids show that there is a header
        EXPECT_TRUE(error(path, of_run(column)).starts_with(path.string() + ":1: expected a header with"))
            << error(path, of_run(column));
    EXPECT_EQ(error(path, of_run("name")),
              path.string() +
                  ":1: expected a header with the column 'name', found 'id\\x09title'; name the column with "
                  "--text-column, or all of a file without a header with --columns");
    const auto rows = file("rows.tsv", "Nordland\tcounty\nOslo\tcity\n");
    EXPECT_NE(error(rows, of_run("name")), "no DataError");
    // What the call says holds, and a header with the column or a usual one.
    Config config = of_run("name");
    set_option(config, "columns", "name,labels");
    EXPECT_EQ(all(rows, config), (Texts{"Nordland", "Oslo"}));
    config = of_run("name");
    set_option(config, "text_column", "title");
    EXPECT_EQ(all(path, config), (Texts{"Nordland"}));
    EXPECT_EQ(all(file("b.tsv", "id\tname\n1\tNordland\n"), of_run("name")), (Texts{"Nordland"}));
    EXPECT_EQ(all(file("c.tsv", "id\tTEXT\n1\tNordland\n"), of_run("text")), (Texts{"Nordland"}));
    // A run without names of its own may have no header: the file is read so, and a line says it.
    EXPECT_EQ(all(rows, of_run("text")), (Texts{"Nordland", "Oslo"}));
    EXPECT_EQ(TextReader(rows.string(), of_run("text")).detected(),
              rows.string() +
                  ": read as text<TAB>labels without a header; name the column of a file that has "
                  "one with --text-column");
    EXPECT_EQ(TextReader(rows.string(), Config()).detected(), "");
}

TEST_F(TextReaderTest, JsonLinesByNameByContentAndByOption) {
    const std::string body = "{\"text\": \"a\", \"more\": \"b\"}\n{\"text\": \"c\"}\n";
    EXPECT_EQ(all(file("a.jsonl", body)), (Texts{"a", "c"}));
    EXPECT_EQ(all(file("a.txt", body)), (Texts{"a", "c"}));
    Config config;
    config.text_column = "text+more";
    EXPECT_EQ(all(file("b.txt", body), config), (Texts{"a b", "c"}));
    config.input = "text";
    EXPECT_EQ(all(file("c.txt", "{\"a\": 1}\n"), config), (Texts{"{\"a\": 1}"}));
    config.input = "jsonl";
    EXPECT_NE(error(file("d.txt", "no json\n"), config).find("d.txt:1: expected a JSON object"),
              std::string::npos);
}

TEST_F(TextReaderTest, ErrorsNameFileAndLine) {
    EXPECT_NE(error(file("a.jsonl", "{\"text\": \"a\"}\n{\"title\": \"b\"}\n"))
                  .find("a.jsonl:2: expected the key 'text'"),
              std::string::npos);
    EXPECT_NE(error(file("b.txt", "fine\nbad \xff here\n"))
                  .find("b.txt:2: expected UTF-8, found byte 0xff at column 5"),
              std::string::npos);
    EXPECT_NE(error(folder_ / "missing.txt"), "no DataError");
    EXPECT_NE(error(folder_), "no DataError");
}

TEST_F(TextReaderTest, InvalidUtf8IsReplacedAndCountedWhenAllowed) {
    Config config;
    config.allow_invalid_utf8 = true;
    TextReader reader(file("a.txt", "a\xff\nb\n").string(), config);
    EXPECT_EQ(reader.next(10), (Texts{"a\xef\xbf\xbd", "b"}));
    EXPECT_EQ(reader.replaced_utf8(), 1);
}

TEST_F(TextReaderTest, APipeIsAnsweredWhenItPauses) {
    const auto path = folder_ / "pipe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int writer = open(path.c_str(), O_RDWR);
    ASSERT_GE(writer, 0);
    ASSERT_EQ(write(writer, "one\ntwo\n", 8), 8);
    TextReader reader(path.string(), Config());
    EXPECT_EQ(reader.next(100), (Texts{"one", "two"}));  // would wait for ever if it filled the batch
    ASSERT_EQ(write(writer, "three\n", 6), 6);
    EXPECT_EQ(reader.next(100), Texts{"three"});
    close(writer);
    EXPECT_EQ(reader.next(100), Texts{});
}

}  // namespace
}  // namespace elmo
