// Records, fields and layouts: awkward files of every format, read through the whole label import.
#include <gtest/gtest.h>

#include "data/test_folder.h"
#include "data/token_import.h"
#include "elmo/error.h"
#include "quiet.h"
#include "sources/records/record_reader.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace {

using testing_data::contains;
using testing_data::row;
using Ids = std::vector<std::uint32_t>;

class Readers : public testing_data::TestFolder {
  protected:
    std::vector<std::string> records(const std::string& bytes, Framing framing) {
        RecordReader reader(write("records", bytes), framing);
        std::vector<std::string> all;
        RecordBlock block;
        while (reader.next_block(block))
            for (std::int64_t i = 0; i < block.size(); ++i) all.emplace_back(block.record(i).bytes);
        return all;
    }
    Dataset open(const std::string& name = "", DataSummary* summary = nullptr) {
        return Dataset::open_labels(quiet(), config(name), summary);
    }
    std::string error(const std::string& name = "") {
        return message([&] { open(name); });
    }
    std::vector<std::string> training_texts(const Config& options) {
        SplitTexts texts(quiet(), options);
        std::vector<std::string> all;
        for (std::string_view text; texts.next(text);) all.emplace_back(text);
        return all;
    }
    void write_xmc(const std::string& matrix, const std::string& names = "a\nb\nc\n") {
        write("trn_X_Y.txt", matrix);
        write("Y.txt", names);
    }
};

using Strings = std::vector<std::string>;

TEST_F(Readers, Framing) {
    EXPECT_EQ(records("", Framing::kLines), Strings{});
    EXPECT_EQ(records("\n\na\n\n", Framing::kLines), (Strings{"", "", "a", ""}));
    EXPECT_EQ(records("\n\na\n\nb\n\n\n", Framing::kObjects), (Strings{"", "", "a", "", "b"}));
    EXPECT_EQ(records("\xef\xbb\xbf"
                      "a\r\nb",
                      Framing::kLines),
              (Strings{"a", "b"}));
    EXPECT_EQ(records("a,\"b\nc\"\r\n\"d\"\"\n\n\",e\n\n", Framing::kCsv),
              (Strings{"a,\"b\nc\"", "\"d\"\"\n\n\",e"}));
    EXPECT_TRUE(contains(message([&] { records("a\nb,\"c\nd\n", Framing::kCsv); }),
                         "records:2: expected a closing quote, found the end of the file"));
    std::string many;
    for (int i = 0; i < 200000; ++i) many += std::to_string(i) + "\n";
    const auto read_back = records(many, Framing::kLines);
    ASSERT_EQ(read_back.size(), 200000u);
    for (int i = 0; i < 200000; i += 997) EXPECT_EQ(read_back[i], std::to_string(i));
}

TEST_F(Readers, CsvFields) {
    Strings fields;
    split_csv({"a,\"b, \"\"x\"\"\",,\"\"", 1, "f"}, fields);
    EXPECT_EQ(fields, (Strings{"a", "b, \"x\"", "", ""}));
    split_csv({"", 1, "f"}, fields);
    EXPECT_EQ(fields, Strings{""});
    split_csv({"a,", 1, "f"}, fields);
    EXPECT_EQ(fields, (Strings{"a", ""}));
    for (const char* bad : {"\"a\"b,c", "a\"b,c", "\"a"})
        EXPECT_THROW(split_csv({bad, 1, "f"}, fields), DataError) << bad;
}

TEST_F(Readers, XmcRowsEmptyOnesCrlfAndNoFinalNewline) {
    write_xmc(
        "\xef\xbb\xbf"
        "4 3\r\n0:1 2:1\r\n\r\n1:0.5\r\n2:1");
    DataSummary summary;
    const Dataset data = open("", &summary);
    EXPECT_EQ(data.num_labels(), 3);
    ASSERT_EQ(data.train().rows(), 4);
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 2}));
    EXPECT_EQ(row(data.train().labels, 1), Ids{});
    EXPECT_EQ(row(data.train().labels, 2), Ids{1});
    EXPECT_EQ(row(data.train().labels, 3), Ids{2});
    EXPECT_EQ(data.label_counts()[2], 2);
    EXPECT_EQ(data.label_name(1), "b");
    EXPECT_FALSE(data.test().present);
    EXPECT_EQ(summary.rows_without_labels, 1);
    EXPECT_EQ(summary.train_rows, 4);
    EXPECT_TRUE(summary.has_label_names);
}

TEST_F(Readers, XmcErrorsNameFileLineExpectedFound) {
    write_xmc("");
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt: expected a header 'rows columns', found an empty file"));
    write_xmc("2 3\n0:1\n");
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt:1: expected 2 rows, as the header says, found 1"));
    write_xmc("2 3\n0:1\n1:1\n\n");
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt:1: expected 2 rows, as the header says, found more"));
    write_xmc("1 3\n0:1 3:1\n");
    EXPECT_TRUE(
        contains(error(), "trn_X_Y.txt:2: expected an index below the header's 3 columns, found '3:1'"));
    write_xmc("1 3\n0:1 2:1\n", "a\nb\n");
    EXPECT_TRUE(contains(error(), "Y.txt: expected 3 lines"));
    write_xmc("1 3\n0:1\n", "a\nb\xff\nc\n");
    EXPECT_TRUE(contains(error(), "Y.txt:2: expected UTF-8, found byte 0xff at column 2"));
    write_xmc("1 3\n0:1\n");
    write("tst_X_Y.txt", "1 4\n0:1\n");
    EXPECT_TRUE(contains(error(), "tst_X_Y.txt:1: expected 3 columns"));
    write("tst_X_Y.txt", "1 3\n0:1\n");
    EXPECT_EQ(error(), "");
    write("tst_X_Y.txt", "1 4\n0:1\n");  // now with the other matrix in the cache
    EXPECT_TRUE(contains(error(), "tst_X_Y.txt:1: expected 3 columns"));
    // The earliest of several bad rows is named, for any order of threads.
    std::string many = "100000 3\n";
    for (int i = 0; i < 100000; ++i) many += i > 60000 ? "x\n" : "0:1\n";
    write_xmc(many);
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt:60003: expected entries"));
}

TEST_F(Readers, RepeatedAndUnsortedLabelsNeedTheFlag) {
    write_xmc("2 3\n2:1 0:1\n1:1 1:1\n");
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt:2: expected ascending indices"));
    Config allowed = config();
    allowed.allow_repeated_labels = true;
    DataSummary summary;
    const Dataset data = Dataset::open_labels(quiet(), allowed, &summary);
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 2}));
    EXPECT_EQ(row(data.train().labels, 1), Ids{1});
    EXPECT_EQ(summary.merged_labels, 1);
}

TEST_F(Readers, FilterFiles) {
    write_xmc("1 3\n0:1\n");
    write("tst_X_Y.txt", "3 3\n0:1\n1:1\n\n");
    write("tst_filter_labels.txt", "");
    EXPECT_EQ(open().test().filter.values.size(), 0u);
    write("tst_filter_labels.txt", "2 1\n0 2\r\n2 0\n2 1\n");
    write("filter_labels_train.txt", "0\t2\n");
    {
        DataSummary summary;
        const Dataset data = open("", &summary);
        ASSERT_EQ(data.test().filter.rows(), 3);
        EXPECT_EQ(row(data.test().filter, 0), Ids{2});
        EXPECT_EQ(row(data.test().filter, 1), Ids{});
        EXPECT_EQ(row(data.test().filter, 2), (Ids{0, 1}));
        EXPECT_EQ(row(data.train().filter, 0), Ids{2});
        EXPECT_EQ(summary.test_filter_pairs, 3);
        EXPECT_TRUE(contains(data.filter_description(SplitName::kTest), "tst_filter_labels.txt (xxh64 "));
    }
    Config without = config();
    without.filter = "none";
    EXPECT_EQ(Dataset::open_labels(quiet(), without).test().filter.rows(), 0);
    EXPECT_EQ(Dataset::open_labels(quiet(), without).filter_description(SplitName::kTest), "none");
    write("tst_filter_labels.txt", "0 1\n3 1\n");
    EXPECT_TRUE(contains(error(),
                         "tst_filter_labels.txt:2: expected a row below 3 and a label below 3, found '3 1'"));
    write("tst_filter_labels.txt", "0 1 2\n");
    EXPECT_TRUE(contains(error(), "tst_filter_labels.txt:1: expected 'row label', found '0 1 2'"));
    without.filter = "absent.txt";
    EXPECT_TRUE(contains(message<ConfigError>([&] { Dataset::open_labels(quiet(), without); }),
                         "filter: expected auto, none"));
}

TEST_F(Readers, JsonFolderGzippedAndNot) {
    write_gz("trn.json.gz",
             "{\"uid\":\"1\",\"title\":\"t1\",\"content\":\"c1\",\"target_ind\":[1,0]}\n"
             "{\"uid\":\"2\",\"title\":\"t2\",\"content\":\"\",\"target_ind\":[]}\n");
    write("tst.json", "{\"title\":\"t3\",\"content\":\"c3\",\"target_ind\":[1],\"target_rel\":[1.0]}\n\n");
    write_gz("lbl.json.gz", "{\"title\":\"first\"}\n{\"title\":\"second\",\"content\":\"x\"}\n");
    const Dataset data = open();
    EXPECT_EQ(data.num_labels(), 2);
    EXPECT_EQ(data.label_name(1), "second");
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 1}));
    EXPECT_EQ(data.train().rows(), 2);
    EXPECT_EQ(data.test().rows(), 1);
    EXPECT_EQ(training_texts(config()), (Strings{"t1 c1", "t2"}));
    Config titles = config();
    titles.text_column = "title";
    EXPECT_EQ(training_texts(titles), (Strings{"t1", "t2"}));
    write("tst.json", "{\"title\":\"t3\",\"target_ind\":[2]}\n");
    EXPECT_TRUE(contains(error(), "tst.json:1: expected label numbers from 0 to 1"));
    std::filesystem::remove(folder_ / "lbl.json.gz");
    EXPECT_TRUE(contains(error(), "lbl.json: not found"));
}

TEST_F(Readers, TitlesSetsUseTheTitleAlone) {
    write("LF-SomeTitles-1K/trn.json", "{\"title\":\"t1\",\"content\":\"c1\",\"target_ind\":[0]}\n");
    write("LF-SomeTitles-1K/lbl.json", "{\"title\":\"a\"}\n");
    EXPECT_EQ(training_texts(config("LF-SomeTitles-1K/")), Strings{"t1"});
    EXPECT_EQ(training_texts(config("LF-SomeTitles-1K")), Strings{"t1"});
}

TEST_F(Readers, PlainTsvIsSplitAndNamed) {
    std::string body;
    for (int i = 0; i < 2000; ++i)
        body +=
            "text " + std::to_string(i) + "\tl" + std::to_string(i % 7) + ", z" + std::to_string(i) + "\n";
    write("set.tsv", body);
    DataSummary summary;
    const Dataset data = open("set.tsv", &summary);
    EXPECT_EQ(data.train().rows() + data.test().rows(), 2000);
    // Binomial(2000, 0.1): mean 200, standard deviation 13.4; six of them.
    EXPECT_NEAR(static_cast<double>(data.test().rows()), 200, 81);
    EXPECT_EQ(data.num_labels(), 7 + data.train().rows());
    EXPECT_EQ(summary.labels_unseen_in_train, data.test().rows());
    for (std::int64_t l = 1; l < data.num_labels(); ++l)
        EXPECT_LT(data.label_name(l - 1), data.label_name(l));
    EXPECT_EQ(data.label_name(0), "l0");
    for (std::int64_t i = 0; i < data.train().rows(); ++i) EXPECT_EQ(data.train().labels.length(i), 2);
    for (std::int64_t i = 0; i < data.test().rows(); ++i) EXPECT_EQ(data.test().labels.length(i), 1);
    const auto texts = training_texts(config("set.tsv"));
    ASSERT_EQ(static_cast<std::int64_t>(texts.size()), data.train().rows());
    for (std::int64_t i = 0; i < data.train().rows(); ++i)
        EXPECT_EQ("z" + texts[i].substr(5), data.label_name(data.train().labels.row(i)[1]));
}

TEST_F(Readers, PlainFormatsAgree) {
    Config options = config();
    options.test_share = 0;
    options.text_column = "title+body";
    options.label_column = "tags";
    options.label_separator = ";";
    write("a.csv", "id,tags,title,body\n1,\"b; a\",\"x, \"\"y\"\"\",\"more\nlines\"\n2,,alone,\n");
    write("a.tsv", "title\tid\ttags\tbody\nx, \"y\"\t1\ta;b\tmore lines\nalone\t2\t\t\n");
    write("a.jsonl",
          "{\"title\":\"x, \\\"y\\\"\",\"tags\":[\"b\",\"a\"],\"body\":\"more\\nlines\"}\n"
          "{\"title\":\"alone\",\"tags\":[]}\n");
    for (const char* name : {"a.csv", "a.tsv", "a.jsonl"}) {
        options.data = (folder_ / name).string();
        const Dataset data = Dataset::open_labels(quiet(), options);
        ASSERT_EQ(data.num_labels(), 2) << name;
        EXPECT_EQ(data.label_name(0), "a");
        EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 1}));
        EXPECT_EQ(row(data.train().labels, 1), Ids{});
        EXPECT_FALSE(data.test().present);
        const auto texts = training_texts(options);
        EXPECT_EQ(texts[0],
                  std::string("x, \"y\" more") + (std::string(name) == "a.tsv" ? " " : "\n") + "lines");
        EXPECT_EQ(texts[1], "alone");
    }
}

TEST_F(Readers, PlainErrors) {
    write("a.tsv", "one\ttwo\n\nthree\tfour\n");
    EXPECT_TRUE(
        contains(error("a.tsv"), "a.tsv:2: expected 'text<TAB>label,label', found an empty line; remove it"));
    write("a.tsv", "one\ttwo\textra\n");
    EXPECT_TRUE(
        contains(error("a.tsv"), "a.tsv:1: expected 'text<TAB>label,label' or a header with the columns"));
    write("a.tsv", "one\ta,a\n");
    EXPECT_TRUE(contains(error("a.tsv"), "a.tsv:1: expected every label once, found 'a' twice"));
    write("a.tsv", "one\ta\ntw\xe9o\tb\n");
    EXPECT_TRUE(contains(error("a.tsv"), "a.tsv:2: expected UTF-8, found byte 0xe9"));
    write("a.tsv", "");
    EXPECT_TRUE(contains(error("a.tsv"), "a.tsv: expected rows, found an empty file"));
    write("a.csv", "x,y\n1,2\n");
    EXPECT_TRUE(contains(error("a.csv"),
                         "a.csv:1: expected a header with the columns 'text' and 'labels', found 'x,y'"));
    write("a.csv", "text,labels\n1,2,3\n");
    EXPECT_TRUE(contains(error("a.csv"), "a.csv:2: expected 2 fields, as the header has, found 3"));
    write("a.csv", "text,text,labels\n1,2,3\n");
    EXPECT_TRUE(
        contains(error("a.csv"), "a.csv:1: expected each column once, found 'text' in columns 1 and 2"));
    write("a.csv", "text,other,other,labels\n1,2,3,4\n");
    EXPECT_EQ(open("a.csv").num_labels(), 1);
    write("a.dat", "x");
    EXPECT_TRUE(
        contains(message<ConfigError>([&] { open("a.dat"); }), "the format cannot be told from the content"));
    EXPECT_TRUE(contains(error("absent.tsv"), "absent.tsv: no such file"));
    write("empty_folder/readme", "");
    EXPECT_TRUE(contains(error("empty_folder"), "found none of them"));
}

TEST_F(Readers, NothingToLearnFrom) {
    write_xmc("2 0\n\n\n", "");
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt: expected at least one label, found none"));
    write_xmc("0 3\n");
    EXPECT_TRUE(contains(error(), "trn_X_Y.txt: expected training rows, found none"));
    write("a.tsv", "one\t\ntwo\t ,\n");
    EXPECT_TRUE(contains(error("a.tsv"), "a.tsv: expected at least one label, found none"));
    write("marks.txt", "__label__ a\n__class__x b\n");
    EXPECT_TRUE(contains(error("marks.txt"), "; they are words that begin with '__label__'"));
}

TEST_F(Readers, ValidationFiles) {
    write_xmc("1 3\n0:1\n");
    write("val_X_Y.txt", "2 3\n0:1\n2:1\n");
    write("val_X.txt", "a\nb\n");
    Config options = config();
    options.validation = (folder_ / "val_X.txt").string();
    EXPECT_EQ(row(Dataset::open_labels(quiet(), options).validation().labels, 1), Ids{2});
    write("p.tsv", "one\ta,b\ntwo\tc\n");
    write("v.tsv", "three\tc,d\n");
    options = config("p.tsv");
    options.test_share = 0;
    options.validation = (folder_ / "v.tsv").string();
    const Dataset plain = Dataset::open_labels(quiet(), options);
    ASSERT_EQ(plain.validation().rows(), 1);
    EXPECT_EQ(row(plain.validation().labels, 0), Ids{2});
}

}  // namespace
}  // namespace elmo
