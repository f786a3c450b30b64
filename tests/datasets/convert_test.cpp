// Round trips: every format to every other, from awkward files, ends in the same rows.
#include <gtest/gtest.h>

#include "data/test_folder.h"
#include "data/token_import.h"
#include "elmo/data.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

using testing_data::contains;
using testing_data::shared_data;

struct Row {
    std::string text;
    std::vector<std::string> labels;
    bool operator==(const Row&) const = default;
};
void PrintTo(const Row& row, std::ostream* out) {
    *out << "'" << row.text << "' [";
    for (const auto& label : row.labels) *out << label << " ";
    *out << "]";
}
using ReadRows = std::vector<Row>;

class Convert : public testing_data::TestFolder {
  protected:
    Config in(const std::string& name) const {
        Config result = config(name);
        result.cache = (folder_ / "cache").string();
        return result;
    }
    ReadRows rows(const Config& options, SplitName split) const {
        const Dataset data = Dataset::open_labels(quiet(), options);
        SplitTexts texts(quiet(), options, split);
        ReadRows all;
        std::string_view text;
        for (std::int64_t i = 0; i < data.split(split).rows(); ++i) {
            EXPECT_TRUE(texts.next(text));
            Row row{std::string(text), {}};
            for (const std::uint32_t label : data.split(split).labels.row(i))
                row.labels.emplace_back(data.label_name(label));
            std::sort(row.labels.begin(), row.labels.end());
            all.push_back(std::move(row));
        }
        EXPECT_FALSE(texts.next(text));
        return all;
    }
    Conversion convert(const std::string& from, const std::string& to, const std::string& out) {
        Config options = in(from);
        options.out = (folder_ / out).string();
        return convert_data(quiet(), options, to);
    }
    // Empty rows, CRLF, a byte order mark, no final line end; labels unsorted by name.
    void write_awkward() {
        write(
            "start/trn_X.txt",
            "\xef\xbb\xbfplain\r\n\r\n\"quoted\", with comma\r\n{braces} [x] \\ back\r\nd\u00e9j\u00e0 vu\r\n"
            "__label \xe2\x82\xac 1,2 3:4\r\nlast but one\r\n");
        write("start/trn_X_Y.txt",
              "\xef\xbb\xbf"
              "7 4\r\n1:1 3:1\r\n\r\n0:1\r\n2:1\r\n0:1 1:1 2:1 3:1\r\n3:1\r\n\r\n");
        write("start/tst_X.txt", "a test\n\nlast");
        write("start/tst_X_Y.txt", "3 4\n2:1\n\n0:1 3:1");
        write("start/Y.txt", "zebra\nmiddle\nalpha\nbeta");
        write("start/tst_filter_labels.txt", "0 1\n2 2\n");
    }
};

TEST_F(Convert, EveryFormatToEveryOther) {
    write_awkward();
    const ReadRows train = rows(in("start"), SplitName::kTrain), test = rows(in("start"), SplitName::kTest);
    ASSERT_EQ(train.size(), 7u);
    EXPECT_EQ(train[0], (Row{"plain", {"beta", "middle"}}));
    EXPECT_EQ(train[1], (Row{"", {}}));
    EXPECT_EQ(train[6], (Row{"last but one", {}})) << "the matrix ends in an empty row";
    const std::vector<std::string> formats = {"xmc",      "pecos", "jsonl-folder", "raw",
                                              "fasttext", "tsv",   "csv",          "jsonl"};
    for (const std::string& first : formats) {
        const Conversion made = convert("start", first, "by/" + first);
        EXPECT_EQ(made.train_rows, 7);
        EXPECT_EQ(made.test_rows, 3);
        EXPECT_EQ(made.labels, 4);
        EXPECT_EQ(rows(in("by/" + first), SplitName::kTrain), train) << first;
        EXPECT_EQ(rows(in("by/" + first), SplitName::kTest), test) << first;
        Config forced = in("by/" + first);
        forced.format = first;
        EXPECT_EQ(rows(forced, SplitName::kTest), test) << first;
        for (const std::string& second : formats) {
            const std::string out = "then/" + first + "-" + second;
            convert("by/" + first, second, out);
            EXPECT_EQ(rows(in(out), SplitName::kTrain), train) << out;
            EXPECT_EQ(rows(in(out), SplitName::kTest), test) << out;
        }
    }
    // Numbers survive where the format has numbers, and filters with them.
    EXPECT_EQ(read(folder_ / "by/xmc/Y.txt"), "zebra\nmiddle\nalpha\nbeta\n");
    EXPECT_EQ(read(folder_ / "then/pecos-xmc/trn_X_Y.txt"), read(folder_ / "by/xmc/trn_X_Y.txt"));
    EXPECT_EQ(read(folder_ / "then/jsonl-folder-xmc/tst_X_Y.txt"), read(folder_ / "by/xmc/tst_X_Y.txt"));
    EXPECT_EQ(read(folder_ / "then/pecos-xmc/tst_filter_labels.txt"), "0 1\n2 2\n");
}

TEST_F(Convert, UnsortedAndRepeatedIndicesNeedTheFlagAndComeOutSorted) {
    write("odd/trn_X.txt", "a\nb\n");
    write("odd/trn_X_Y.txt", "2 3\n2:1 0:1\n1:1 1:1\n");
    EXPECT_THROW(convert("odd", "xmc", "out"), DataError);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    Config options = in("odd");
    options.allow_repeated_labels = true;
    options.out = (folder_ / "out").string();
    convert_data(quiet(), options, "xmc");
    EXPECT_EQ(read(folder_ / "out/trn_X_Y.txt"), "2 3\n0:1 2:1\n1:1\n");
}

TEST_F(Convert, SparseStaysSparse) {
    write("train.txt", "0,3 1:1 9:0.5\n 2:1\n\n4 0:-0.25\n");
    write("test.txt", "1 0:1\n");
    Config options = in("train.txt");
    options.out = (folder_ / "out").string();
    convert_data(quiet(), options, "sparse");
    EXPECT_EQ(read(folder_ / "out/train.txt"), "4 10 5\n0,3 1:1 9:0.5\n 2:1\n\n4 0:-0.25\n");
    EXPECT_TRUE(
        contains(message<ConfigError>([&] { convert_data(quiet(), options, "csv"); }), "expected sparse"));
    write_awkward();
    EXPECT_TRUE(contains(message<ConfigError>([&] { convert("start", "sparse", "x"); }), "another format"));
}

TEST_F(Convert, NamesThatAFormatCannotCarry) {
    write("a/trn_X.txt", "text\twith tab\n");
    write("a/trn_X_Y.txt", "1 2\n0:1 1:1\n");
    write("a/Y.txt", "two words\nwith, comma\n");
    EXPECT_EQ(convert("a", "fasttext", "ft").changed_names, 2);
    EXPECT_EQ(read(folder_ / "ft/train.txt"), "__label__two_words __label__with,_comma text with tab\n");
    EXPECT_EQ(convert("a", "tsv", "tsv").changed_texts, 1);
    write("a/trn_X.txt", "__label__x is no label, a__label__ neither\n");
    EXPECT_EQ(convert("a", "fasttext", "marks").marked_texts, 1);
    EXPECT_EQ(read(folder_ / "marks/train.txt"),
              "__label__two_words __label__with,_comma _label__x is no label, a__label__ neither\n");
    write("a/trn_X.txt", "text\twith tab\n");
    write("a/Y.txt", "two words\ntwo_words\n");
    EXPECT_TRUE(contains(message([&] { convert("a", "raw", "raw"); }),
                         "labels 'two words' and 'two_words' would both be 'two_words' in raw"));
    write("a/Y.txt", "same\nsame\n");
    EXPECT_TRUE(
        contains(message([&] { convert("a", "csv", "same"); }), "label 1 has the name 'same' of label 0"));
    write("a/Y.txt", "x\n\n");
    EXPECT_TRUE(contains(message([&] { convert("a", "jsonl", "j"); }), "label 1 is named ''"));
    std::filesystem::remove(folder_ / "a/Y.txt");
    convert("a", "csv", "numbers");
    EXPECT_EQ(read(folder_ / "numbers/train.csv"), "text,labels\ntext\twith tab,\"0,1\"\n");
}

// Tables carry any name: fields are lists where a name could be misread between commas.
TEST_F(Convert, NamesWithSeparatorsAndQuotesComeBackFromTables) {
    write("a/trn_X.txt", "one\ntwo\nthree\n");
    write("a/trn_X_Y.txt", "3 8\n0:1 1:1 7:1\n2:1 3:1 4:1\n5:1 6:1\n");
    write("a/Y.txt", "say \"x\", y\nit's\na;b\n[c\nd|e\nnan\nf\tg\nplain\n");
    const ReadRows before = rows(in("a"), SplitName::kTrain);
    for (const char* format : {"csv", "tsv", "jsonl"}) {
        EXPECT_EQ(convert("a", format, format).changed_names, 0) << format;
        Config converted = in(format);
        converted.test_share = 0;
        EXPECT_EQ(rows(converted, SplitName::kTrain), before) << format;
    }
    write("a/Y.txt", "a\nb\nc\nd\ne\nf\ng\nwith blank\n");
    convert("a", "csv", "plain");
    EXPECT_EQ(read(folder_ / "plain/train.csv"),
              "text,labels\none,\"a,b,with blank\"\ntwo,\"c,d,e\"\nthree,\"f,g\"\n");
}

TEST_F(Convert, FoldersAreNotOverwrittenByChance) {
    write_awkward();
    convert("start", "csv", "out");
    EXPECT_TRUE(contains(message<ConfigError>([&] { convert("start", "tsv", "out"); }), "--overwrite"));
    Config options = in("start");
    options.out = (folder_ / "out").string();
    options.overwrite = true;
    convert_data(quiet(), options, "tsv");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out/train.csv"));
    write("out/thesis.tex", "years of work");
    EXPECT_TRUE(contains(message<ConfigError>([&] { convert_data(quiet(), options, "csv"); }),
                         "more than a data set"));
    options.out = (folder_ / "start").string();
    EXPECT_TRUE(
        contains(message<ConfigError>([&] { convert_data(quiet(), options, "csv"); }), "another folder"));
}

TEST_F(Convert, Filters) {
    // Labels: 0 "a", 1 "b", 2 "c", 3 "a" again. Training rows are b and c; test rows are a and x.
    write("lf/Y.txt", "a\nb\nc\na\n");
    write("lf/trn_X.txt", "b\nc\n");
    write("lf/trn_X_Y.txt", "2 4\n0:1 2:1\n1:1\n");
    write("lf/tst_X.txt", "a\nx\n");
    write("lf/tst_X_Y.txt", "2 4\n1:1\n2:1\n");
    Config options = in("lf");
    options.out = (folder_ / "lf").string();
    const FilterResult own = make_filters(quiet(), options, true, false);
    EXPECT_EQ(read(folder_ / "lf/trn_filter_labels.txt"), "0 1\n1 2\n");
    EXPECT_EQ(read(folder_ / "lf/tst_filter_labels.txt"), "0 0\n0 3\n");
    EXPECT_EQ(own.test_pairs, 2);
    EXPECT_THROW(make_filters(quiet(), options, true, true), ConfigError);
    options.overwrite = true;
    // Training row b has label 0, which is test row a: so a with b's own label 1 is that pair backwards.
    EXPECT_EQ(make_filters(quiet(), options, true, true).test_pairs, 3);
    EXPECT_EQ(read(folder_ / "lf/tst_filter_labels.txt"), "0 0\n0 1\n0 3\n");
    EXPECT_EQ(make_filters(quiet(), options, false, true).test_pairs, 1);
    std::filesystem::remove(folder_ / "lf/Y.txt");
    EXPECT_TRUE(
        contains(message([&] { make_filters(quiet(), options, true, false); }), "expected label texts"));
}

TEST_F(Convert, OwnFiltersOfWordnetAreThoseThatCameWithIt) {
    const auto path = shared_data("wordnet-related");
    if (path.empty()) GTEST_SKIP() << "wordnet-related is not here";
    Config options = in("");
    options.data = path.string();
    options.out = (folder_ / "out").string();
    make_filters(quiet(), options, true, false);
    for (const char* name : {"trn_filter_labels.txt", "tst_filter_labels.txt"})
        EXPECT_EQ(read(folder_ / "out" / name), read(path / name)) << name;
}

}  // namespace
}  // namespace elmo
