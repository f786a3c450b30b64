// The files that people have: each is read right, or refused in a line that says what it is and what to do.
// The first half is the table of a first user's diary, the second what others bring.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lzma.h>

#include "data/test_folder.h"
#include "data/test_zip.h"
#include "data/token_import.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

using testing_data::contains;
using testing_data::TestZip;
using Strings = std::vector<std::string>;

class PeopleFiles : public testing_data::TestFolder {
  protected:
    Config options(const std::string& name,
                   const std::vector<std::pair<std::string, std::string>>& flags = {}) {
        Config result = config(name);
        result.test_share = 0;
        for (const auto& [key, value] : flags) set_option(result, key, value);
        return result;
    }
    // "text -> label | label" of every row.
    Strings rows(const Config& config) {
        const Dataset data = Dataset::open_labels(quiet(), config);
        SplitTexts texts(quiet(), config);
        Strings all;
        for (std::string_view text; texts.next(text);) {
            std::string line = std::string(text) + " ->";
            for (const std::uint32_t label : data.train().labels.row(static_cast<std::int64_t>(all.size())))
                (line += " | ") += data.label_name(label);
            all.push_back(line);
        }
        return all;
    }
    Strings rows(const std::string& name,
                 const std::vector<std::pair<std::string, std::string>>& flags = {}) {
        return rows(options(name, flags));
    }
    std::string error(const std::string& name,
                      const std::vector<std::pair<std::string, std::string>>& flags = {}) {
        return message<Error>([&] { rows(name, flags); });
    }
    // What is said while the file is opened.
    Strings said(const std::string& name,
                 const std::vector<std::pair<std::string, std::string>>& flags = {}) {
        Strings lines;
        Sinks sinks;
        sinks.message = [&](Severity, std::string_view line) { lines.emplace_back(line); };
        const Context context = quiet().with_sinks(sinks);
        Dataset::open_labels(context, options(name, flags));
        return lines;
    }
    bool is_said(const std::string& name, const std::string& part) {
        for (const std::string& line : said(name))
            if (contains(line, part)) return true;
        return false;
    }

    const Strings kRows = {"one -> | a | b", "two -> | b | c", "three -> | c"};
};

// --- the diary's table

TEST_F(PeopleFiles, CsvWithQuotesLineBreaksAndJoinedColumns) {
    write("a.csv", "id,title,body,labels\n1,\"big, \"\"red\"\"\",\"two\nlines\",\"a,b\"\n2,x,,b\n");
    EXPECT_EQ(rows("a.csv", {{"text_column", "title+body"}}),
              (Strings{"big, \"red\" two\nlines -> | a | b", "x -> | b"}));
}

TEST_F(PeopleFiles, ExcelsByteOrderMarkAndLineEnds) {
    write("a.csv", "\xef\xbb\xbftext,labels\r\none,\"a,b\"\r\ntwo,\"b,c\"\r\nthree,c\r\n");
    EXPECT_EQ(rows("a.csv"), kRows);
}

TEST_F(PeopleFiles, LabelsWithALineEndAreRefusedBeforeAnythingIsTrained) {
    write("a.csv", "text,labels\none,\"a\nb\"\ntwo,\"b\nc\"\nthree,c\n");
    EXPECT_TRUE(contains(error("a.csv"),
                         "a.csv:2: expected labels without a line end, found 'a\\x0ab'; if these "
                         "are several labels of one field, give --label-separator $'\\n', in a list write "
                         "each as an item; otherwise replace the line end"));
    EXPECT_EQ(rows("a.csv", {{"label_separator", "\n"}}), kRows);
    // No separator cuts an item of a list.
    write("a.jsonl", "{\"text\": \"one\", \"labels\": [\"a\\nb\"]}\n");
    EXPECT_TRUE(contains(error("a.jsonl", {{"label_separator", "\n"}}),
                         "a.jsonl:1: expected labels without a line end"));
}

TEST_F(PeopleFiles, SemicolonsBetweenColumns) {
    write("a.csv", "text;labels\none;a,b\n\"two\";\"b,c\"\nthree;c\n");
    EXPECT_EQ(rows("a.csv"), kRows);
    EXPECT_TRUE(is_said("a.csv", "a.csv: read with --delimiter ';', as its first rows show"));
    EXPECT_EQ(rows("a.csv", {{"delimiter", ";"}}), kRows);
    EXPECT_TRUE(
        contains(error("a.csv", {{"delimiter", ","}}), "a.csv:1: expected a header with the columns"));
    write("bar.csv", "text|labels\none|a,b\ntwo|b,c\nthree|c\n");
    EXPECT_EQ(rows("bar.csv"), kRows);
}

TEST_F(PeopleFiles, Utf16IsRefusedWithTheWayOut) {
    write("a.csv", std::string("\xff\xfet\0e\0x\0t\0", 10));
    EXPECT_TRUE(contains(error("a.csv"), "a.csv:1: expected text (CSV, TSV, JSON lines, ...), found UTF-16"));
    EXPECT_TRUE(contains(error("a.csv"), "iconv -f UTF-16 -t UTF-8"));
}

TEST_F(PeopleFiles, JsonArrayIsRefusedWithTheWayOut) {
    write("a.json", "[{\"text\": \"one\", \"labels\": [\"a\"]}]\n");
    EXPECT_TRUE(contains(error("a.json"), "a.json:1: expected a JSON object, found"));
    EXPECT_TRUE(contains(error("a.json"), "jq -c .[]"));
    const std::string advice =
        "; write an object per line, as to_json(orient='records', lines=True) of pandas does";
    std::string texts = "\"a\"", labels = "\"x\"";
    for (int i = 0; i < 20; ++i) (texts += ", \"b\"", labels += ", \"y\"");
    write("lists.json", "{\"text\": [" + texts + "], \"labels\": [" + labels + "]}");
    EXPECT_TRUE(contains(error("lists.json"), advice)) << error("lists.json");
    write("pandas.json", R"({"text": {"0": "a", "1": "b"}, "labels": {"0": "x", "1": "y"}})");
    EXPECT_TRUE(contains(error("pandas.json"), advice)) << error("pandas.json");
    // Few of them may be a row.
    write("row.json", R"({"text": ["one", "two", "three"], "labels": ["a", "b", "c"]})");
    EXPECT_EQ(rows("row.json"), (Strings{"one two three -> | a | b | c"}));
}

TEST_F(PeopleFiles, Latin1IsRefusedWithTheWayOut) {
    write("a.csv", "text,labels\ncaf\xe9,a\n");
    EXPECT_TRUE(contains(error("a.csv"), "a.csv:2: expected UTF-8, found byte 0xe9"));
    EXPECT_EQ(rows("a.csv", {{"encoding", "latin-1"}}), (Strings{"caf\u00e9 -> | a"}));
    std::vector<std::pair<std::string, std::string>> named = {{"text_column", "Titel"},
                                                              {"label_column", "Schlagw\u00f6rter"}};
    write("b.csv", "Titel;Schlagw\xf6rter\ncaf\xe9;a\n");
    EXPECT_TRUE(contains(error("b.csv", named), "it looks like Latin-1: read it with --encoding latin-1"));
    named.emplace_back("encoding", "latin-1");
    EXPECT_EQ(rows("b.csv", named), (Strings{"caf\u00e9 -> | a"}));
    write("c.csv", "text,gr\xfcn,rot\none,1,0\ntwo,1,1\n");
    EXPECT_EQ(rows("c.csv", {{"encoding", "latin-1"}, {"label_column", "*"}}),
              (Strings{"one -> | gr\u00fcn", "two -> | gr\u00fcn | rot"}));
}

TEST_F(PeopleFiles, LabelsBetweenSemicolonsOrBars) {
    for (const std::string separator : {";", "|", " ; ", " | "}) {
        write("a.csv", "text,labels\none,a" + separator + "b\ntwo,b" + separator + "c\nthree,c\n");
        EXPECT_EQ(rows("a.csv"), kRows) << separator;
        EXPECT_TRUE(is_said(
            "a.csv", std::string("--label-separator '") + (contains(separator, ";") ? ";" : "|") + "'"));
        // A flag is a flag: as given, nothing is detected.
        EXPECT_EQ(rows("a.csv", {{"label_separator", ","}})[2], "three -> | c");
    }
}

TEST_F(PeopleFiles, LabelsBetweenCommasAndSpaces) {
    write("a.csv", "text,labels\none,\"a, b\"\ntwo,\"b, c\"\nthree,c\n");
    EXPECT_EQ(rows("a.csv"), kRows);
    EXPECT_EQ(said("a.csv"), Strings());
}

TEST_F(PeopleFiles, ListsInCells) {
    const std::vector<Strings> kinds = {
        {"[\"a\", \"b\"]", "[\"b\", \"c\"]", "[\"c\"]"},  // json.dumps
        {"['a', 'b']", "['b', 'c']", "['c']"},            // pandas
        {"['a' 'b']", "['b'\n 'c']", "['c']"},            // NumPy
        {"{'b', 'a'}", "{'b', 'c'}", "{'c'}"},            // sets
        {"('a', 'b')", "('b', 'c')", "('c',)"},           // tuples
        {"[a, b]", "[b, c]", "[c]"},                      // printed without quotes
        {"{a,b}", "{b,c}", "{c}"},                        // PostgreSQL's arrays
    };
    for (const Strings& cells : kinds) {
        std::string csv = "text,labels\n";
        const char* texts[] = {"one", "two", "three"};
        for (int i = 0; i < 3; ++i) {
            std::string cell;
            for (const char c : cells[i]) cell += c == '"' ? "\"\"" : std::string(1, c);
            csv += std::string(texts[i]) + ",\"" + cell + "\"\n";
        }
        write("a.csv", csv);
        EXPECT_EQ(rows("a.csv"), kRows) << csv;
        EXPECT_TRUE(is_said("a.csv", "--label-separator list"));
    }
    write("numbers.csv", "text,labels\none,\"[1, 20]\"\ntwo,[20]\nthree,[]\n");
    EXPECT_EQ(rows("numbers.csv"), (Strings{"one -> | 1 | 20", "two -> | 20", "three ->"}));
    write("a.tsv", "one\t['it\\'s', \"b, c\"]\ntwo\t['caf\\u00e9']\n");
    EXPECT_EQ(rows("a.tsv"), (Strings{"one -> | b, c | it's", "two -> | caf\u00e9"}));
    write(
        "a.jsonl",
        "{\"text\": \"one\", \"labels\": \"['a', 'b']\"}\n{\"text\": \"two\", \"labels\": \"['b', 'c']\"}\n");
    EXPECT_EQ(rows("a.jsonl"), (Strings{kRows[0], kRows[1]}));
    // One that is none, among lists.
    std::string csv = "text,labels\n";
    for (int i = 0; i < 3000; ++i) csv += "one,\"['a', 'b']\"\n";
    write("mixed.csv", csv + "two,a;b\n");
    EXPECT_TRUE(contains(error("mixed.csv"),
                         "mixed.csv:3002: expected a list of labels like ['a', 'b'], found 'a;b'; write it "
                         "as a list like [\"a\", \"b\"], or, where labels are no lists, name what separates "
                         "them with --label-separator"));
    // Nulls inside of lists.
    write("null.csv", "text,labels\none,\"['a', 'b']\"\ntwo,\"['b', nan, 'c']\"\nthree,\"['c', None]\"\n");
    EXPECT_TRUE(
        contains(error("null.csv"), "null.csv:3: expected labels, found a null in '['b', nan, 'c']'"));
    EXPECT_TRUE(contains(error("null.csv"), "--allow-null-labels"));
    EXPECT_EQ(rows("null.csv", {{"allow_null_labels", "true"}}), kRows);
    // What NumPy prints of more than a thousand.
    write("cut.csv", "text,labels\none,\"['a', 'b']\"\ntwo,['a' ... 'b']\n");
    EXPECT_TRUE(contains(error("cut.csv", {{"label_separator", "list"}}), "cut.csv:3: expected a list"));
}

TEST_F(PeopleFiles, ArraysOfPostgresWithColons) {
    std::string csv = "text,labels\n";
    for (int i = 0; i < 30; ++i) csv += "one,{topic:perl}\ntwo,\"{lang:en,topic:perl}\"\nthree,{a[]}\n";
    write("colon.csv", csv);
    EXPECT_TRUE(is_said("colon.csv", "--label-separator list"));
    const Strings read = rows("colon.csv");
    ASSERT_EQ(read.size(), 90U);
    EXPECT_EQ(Strings(read.begin(), read.begin() + 3),
              (Strings{"one -> | topic:perl", "two -> | lang:en | topic:perl", "three -> | a[]"}));
    // Arrays of one element each are lists where the call says so.
    write("single.csv", "text,labels\none,{topic:perl}\ntwo,{http://a.b/c}\n");
    EXPECT_EQ(rows("single.csv", {{"label_separator", "list"}}),
              (Strings{"one -> | topic:perl", "two -> | http://a.b/c"}));
    // What is none is not told to name the separator that was named.
    write("dictionary.csv", "text,labels\none,\"{\"\"a\"\":1}\"\n");
    const std::string message = error("dictionary.csv", {{"label_separator", "list"}});
    EXPECT_TRUE(contains(message,
                         "found '{\"a\":1}'; write it as a list like [\"a\", \"b\"], or, where labels "
                         "are no lists, give --label-separator another value than 'list'"))
        << message;
}

TEST_F(PeopleFiles, PandasWithIndex) {
    write("a.csv", ",text,labels\n0,one,\"a,b\"\n1,two,\"b,c\"\n2,three,c\n");
    EXPECT_EQ(rows("a.csv"), kRows);
}

TEST_F(PeopleFiles, JsonObjectsWhoseKeysAreTheLabels) {
    write("a.jsonl", "{\"text\": \"one\", \"labels\": {\"a\": 1, \"b\": 1}}\n");
    EXPECT_TRUE(contains(error("a.jsonl"),
                         "a.jsonl:1: expected labels at 'labels' that are strings or whole numbers"));
    EXPECT_TRUE(contains(error("a.jsonl"), "where the keys are the labels, write them as a list"));
}

TEST_F(PeopleFiles, JsonLinesWithListsStringsAndNumbers) {
    write("a.jsonl",
          "{\"text\": \"one\", \"labels\": [\"a\", \"b\"]}\n{\"text\": \"two\", \"labels\": \"b,c\"}\n"
          "{\"text\": \"three\", \"labels\": [7]}\n{\"text\": \"four\", \"labels\": 8}\n");
    EXPECT_EQ(rows("a.jsonl"), (Strings{kRows[0], kRows[1], "three -> | 7", "four -> | 8"}));
}

TEST_F(PeopleFiles, TsvFromPandas) {
    write("a.tsv", "text\tlabels\n\"say \"\"hi\"\"\"\ta,b\nplain\tb\n");
    EXPECT_EQ(rows("a.tsv"), (Strings{"say \"hi\" -> | a | b", "plain -> | b"}));
    EXPECT_TRUE(is_said("a.tsv", "--quotes double"));
    write("lines.tsv", "id\ttext\tlabels\n1\t\"two\nlines\tand a tab\"\ta\n2\tx\tb\n");
    EXPECT_EQ(rows("lines.tsv"), (Strings{"two\nlines\tand a tab -> | a", "x -> | b"}));
    write("all.tsv", "\"text\"\t\"labels\"\n\"one\"\t\"a,b\"\n");
    EXPECT_EQ(rows("all.tsv"), (Strings{kRows[0]}));
}

// Quotes of a text are text, as they always were.
TEST_F(PeopleFiles, TsvWithQuotesAsTheyStand) {
    write("a.tsv", "\"hello\" she said\ta\n\"whole\"\tb\n\"open\tc\nshut\"\td\n5\" wide\te\n");
    EXPECT_EQ(rows("a.tsv"), (Strings{"\"hello\" she said -> | a", "\"whole\" -> | b", "\"open -> | c",
                                      "shut\" -> | d", "5\" wide -> | e"}));
    EXPECT_EQ(said("a.tsv"), Strings());
    write("b.tsv", "text\tlabels\n\"open\ta\nshut\"\tb\n");
    EXPECT_EQ(rows("b.tsv"), (Strings{"\"open -> | a", "shut\" -> | b"}));
    write("c.tsv", "text\tlabels\n\"whole\"\ta\nplain\tb\n");
    EXPECT_EQ(rows("c.tsv")[0], "\"whole\" -> | a");
    EXPECT_EQ(rows("c.tsv", {{"quotes", "double"}})[0], "whole -> | a");
    write("d.tsv", "text\tlabels\n\"say \"\"hi\"\"\"\ta\n");
    EXPECT_EQ(rows("d.tsv", {{"quotes", "none"}})[0], "\"say \"\"hi\"\"\" -> | a");
}

// Test and validation files have what separates their labels detected too.
TEST_F(PeopleFiles, FilesOfOneDataSetMaySeparateLabelsInDifferentWays) {
    write("x_train.csv", "text,labels\none,a;b\ntwo,b;c\nthree,c;a\n");
    write("x_test.csv", "text,labels\nfour,\"a,b\"\nfive,\"b,c\"\nsix,\"c,a\"\n");
    const auto valid = write("valid.csv", "text,labels\nseven,\"['a', 'b']\"\neight,['c']\n");
    Config config = options("x_train.csv");
    config.validation = valid.string();
    const Dataset data = Dataset::open_labels(quiet(), config);
    EXPECT_EQ(data.num_labels(), 3);
    for (const SplitName split : {SplitName::kTrain, SplitName::kTest}) {
        const auto row = data.split(split).labels.row(2);
        EXPECT_EQ(std::vector<int>(row.begin(), row.end()), (std::vector<int>{0, 2}));
    }
    EXPECT_EQ(data.validation().labels.row(0).size(), 2U);
    EXPECT_TRUE(is_said("x_train.csv", "x_test.csv: read with --label-separator ','"));
    // One that is given holds for all.
    set_option(config, "label_separator", ";");
    EXPECT_EQ(Dataset::open_labels(quiet(), config).validation().labels.row(0).size(), 0U);
}

// One of the columns is called as a column of labels is.
TEST_F(PeopleFiles, OneHotColumnsWithATelltaleName) {
    write("a.csv", "text,common,target,old\none,1,1,\ntwo,0,1,\nthree,1,0,\n");
    EXPECT_TRUE(contains(error("a.csv"),
                         "a.csv: expected one column that can hold the labels, found 2 of 0 and 1 "
                         "(common, target): --label-column '*'"));
    EXPECT_EQ(rows("a.csv", {{"label_column", "*"}})[0], "one -> | common | target");
    EXPECT_EQ(rows("a.csv", {{"label_column", "target"}})[2], "three -> | 0");
    // Whose first 1 is below the rows that are looked at.
    std::string late = "text,common,target\n";
    for (int i = 0; i < 500; ++i) late += "text " + std::to_string(i) + (i < 450 ? ",1,0\n" : ",0,1\n");
    write("late.csv", late);
    EXPECT_TRUE(contains(error("late.csv"), "found 2 of 0 and 1 (common, target): --label-column '*'"));
    write("spam.csv", "text,label,note\none,1,\ntwo,0,\nthree,0,\n");
    EXPECT_EQ(rows("spam.csv")[0], "one -> | 1");
}

TEST_F(PeopleFiles, OneHotColumns) {
    write("a.csv", "id,comment_text,a,b,c\n7,one,1,1,0\n8,two,0,1,1\n9,three,0,0,1\n");
    EXPECT_EQ(rows("a.csv"), kRows);
    EXPECT_TRUE(is_said("a.csv", "--text-column comment_text --label-column '*'"));
    write("named.csv", "id;name;is_a;is_b;is_c\n7;one;1;1;0\n8;two;0;1;1\n9;three;0;0;1\n");
    for (const char* given : {"*", "is_*"})
        EXPECT_EQ(rows("named.csv", {{"label_column", given}}),
                  (Strings{"one -> | is_a | is_b", "two -> | is_b | is_c", "three -> | is_c"}));
    write("b.csv", "text,is_a,is_b,score\none,True,False,0.5\ntwo,True,True,1.0\n");
    EXPECT_EQ(rows("b.csv", {{"label_column", "is_*"}}), (Strings{"one -> | is_a", "two -> | is_a | is_b"}));
    write("bad.csv", "text,is_a,is_b\none,1,0\ntwo,2,1\n");
    EXPECT_TRUE(contains(error("bad.csv", {{"label_column", "is_*"}}),
                         "bad.csv:3: expected 0 or 1 in the column 'is_a', found '2'"));
}

// A column that is empty at first may hold anything.
TEST_F(PeopleFiles, AnEmptyColumnBesideZerosIsNoLabel) {
    std::string zeros = "title,budget,a,b\n", blanks = "title,rare,a,b\n";
    for (int i = 0; i < 300; ++i) {
        zeros += "film " + std::to_string(i) + (i % 2 ? ",,0,1\n" : ",,1,0\n");
        blanks += "film " + std::to_string(i) + (i % 2 ? ",,,1\n" : ",,1,\n");
    }
    write("a.csv", zeros + "rich film,17500,1,0\n");
    EXPECT_EQ(rows("a.csv", {{"text_column", "title"}})[300], "rich film -> | a");
    EXPECT_TRUE(contains(said("a.csv", {{"text_column", "title"}}).at(1),
                         "a.csv: 1 column without 0 or 1 in the first rows left out of the labels "
                         "('budget'); write 0 where a row does not have a label"));
    EXPECT_TRUE(contains(error("a.csv", {{"text_column", "title"}, {"label_column", "a+b"}}),
                         "labels are those of one column: join 'a' and 'b' in the file; where they hold 0 "
                         "and 1, remove other columns of 0 and 1 and give --label-column '*'"));
    // Where nothing stands for 0, it may be a label that no row has so far.
    write("b.csv", blanks + "rare film,1,,\n");
    EXPECT_EQ(rows("b.csv", {{"text_column", "title"}})[300], "rare film -> | rare");
    write("c.csv", zeros + "film,,17,0\n");
    EXPECT_TRUE(contains(error("c.csv", {{"text_column", "title"}}),
                         "c.csv:302: expected 0 or 1 in the column 'a', found '17'; write 0 or 1 there, or "
                         "remove the column if it is no label"));
}

// A label may be called as texts are: `text` is a kind of media.
TEST_F(PeopleFiles, OneHotColumnsThatAreCalledAsTexts) {
    for (const char* name : {"text", "question", "review"}) {
        const std::string label = name;
        write("a.csv", "id,comment_text,image," + label + "\n7,one,1,1\n8,two,0,1\n9,three,1,0\n");
        EXPECT_EQ(rows("a.csv"),
                  (Strings{"one -> | image | " + label, "two -> | " + label, "three -> | image"}));
        EXPECT_TRUE(is_said("a.csv", "--text-column comment_text --label-column '*'"));
    }
    // One that is given holds.
    write("given.csv", "id,title,a,b,text\n7,one,1,0,1\n8,two,0,1,0\n");
    EXPECT_EQ(rows("given.csv", {{"text_column", "title"}, {"label_column", "*"}})[0], "one -> | a | text");
    EXPECT_EQ(rows("given.csv", {{"text_column", "text"}, {"label_column", "*"}})[0], "1 -> | a");
    EXPECT_EQ(rows("given.csv", {{"label_column", "*"}})[0], "one -> | a | text");
    // A test file without labels beside it is told from its own columns.
    write("k/train.csv", "id,comment_text,image,text\n7,one,1,1\n8,two,0,1\n9,three,1,0\n");
    write("k/test.csv", "id,comment_text\n1,four\n");
    EXPECT_EQ(rows("k/train.csv")[1], "two -> | text");
    // Where nothing else can be the text, it is.
    write("only.csv", "id,text,a,b\n7,1,1,0\n8,0,0,1\n");
    EXPECT_EQ(rows("only.csv"), (Strings{"1 -> | a", "0 -> | b"}));
}

// As people mark cells by hand.
TEST_F(PeopleFiles, OneHotColumnsOfWords) {
    for (const auto& [yes, no] : {std::pair("x", ""), {"X", ""}, {"yes", "no"}, {"Y", "N"}, {"t", "f"}}) {
        write("a.csv",
              fmt::format("id,notice,a,b,c\n7,one,{0},{0},{1}\n8,two,{1},{0},{0}\n9,three,{1},{1},{0}\n", yes,
                          no));
        EXPECT_EQ(rows("a.csv"), kRows) << yes;
        EXPECT_TRUE(is_said("a.csv", "--text-column notice --label-column '*'"));
    }
    write("named.csv", "notice,is_a,is_b,sold\none,yes,no,no\ntwo,yes,yes,yes\n");
    EXPECT_EQ(rows("named.csv", {{"text_column", "notice"}, {"label_column", "is_*"}}),
              (Strings{"one -> | is_a", "two -> | is_a | is_b"}));
    // Beside columns of 0 and 1 they are something else.
    write("both.csv", "notice,a,b,sold\none,1,0,no\ntwo,1,1,yes\n");
    EXPECT_EQ(rows("both.csv", {{"text_column", "notice"}}), (Strings{"one -> | a", "two -> | a | b"}));
    write("bad.csv", "notice,is_a,is_b\none,yes,no\ntwo,perhaps,yes\n");
    EXPECT_TRUE(contains(error("bad.csv", {{"text_column", "notice"}, {"label_column", "is_*"}}),
                         "bad.csv:3: expected yes, no, x or nothing in the column 'is_a', found 'perhaps'"));
    // A label of its own is what it says.
    write("label.csv", "text,label,verified\none,yes,no\ntwo,no,yes\nthree,no,no\n");
    EXPECT_EQ(rows("label.csv")[1], "two -> | no");
}

TEST_F(PeopleFiles, OneHotColumnsWithoutFlags) {
    write("a.csv", "notice,gpl,mit\none,much,\ntwo,,much\n");
    for (const char* given : {"*", "g*x*"})
        EXPECT_TRUE(contains(error("a.csv", {{"text_column", "notice"}, {"label_column", given}}),
                             "a.csv:1: expected columns of 0 and 1 for the labels"));
}

// A text that begins as fastText's labels do makes no fastText file of a table.
TEST_F(PeopleFiles, TextsAboutLabels) {
    const Strings read = {"__label__a is a mark -> | x", "two -> | y", "three -> | x"};
    write("a.csv", "text,labels\n__label__a is a mark,x\ntwo,y\nthree,x\n");
    write("a.tsv", "__label__a is a mark\tx\ntwo\ty\nthree\tx\n");
    write("b.txt", "__label__a is a mark\tx\ntwo\ty\nthree\tx\n");
    for (const char* name : {"a.csv", "a.tsv", "b.txt"}) EXPECT_EQ(rows(name), read) << name;
    write("c.txt", "__label__x one\ntwo without labels\nthree without labels\n");
    EXPECT_EQ(rows("c.txt")[0], "one -> | x");
    write("brace.tsv", "{x} brace\tx\ntwo\ty\n");
    EXPECT_EQ(rows("brace.tsv"), (Strings{"{x} brace -> | x", "two -> | y"}));
}

TEST_F(PeopleFiles, ATestFileInAnotherFormatIsLeftOutAndNamed) {
    write("a/words_train.csv", "text,labels\none,\"a,b\"\ntwo,\"b,c\"\nthree,c\n");
    EXPECT_FALSE(is_said("a", "left out"));
    write("a/words_test.jsonl", "{\"text\": \"four\", \"labels\": [\"a\"]}\n");
    EXPECT_EQ(rows("a"), kRows);
    EXPECT_TRUE(is_said("a", "words_test.jsonl: it is left out"));
    EXPECT_TRUE(is_said("a/words_train.csv", "elmo data convert"));
    write("a/words_train.jsonl", "{\"text\": \"five\", \"labels\": [\"a\"]}\n");
    EXPECT_FALSE(is_said("a/words_train.csv", "left out"));
    write("a/words_test.csv", "text,labels\nfour,a\n");
    EXPECT_FALSE(is_said("a/words_train.csv", "left out"));
}

TEST_F(PeopleFiles, ColumnsByOtherNames) {
    write("a.csv", "id,Text,Tags\n1,one,\"a,b\"\n2,two,\"b,c\"\n3,three,c\n");
    EXPECT_EQ(rows("a.csv"), kRows);
    EXPECT_TRUE(is_said("a.csv", "--text-column Text --label-column Tags"));
    write("b.jsonl", "{\"sentence\": \"one\", \"label\": [\"a\", \"b\"]}\n");
    EXPECT_EQ(rows("b.jsonl"), (Strings{kRows[0]}));
    write("two.csv", "text,tags,category\none,a,b\n");
    EXPECT_TRUE(contains(error("two.csv"),
                         "two.csv:1: expected a header with the columns 'text' and 'labels', found "
                         "'text,tags,category'"));
    write("c.csv", "title;Klassen (W/F/S)\none;a\n");
    EXPECT_TRUE(contains(error("c.csv", {{"text_column", "title"}, {"label_column", "Klassen"}}),
                         "'title' and 'Klassen' (did you mean 'Klassen (W/F/S)'?)"));
    write("c.csv", "title;Klassen (W);Klassen (F)\none;a;b\n");
    EXPECT_FALSE(contains(error("c.csv", {{"text_column", "title"}, {"label_column", "Klassen"}}), "mean"));
    EXPECT_TRUE(contains(error("a.csv", {{"text_column", "words"}}), "'words'"))
        << "what is given is not replaced";
}

TEST_F(PeopleFiles, TitlesAreTextsWhereNothingElseIs) {
    write("a.csv", "id,Title,tags\n1,one,\"a,b\"\n2,two,\"b,c\"\n3,three,c\n");
    EXPECT_EQ(rows("a.csv"), kRows);
    EXPECT_TRUE(is_said("a.csv", "--text-column Title --label-column tags"));
    write("both.csv", "title,description,tags\nx,one,a\n");
    EXPECT_EQ(rows("both.csv"), (Strings{"one -> | a"}));
    write("two.csv", "title,name,tags\none,x,a\n");
    EXPECT_TRUE(contains(error("two.csv"), "found 'title,name,tags'"));
    // Another column has longer texts.
    write("long.csv", "id,name,overview,labels\n1,item x,what it is about,a\n2,item y,and this one,b\n");
    EXPECT_TRUE(contains(error("long.csv"), "found 'id,name,overview,labels'"));
    write("long.jsonl", "{\"name\": \"x\", \"plot\": \"what it is about\", \"tags\": [\"a\"]}\n");
    EXPECT_TRUE(contains(error("long.jsonl"), "expected the key 'text'"));
    write("b.jsonl", "{\"name\": \"one\", \"label\": [\"a\", \"b\"]}\n");
    EXPECT_EQ(rows("b.jsonl"), (Strings{kRows[0]}));
}

TEST_F(PeopleFiles, NoHeader) {
    write("a.csv", "1,one,\"a,b\"\n2,two,\"b,c\"\n3,three,c\n");
    EXPECT_TRUE(contains(error("a.csv"), "--columns"));
    EXPECT_EQ(rows("a.csv", {{"columns", "id,text,labels"}}), kRows);
    EXPECT_TRUE(contains(error("a.csv", {{"columns", "text,labels"}}),
                         "a.csv:1: expected 2 fields, as --columns names"));
    EXPECT_TRUE(
        contains(error("a.csv", {{"columns", "id,body,labels"}}), "columns: expected 'text' and 'labels'"));
    EXPECT_TRUE(contains(error("a.csv", {{"columns", "id,text,lables"}}),
                         "among the names (did you mean 'lables'?), found"));
    // As in a header: which of two is meant cannot be known.
    EXPECT_TRUE(contains(error("a.csv", {{"columns", "text,text,labels"}}),
                         "columns: expected each name once, found 'text' in columns 1 and 2"));
    EXPECT_EQ(rows("a.csv", {{"columns", "id,text,labels"}}), kRows);
    write("b.csv", "one;a,b\ntwo;b,c\nthree;c\n");
    EXPECT_EQ(rows("b.csv", {{"columns", "text,labels"}}), kRows);
    write("c.tsv", "one\ta,b\ntwo\tb,c\nthree\tc\n");
    EXPECT_EQ(rows("c.tsv"), kRows);
}

TEST_F(PeopleFiles, Compressed) {
    const std::string csv = "text,labels\none,\"a,b\"\ntwo,\"b,c\"\nthree,c\n";
    write_gz("a.csv.gz", csv);
    EXPECT_EQ(rows("a.csv.gz"), kRows);
    std::string xz(lzma_stream_buffer_bound(csv.size()), '\0');
    std::size_t size = 0;
    ASSERT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                      reinterpret_cast<const std::uint8_t*>(csv.data()), csv.size(),
                                      reinterpret_cast<std::uint8_t*>(xz.data()), &size, xz.size()),
              LZMA_OK);
    write("set/train.csv.xz", xz.substr(0, size));
    write("set/test.csv", "text,labels\nfour,a\n");
    EXPECT_EQ(rows("set"), kRows);
    TestZip zip;
    zip.add("a.csv", csv, true);
    write("a.zip", zip.finish());
    EXPECT_EQ(rows("a.zip"), kRows);
    zip.add("b.csv", csv, true);
    write("two.zip", zip.finish());
    EXPECT_TRUE(contains(error("two.zip"),
                         "two.zip: expected a zip archive of one file, found 2 ('a.csv', 'b.csv'); "
                         "unpack it"));
}

TEST_F(PeopleFiles, ParquetArrowAndHuggingFace) {
    write("a.parquet", "PAR1\x15\x04\x15 some bytes PAR1");
    EXPECT_TRUE(contains(error("a.parquet"),
                         "a.parquet: expected text (CSV, TSV, JSON lines, ...), found Parquet; "
                         "convert it: python3 -c \"import pandas; pandas.read_parquet('"));
    write("a.arrow", std::string("ARROW1\0\0\xff\xff\xff\xff", 12));
    EXPECT_TRUE(contains(error("a.arrow"), "found Arrow; convert it: python3 -c"));
    write("stream.arrow", std::string("\xff\xff\xff\xff\x10\0\0\0", 8));
    EXPECT_TRUE(contains(error("stream.arrow"), "found an Arrow stream; convert it: python3 -c"));
    write("hf/dataset_info.json", "{}");
    write("hf/state.json", "{}");
    write("hf/data-00000-of-00001.arrow", "x");
    EXPECT_TRUE(contains(error("hf"), "hf: expected a data set that elmo reads, found one of Hugging Face"));
    EXPECT_TRUE(contains(error("hf"), "load_from_disk"));
    write("dict/dataset_dict.json", "{}");
    EXPECT_TRUE(contains(error("dict"), "found one of Hugging Face"));
    write("hub/train-00000-of-00001.parquet", "PAR1");
    EXPECT_TRUE(contains(error("hub"), "found Parquet files"));
}

// What a shell hands over to Python of the command in `said`, with the bytes that are escaped there.
std::string python_of_advice(const std::string& said) {
    const std::string command = "python3 -c ", advice = said.substr(said.find(command) + command.size());
    std::FILE* shell = ::popen(("printf %s " + advice).c_str(), "r");
    std::string code;
    for (int c = std::fgetc(shell); c != EOF; c = std::fgetc(shell)) code += static_cast<char>(c);
    EXPECT_EQ(::pclose(shell), 0) << advice;
    for (std::size_t at = code.find("\\x"); at != code.npos; at = code.find("\\x", at + 1))
        code.replace(at, 4, 1, static_cast<char>(std::stoi(code.substr(at + 2, 2), nullptr, 16)));
    return code;
}

// Whoever copies the advice into a shell runs it: a name that would be more than a name is quoted there.
TEST_F(PeopleFiles, AdviceRunsNothingThatAFileIsCalled) {
    for (const std::string stem :
         {"x');import os;os.system('id", "$(id)", "a`id`", "a\"b", "it's", "a\\b", "a!b", "two words"}) {
        const std::string name = stem + ".parquet";
        const auto file = write(name, "PAR1\x15\x04\x15 some bytes PAR1");
        const std::string said = error(name);
        EXPECT_EQ(python_of_advice(said), "import pandas; pandas.read_parquet('" + file.string() +
                                              "').to_json('" + stem +
                                              ".jsonl', orient='records', lines=True)")
            << said;
        const std::string code = said.substr(said.find("read_parquet('") + 14);
        EXPECT_EQ(code.substr(0, code.find("')")).find_first_of("'\"$`!"), code.npos) << said;
    }
    write("$(id).csv", "\xff\xfet\0e\0");
    EXPECT_TRUE(contains(error("$(id).csv"), "$(id).csv' > FILE"));
    write("$(id)/dataset_dict.json", "{}");
    EXPECT_TRUE(contains(error("$(id)"), "\\x24(id)').items()]"));
    TestZip zip;
    zip.add("a\x1b[2J\n.csv", "x", true);
    zip.add("b.csv", "y", true);
    write("two.zip", zip.finish());
    EXPECT_TRUE(contains(error("two.zip"), "found 2 ('a\\x1b[2J\\x0a.csv', 'b.csv')"));
}

TEST_F(PeopleFiles, NestedKeys) {
    write("a.jsonl",
          "{\"doc\": {\"body\": \"one\"}, \"tags\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}\n"
          "{\"doc\": {\"body\": \"two\"}, \"tags\": [{\"name\": \"b\"}, {\"name\": \"c\"}]}\n"
          "{\"doc\": {\"body\": \"three\"}, \"tags\": [{\"name\": \"c\"}]}\n");
    EXPECT_EQ(rows("a.jsonl", {{"text_column", "doc.body"}, {"label_column", "tags.name"}}), kRows);
    EXPECT_TRUE(contains(error("a.jsonl", {{"text_column", "doc.text"}, {"label_column", "tags.name"}}),
                         "a.jsonl:1: expected the key 'doc.text', found the keys 'doc', 'tags'"));
    EXPECT_TRUE(
        contains(error("a.jsonl", {{"text_column", "doc.body"}, {"label_column", "tags"}}), "tags.KEY"));
    // A key that has a dot in its name is that key.
    write("b.jsonl", "{\"a.b\": \"one\", \"a\": {\"b\": \"other\"}, \"labels\": [\"a\", \"b\"]}\n");
    EXPECT_EQ(rows("b.jsonl", {{"text_column", "a.b"}}), (Strings{kRows[0]}));
}

TEST_F(PeopleFiles, TinyChineseLongEmptyRepeated) {
    write("tiny.csv", "text,labels\none,a\n");
    EXPECT_EQ(rows("tiny.csv"), (Strings{"one -> | a"}));
    write("zh.csv", "text,labels\n\xe6\x96\x87\xe6\x9c\xac,\xe6\xa0\x87\n,a\n");
    EXPECT_EQ(rows("zh.csv"), (Strings{"\xe6\x96\x87\xe6\x9c\xac -> | \xe6\xa0\x87", " -> | a"}));
    write("long.csv", "text,labels\n" + std::string(1500000, 'x') + ",a\n");
    EXPECT_EQ(rows("long.csv")[0].size(), 1500000 + std::string(" -> | a").size());
    write("twice.csv", "text,labels\none,\"a,a\"\n");
    EXPECT_TRUE(contains(error("twice.csv"), "twice.csv:2: expected every label once, found 'a' twice"));
}

// --- what else people bring

TEST_F(PeopleFiles, StrayQuotes) {
    write("a.csv", "text,labels\nthe 5\" tablet,a\n\"so\" called,b\n\"quoted, \"\"well\"\"\",c\n");
    EXPECT_TRUE(contains(error("a.csv"), "--allow-stray-quotes"));
    for (const char* field : {R"("say \"hi, you\" now")", R"(say \"hi\")", R"("say \"hi\"")"}) {
        write("b.csv", fmt::format("text,labels\n{},a\nx,b\n", field));
        EXPECT_TRUE(contains(error("b.csv"), "quotes are escaped by backslashes here: CSV doubles them"))
            << field;
        EXPECT_FALSE(contains(error("b.csv"), "stray")) << field;
    }
    EXPECT_EQ(rows("a.csv", {{"allow_stray_quotes", "true"}}),
              (Strings{"the 5\" tablet -> | a", "\"so\" called -> | b", "quoted, \"well\" -> | c"}));
    write("blanks.csv", "text,labels\n\"a cat\" ,\"cat\" \na dog,\"dog\"\n");
    EXPECT_EQ(rows("blanks.csv", {{"allow_stray_quotes", "true"}}),
              (Strings{"a cat -> | cat", "a dog -> | dog"}));
    std::filesystem::remove_all(folder_ / ".elmo-cache");
    EXPECT_TRUE(contains(said("a.csv", {{"allow_stray_quotes", "true"}}).back(),
                         "2 rows with quotes inside a field"));
    write("open.csv", "text,labels\n\"never closed,a\nx,b\n");
    EXPECT_TRUE(
        contains(error("open.csv"), "open.csv:2: expected a closing quote, found the end of the file"));
    // A field that begins with a quote is no field with one inside.
    for (const bool stray : {false, true})
        EXPECT_TRUE(contains(error("open.csv", {{"allow_stray_quotes", stray ? "true" : "false"}}),
                             "close it, or take all quotes as text with --quotes none"));
    EXPECT_EQ(rows("open.csv", {{"quotes", "none"}}), (Strings{"\"never closed -> | a", "x -> | b"}));
}

TEST_F(PeopleFiles, NullLabels) {
    write("a.jsonl",
          "{\"text\": \"one\", \"labels\": [\"a\", \"b\"]}\n{\"text\": \"two\", \"labels\": null}\n"
          "{\"text\": \"three\"}\n{\"text\": \"four\", \"labels\": [\"a\", null]}\n");
    EXPECT_TRUE(contains(error("a.jsonl"), "a.jsonl:2: expected labels at 'labels'"));
    EXPECT_TRUE(contains(error("a.jsonl"), "--allow-null-labels"));
    EXPECT_EQ(rows("a.jsonl", {{"allow_null_labels", "true"}}),
              (Strings{kRows[0], "two ->", "three ->", "four -> | a"}));
    std::filesystem::remove_all(folder_ / ".elmo-cache");
    EXPECT_TRUE(contains(said("a.jsonl", {{"allow_null_labels", "true"}}).back(), "3 rows with null"));
    write("a.csv", "text,labels\none,\"a,b\"\ntwo,nan\n");
    EXPECT_EQ(rows("a.csv", {{"allow_null_labels", "true"}}), (Strings{kRows[0], "two ->"}));
    EXPECT_EQ(rows("a.csv"), (Strings{kRows[0], "two -> | nan"}));
}

TEST_F(PeopleFiles, ExcelsSeparatorLine) {
    write("a.csv", "sep=;\r\ntext;labels\r\none;a,b\r\ntwo;b,c\r\nthree;c\r\n");
    EXPECT_EQ(rows("a.csv"), kRows);
}

TEST_F(PeopleFiles, Workbooks) {
    TestZip zip;
    zip.add("[Content_Types].xml", "<x/>", true);
    zip.add("xl/workbook.xml", "<x/>", true);
    write("a.xlsx", zip.finish());
    EXPECT_TRUE(contains(error("a.xlsx"),
                         "a.xlsx: expected text (CSV, TSV, JSON lines, ...), found an Excel workbook; "
                         "convert it: python3 -c \"import pandas; pandas.read_excel("));
    EXPECT_TRUE(contains(error("a.xlsx", {{"label_column", "*"}}), ".to_csv(")) << "columns stay columns";
    write("old.xls", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and more");
    EXPECT_TRUE(contains(error("old.xls"), "found an old Excel workbook"));
}

TEST_F(PeopleFiles, PicklesDatabasesAndDocuments) {
    write("a.pkl", std::string("\x80\x04\x95\x10\0\0\0\0\0\0\0", 11));
    EXPECT_TRUE(contains(error("a.pkl"), "found a Python pickle; convert it"));
    write("a.db", std::string("SQLite format 3\0 more", 21));
    EXPECT_TRUE(contains(error("a.db"), "found an SQLite database; export it as CSV or JSON lines"));
    write("a.pdf", "%PDF-1.7\nbytes");
    EXPECT_TRUE(contains(error("a.pdf"), "found a PDF document"));
    // Words that begin so are words.
    write("orc.tsv", "ORC and PAR1 are formats\ta\n");
    EXPECT_EQ(rows("orc.tsv"), (Strings{"ORC and PAR1 are formats -> | a"}));
}

// Labels whose names hold a semicolon or a bar, one a row, are read as they always were.
TEST_F(PeopleFiles, NamesWithSeparatorsAreNames) {
    write("a.csv",
          "text,labels\none,Books | Fiction\ntwo,Books | Drama\nthree,Music | Pop\nfour,Music | Rock\n"
          "five,R&D; Science\nsix,Arts\n");
    EXPECT_EQ(rows("a.csv")[0], "one -> | Books | Fiction");
    EXPECT_EQ(rows("a.csv")[4], "five -> | R&D; Science");
    EXPECT_EQ(rows("a.csv", {{"label_separator", "none"}})[0], "one -> | Books | Fiction");
    write("b.csv", "text,labels\none,\"a,b;c\"\ntwo,\"b;c,a\"\nthree,a\n");
    EXPECT_EQ(rows("b.csv")[1], "two -> | a | b;c") << "a comma anywhere is the separator";
    write("c.csv", "text,labels\none,[redacted]\ntwo,[public]\n");
    EXPECT_EQ(rows("c.csv")[0], "one -> | [redacted]");
    write("d.csv", "text,labels\none,\"Smith, John\"\ntwo,\"Doe, Jane\"\n");
    EXPECT_EQ(rows("d.csv", {{"label_separator", "none"}}),
              (Strings{"one -> | Smith, John", "two -> | Doe, Jane"}));
}

// --- Latin-1 and UTF-8 beside each other

TEST_F(PeopleFiles, RowsOfUtf8AreReadSoBesideLatin1) {
    write("a.csv", "text,labels\ncaf\u00e9,gr\u00fcn\nnaive,b\n");
    EXPECT_EQ(rows("a.csv", {{"encoding", "latin-1"}}),
              (Strings{"caf\u00e9 -> | gr\u00fcn", "naive -> | b"}));
    EXPECT_TRUE(contains(said("a.csv", {{"encoding", "latin-1"}}).at(0),
                         "a.csv: rows that are UTF-8 are read so, in spite of --encoding latin-1"));
    write("one_hot.csv", "text,gr\u00fcn,rot\none,1,0\ntwo,1,1\n");
    EXPECT_EQ(rows("one_hot.csv", {{"encoding", "latin-1"}, {"label_column", "*"}})[0], "one -> | gr\u00fcn");
    write("a.jsonl", "{\"text\": \"caf\u00e9\", \"labels\": [\"a\"]}\n");
    EXPECT_EQ(rows("a.jsonl", {{"encoding", "latin-1"}}), (Strings{"caf\u00e9 -> | a"}));
    // Files of one data set may differ, and so may rows.
    write("x_train.csv", "text,labels\ncaf\xe9,a\ncaf\u00e9 noir,b\n");
    write("x_test.csv", "text,labels\n\u00e9t\u00e9,a\n");
    EXPECT_EQ(rows("x_train.csv", {{"encoding", "latin-1"}}),
              (Strings{"caf\u00e9 -> | a", "caf\u00e9 noir -> | b"}));
    EXPECT_EQ(said("x_train.csv", {{"encoding", "latin-1"}}).size(), 2U);
    write("latin.csv", "text,labels\ncaf\xe9,a\nplain,b\n");
    EXPECT_EQ(said("latin.csv", {{"encoding", "latin-1"}}), Strings());
}

// What is guessed is guessed from characters, not from bytes.
TEST_F(PeopleFiles, JsonLinesInLatin1AreGuessedAsThoseOfUtf8) {
    std::string bars, lists;
    for (const char* labels : {"a|b", "b|c", "a|c"}) {
        bars += fmt::format("{{\"content\": \"caf\xe9\", \"tags\": \"{}\"}}\n", labels);
        lists +=
            fmt::format("{{\"text\": \"caf\xe9\", \"labels\": \"['{}', '{}']\"}}\n", labels[0], labels[2]);
    }
    const Strings expected = {"caf\u00e9 -> | a | b", "caf\u00e9 -> | b | c", "caf\u00e9 -> | a | c"};
    write("bars.jsonl", bars);
    EXPECT_EQ(rows("bars.jsonl", {{"encoding", "latin-1"}}), expected);
    write("lists.jsonl", lists);
    EXPECT_EQ(rows("lists.jsonl", {{"encoding", "latin-1"}}), expected);
}

TEST_F(PeopleFiles, TablesWhoseLabelsAreMarkedAsThoseOfFastText) {
    const std::string marked = "__label__a,one two\n__label__b,three\n__label__a __label__b,four five\n";
    write("table.csv", "labels,text\n" + marked);
    EXPECT_EQ(rows("table.csv")[1], "three -> | __label__b");
    write("blank.csv", "labels,text\n" + marked + "__label__big city,six\n");
    EXPECT_EQ(rows("blank.csv")[3], "six -> | __label__big city");
    write("rows.csv", "labels one text\n__label__a two\n__label__b three\n");
    EXPECT_EQ(rows("rows.csv")[1], "two -> | a");
}

// A test file may have the header that the training file lacks.
TEST_F(PeopleFiles, ATestFileWithTheNamesOfColumnsAsItsHeader) {
    write("x_train.csv", "1,one,\"a,b\"\n2,two,\"b,c\"\n3,three,c\n");
    write("x_test.csv", "id,Text,labels\n4,four,a\n5,five,b\n");
    const Dataset data =
        Dataset::open_labels(quiet(), options("x_train.csv", {{"columns", "id,text,labels"}}));
    EXPECT_EQ(data.train().rows(), 3);
    EXPECT_EQ(data.test().rows(), 2);
}

TEST_F(PeopleFiles, BlanksAroundLabelsOfJsonListsDoNotCount) {
    write("a.jsonl",
          "{\"text\": \"one\", \"labels\": [\"a \", \" b\"]}\n{\"text\": \"two\", \"labels\": "
          "[\"b\", \"c\\n\", \" \"]}\n{\"text\": \"three\", \"labels\": \"c \"}\n");
    EXPECT_EQ(rows("a.jsonl"), kRows);
}

// Kaggle's layout: the test file is what one is to answer.
TEST_F(PeopleFiles, ATestFileWithoutLabelsIsLeftOut) {
    write("a/train.csv", "id,text,labels\n1,one,\"a,b\"\n2,two,\"b,c\"\n3,three,c\n");
    write("a/test.csv", "id,text\n4,four\n");
    EXPECT_EQ(rows("a/train.csv"), kRows);
    EXPECT_EQ(rows("a"), kRows);
    const std::string line = said("a/train.csv").at(0);
    EXPECT_TRUE(contains(line, "a/test.csv: it has no column 'labels', so it is left out")) << line;
    EXPECT_TRUE(contains(line, "elmo predict RUN")) << line;
    Config shared = options("a/train.csv", {{"test_share", "0.5"}});
    const Dataset data = Dataset::open_labels(quiet(), shared);
    EXPECT_EQ(data.train().rows() + data.test().rows(), 3) << "a share of the rows is held out as usual";
    write("b/train.csv", "id,comment,a,b,c\n1,one,1,1,0\n2,two,0,1,1\n3,three,0,0,1\n");
    write("b/test.csv", "id,comment\n4,four\n");
    EXPECT_EQ(rows("b/train.csv"), kRows);
    EXPECT_EQ(rows("b/train.csv", {{"text_column", "comment"}, {"label_column", "*"}}), kRows);
    write("c/train.jsonl", "{\"text\": \"one\", \"labels\": [\"a\", \"b\"]}\n");
    write("c/test.jsonl", "{\"text\": \"four\"}\n");
    EXPECT_EQ(rows("c/train.jsonl"), (Strings{kRows[0]}));
    // One that may have them under another name is not.
    write("d/train.csv", "text,labels\none,a\n");
    write("d/test.csv", "text,tags\ntwo,a\n");
    EXPECT_TRUE(contains(error("d/train.csv"), "test.csv:1: expected a header with the columns"));
    EXPECT_TRUE(contains(error("d/train.csv"), "rename its columns, or move it elsewhere"));
    EXPECT_FALSE(contains(error("d/train.csv"), "name the columns with")) << "which are those of both files";
    write("e/train.csv", "id,text,genre\n1,one,a\n");
    write("e/test.csv", "id,text,true_genre\n2,two,a\n");
    EXPECT_TRUE(contains(error("e/train.csv", {{"label_column", "genre"}}), "found 'id,text,true_genre'"));
    write("f/train.jsonl", "{\"text\": \"one\", \"genre\": [\"a\"]}\n");
    write("f/test.jsonl", "{\"text\": \"two\", \"true_genre\": [\"a\"]}\n");
    EXPECT_TRUE(contains(error("f/train.jsonl", {{"label_column", "genre"}}), "true_genre"));
}

TEST_F(PeopleFiles, ATestFileWithNumberedRowsAndNoLabelsIsLeftOut) {
    write("a/train.csv", "text,labels\none,\"a,b\"\ntwo,\"b,c\"\nthree,c\n");
    write("a/test.csv", "ID,text\n4,four\n");
    EXPECT_EQ(rows("a"), kRows);
    write("b/train.jsonl", "{\"text\": \"one\", \"labels\": [\"a\", \"b\"]}\n");
    write("b/test.jsonl", "{\"row_id\": 1, \"text\": \"four\"}\n");
    EXPECT_EQ(rows("b"), (Strings{kRows[0]}));
    write("c/train.tsv", "one\ta,b\ntwo\tb,c\nthree\tc\n");
    write("c/test.tsv", "four\nfive\n");
    EXPECT_EQ(rows("c"), kRows);
    EXPECT_TRUE(is_said("c", "c/test.tsv: it has no labels behind a tab, so it is left out"));
    EXPECT_TRUE(said("c").at(0).ends_with("c: read from train.tsv"));
    write("c/test.tsv", "four\nfive\ta\n");
    EXPECT_TRUE(contains(error("c"), "test.tsv:1: ")) << "where a row has a tab, all are to have one";
}

// Its scores would be 0 whatever is answered.
TEST_F(PeopleFiles, ATestFileNoRowOfWhichHasALabelIsLeftOut) {
    const auto left_out = [&](const std::string& test, const std::string& data, const std::string& written) {
        write(test, written);
        return is_said(data, test + ": none of its rows has a label, so it is left out");
    };
    write("a/train.csv", "text,labels\none,\"a,b\"\ntwo,\"b,c\"\nthree,c\n");
    EXPECT_TRUE(left_out("a/test.csv", "a", "text,labels\nfour,\nfive, \n"));
    EXPECT_EQ(rows("a"), kRows);
    EXPECT_TRUE(left_out("a/test.csv", "a", "text,labels\nfour,nan\nfive,NA\n"));
    EXPECT_FALSE(left_out("a/test.csv", "a", "text,labels\nfour,\nfive,c\n"));
    EXPECT_EQ(Dataset::open_labels(quiet(), options("a")).test().rows(), 2);
    write("b/train.txt", "__label__a __label__b one\n__label__b __label__c two\n__label__c three\n");
    EXPECT_TRUE(left_out("b/test.txt", "b", "four\nfive\n"));
    EXPECT_EQ(rows("b"), kRows);
    EXPECT_FALSE(left_out("b/test.txt", "b", "four\nfive __label__a\n"));
    write("c/train.jsonl", "{\"text\": \"one\", \"labels\": [\"a\", \"b\"]}\n");
    EXPECT_TRUE(left_out("c/test.jsonl", "c", "{\"text\": \"four\", \"labels\": []}\n"));
    EXPECT_TRUE(left_out("c/test.jsonl", "c", "{\"text\": \"four\", \"labels\": null}\n"));
    EXPECT_FALSE(left_out("c/test.jsonl", "c", "{\"text\": \"four\", \"labels\": [\"a\"]}\n"));
    write("d/train.csv", "text,a,b\none,1,1\ntwo,0,1\nthree,1,0\n");
    EXPECT_TRUE(left_out("d/test.csv", "d", "text,a,b\nfour,0,0\n"));
    write("e/train.csv", "text,labels\none,\"['a', 'b']\"\ntwo,\"['b', 'c']\"\nthree,['c']\n");
    EXPECT_TRUE(left_out("e/test.csv", "e", "text,labels\nfour,[]\n"));
}

// What is found in them holds for them alone.
TEST_F(PeopleFiles, WhatSeparatesColumnsOfATestFileIsSaid) {
    write("a/train.csv", "text,labels\none,a\ntwo,b\n");
    write("a/test.csv", "text;labels\nthree;a\n");
    const std::string line =
        "a/test.csv: read with --delimiter ';', as its first rows show; give your own to read it otherwise";
    const Strings lines = said("a");
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_TRUE(lines[0].ends_with("a: read from train.csv and test.csv")) << lines[0];
    EXPECT_TRUE(lines[1].ends_with(line)) << lines[1];
    const std::string other = write("v.csv", "text;labels\nthree;a\n").string();
    EXPECT_TRUE(
        contains(said("a/train.csv", {{"validation", other}}).at(1), "v.csv: read with --delimiter ';'"));
    write("tabs.csv", "text\tlabels\none\ta,b\n");
    EXPECT_TRUE(
        contains(said("tabs.csv", {{"test_share", "0"}}).at(0), "tabs.csv: read with --delimiter tab"));
    write("tabs.tsv", "text\tlabels\none\ta,b\n");
    EXPECT_EQ(said("tabs.tsv", {{"test_share", "0"}}), Strings());
}

TEST_F(PeopleFiles, KeysOfJsonThatTheFirstRowLacksAreFound) {
    const std::string rest =
        "{\"title\": \"two\", \"tags\": [\"b\", \"c\"]}\n{\"title\": \"three\", \"tags\": [\"c\"]}\n";
    write("a.jsonl", "{\"title\": \"one\"}\n" + rest);
    EXPECT_TRUE(contains(error("a.jsonl"), "a.jsonl:1: expected the key 'tags', found the keys 'title'"));
    EXPECT_EQ(rows("a.jsonl", {{"allow_null_labels", "true"}}),
              (Strings{"one ->", "two -> | b | c", "three -> | c"}));
    // What the first row has is meant, though another has more.
    write("b.jsonl", "{\"title\": \"one\", \"tags\": [\"a\", \"b\"]}\n" + rest +
                         "{\"title\": \"four\", \"tags\": [\"a\"], \"topic\": \"x\"}\n");
    EXPECT_EQ(rows("b.jsonl").size(), 4U);
}

// A row without the key is one without labels then.
TEST_F(PeopleFiles, ATestFileOfJsonWhoseRowsMayLackLabelsIsRead) {
    write("train.jsonl", "{\"text\": \"one\", \"labels\": [\"a\"]}\n");
    write("test.jsonl", "{\"text\": \"two\"}\n");
    const Dataset data =
        Dataset::open_labels(quiet(), options("train.jsonl", {{"allow_null_labels", "true"}}));
    EXPECT_EQ(data.test().rows(), 1);
}

TEST_F(PeopleFiles, ATestShareBesideATestFileIsSaidToHaveNoPart) {
    write("x_train.csv", "text,labels\none,a\n");
    write("x_test.csv", "text,labels\ntwo,a\n");
    EXPECT_EQ(said("x_train.csv"), Strings());
    const Strings lines = said("x_train.csv", {{"test_share", "0.3"}});
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(contains(lines[0], "x_test.csv holds the test rows: --test-share 0.3 has no part in this"))
        << lines[0];
}

// Labels that a file of columns of 0 and 1 cannot have are not scored as if no row had them in silence.
TEST_F(PeopleFiles, ATestFileThatLacksColumnsOfLabels) {
    write("x_train.csv", "text,a,b,c\none,1,1,0\ntwo,0,1,1\n");
    write("x_test.csv", "text,a,z\nthree,1,0\n");
    const Strings lines = said("x_train.csv", {{"label_column", "*"}});
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(contains(
        lines[0], "x_test.csv: 2 of 3 labels have no column ('b', 'c'): its rows count as without them"))
        << lines[0];
    write("x_test.csv", "text,c,b,a\nthree,0,0,0\nfour,1,0,0\n");
    EXPECT_EQ(said("x_train.csv", {{"label_column", "*"}}), Strings());
}

TEST_F(PeopleFiles, AWrongDelimiterIsNamedWithTheRightOne) {
    write("comma.csv", "id,text,labels\n1,one,a\n");
    write("tab.tsv", "id\ttext\tlabels\n1\tone\ta\n");
    EXPECT_TRUE(contains(error("comma.csv", {{"delimiter", ";"}}),
                         "columns are separated by ',', not by ';': give --delimiter ','"));
    EXPECT_TRUE(contains(error("comma.csv", {{"delimiter", ";"}, {"text_column", "text"}}),
                         "columns are separated by ',', not by ';': give --delimiter ','"));
    write("row.csv", "1,one,a\n2,two,b\n");
    EXPECT_TRUE(contains(error("row.csv", {{"delimiter", ";"}, {"columns", "id,text,labels"}}),
                         "columns are separated by ',', not by ';': give --delimiter ','"));
    EXPECT_TRUE(contains(error("tab.tsv", {{"delimiter", ";"}}),
                         "columns are separated by tabs, not by ';': give --delimiter tab"));
}

TEST_F(PeopleFiles, ColumnsOfZeroAndOneAreForTables) {
    write("a.jsonl", "{\"desc\": \"one\", \"a\": 1, \"b\": 0}\n");
    EXPECT_TRUE(contains(error("a.jsonl", {{"text_column", "desc"}, {"label_column", "*"}}),
                         "columns of 0 and 1 are read of tables: write the labels of each row as a list like "
                         "[\"a\", \"b\"], or all rows as CSV"));
}

TEST_F(PeopleFiles, EmptyFilesAndWrongNumbersOfFields) {
    write("a.csv", "");
    EXPECT_TRUE(contains(error("a.csv"), "a.csv: expected rows, found an empty file"));
    write("b.csv", "text,labels\none,a\ntwo\n");
    EXPECT_TRUE(
        contains(error("b.csv"), "b.csv:3: expected 2 fields, as the header has, found 1 field in 'two'"));
    write("c.csv", "text,labels\none,a,b\n");
    EXPECT_TRUE(contains(error("c.csv"), "put fields that hold commas in quotes"));
    write("d.tsv", "id\ttext\tlabels\n1\t\"odd\ta\n2\tx\n");
    EXPECT_TRUE(contains(error("d.tsv"), "d.tsv:3: expected 3 fields, as the header has, found 2"));
    write("e.csv", "text,text,labels\nx,y,a\n");
    EXPECT_TRUE(contains(error("e.csv"), "e.csv:1: expected each column once"));
}

}  // namespace
}  // namespace elmo
