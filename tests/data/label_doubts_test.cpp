// Labels that look like a mistake: each kind is said with its cause, and good labels are not suspected.
#include "data/label_doubts.h"

#include <fmt/format.h>

#include "data/test_folder.h"
#include "quiet.h"
#include "sources/tables/guess.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/label_lists.h"

namespace elmo {
namespace {

using testing_data::contains;
using Strings = std::vector<std::string>;

class LabelDoubts : public testing_data::TestFolder {
  protected:
    // A file whose label fields these are, read with what separates labels, as if that was not given.
    Strings doubts(const Strings& fields, const std::string& separator = ",", bool given = false) {
        std::string csv = "text,labels\n";
        for (std::size_t i = 0; i < fields.size(); ++i) {
            std::string field;
            for (const char c : fields[i]) field += c == '"' ? "\"\"" : std::string(1, c);
            csv += "text " + std::to_string(i) + ",\"" + field + "\"\n";
        }
        write("a.csv", csv);
        Config options = config("a.csv");
        options.test_share = 0;
        set_option(options, "label_separator", separator);
        Layout layout = find_layout(options);
        EXPECT_TRUE(layout.cells.given);
        layout.cells.given = given;
        return label_doubts(Dataset::open_labels(quiet(), options), layout);
    }
    std::string only(const Strings& fields) {
        const Strings found = doubts(fields);
        EXPECT_EQ(found.size(), 1U);
        return found.empty() ? "" : found[0];
    }
};

TEST_F(LabelDoubts, GoodLabelsAreNotSuspected) {
    EXPECT_EQ(doubts({"a,b", "b", "a", "c,a"}), Strings());
    EXPECT_EQ(doubts({"\"Heroes\"", "[redacted]", "it's", "O'Neil", "a|b", "x/y", "z", "w"}), Strings());
    Strings names;
    for (int i = 0; i < 100; ++i) names.push_back("class " + std::to_string(i % 10));
    EXPECT_EQ(doubts(names), Strings());
}

TEST_F(LabelDoubts, LabelsJoinedByWhatDoesNotSeparateThem) {
    // One to three of eight names, in any order.
    const Strings names = {"safe", "brute", "default", "vuln", "auth", "dos", "malware", "version"};
    const auto joined = [&](const std::string& open, const std::string& between, const std::string& close,
                            bool numbers = false) {
        Strings fields;
        for (std::size_t i = 0; i < 160; ++i) {
            std::string field;
            for (std::size_t k = 0; k <= i % 3; ++k) {
                const std::size_t name = (i * (k + 1) + i / 7 + k) % 8;
                field +=
                    (k > 0 ? between : "") + open + (numbers ? std::to_string(name) : names[name]) + close;
            }
            fields.push_back(field);
        }
        return only(fields);
    };
    EXPECT_TRUE(contains(joined("<", "", ">"), "in angle brackets, such as '<"));
    EXPECT_TRUE(contains(joined("", " ", "", true), "are several numbers, such as '"));
    for (const char* between : {" ", "/", " / ", "+", ":", " & "}) {
        const std::string_view separator = trim(between).empty() ? " " : trim(between);
        EXPECT_TRUE(contains(joined("", between, ""), fmt::format("--label-separator '{}'", separator)))
            << between;
    }
    EXPECT_TRUE(contains(joined("#", " ", ""), "--label-separator ' '"));
}

TEST_F(LabelDoubts, PhrasesAreNotSuspected) {
    Strings products, phrases, paths, versions;
    const Strings colours = {"red", "blue", "green", "white", "black", "grey"},
                  things = {"shirt", "shoe", "hat", "sock", "coat", "scarf", "belt", "glove"};
    for (int i = 0; i < 192; ++i) {
        const std::string &colour = colours[i % 6], &thing = things[i / 6 % 8];
        products.push_back(colour + " " + thing);
        paths.push_back(thing + "/" + colour + (i % 3 == 0 ? "" : "/small"));
        phrases.push_back(fmt::format("topic{} of topic{}", i % 40, i % 37));
        versions.push_back(fmt::format("{} {}", 2000 + i % 20, things[i % 8]));
    }
    for (Strings fields : {products, paths, phrases, versions}) {
        for (std::size_t i = 0; i < 576; ++i) fields.push_back(fields[i]);  // each has several rows
        EXPECT_EQ(doubts(fields), Strings());
    }
}

TEST_F(LabelDoubts, ASecondLabelOfFastTextBehindAComma) {
    std::string lines;
    for (int i = 0; i < 20; ++i) lines += fmt::format("__label__a{},__label__b text {}\n", i % 2, i);
    write("a.txt", lines);
    Config options = config("a.txt");
    options.test_share = 0;
    EXPECT_EQ(label_doubts(Dataset::open_labels(quiet(), options), find_layout(options)),
              Strings{"2 of 2 labels hold '__label__', such as 'a0,__label__b': put a blank before each "
                      "__label__"});
}

TEST_F(LabelDoubts, NamesThatHoldACommaAreNotCutSilently) {
    Strings names;
    for (int i = 0; i < 60; ++i) names.push_back(std::vector<std::string>{"France", "Peru", "Korea"}[i % 3]);
    names.insert(names.end(), {"Korea, Republic of", "Moldova, Republic of", "Korea, Republic of"});
    EXPECT_EQ(only(names),
              "rows with several labels have some that no row has alone, such as 'Republic of': where ',' is "
              "part of a name, give --label-separator none");
    // Labels that stand alone elsewhere, or rows that often have several, are usual.
    names.insert(names.end(), {"France, Peru", "Korea, France"});
    EXPECT_EQ(doubts(names), Strings());
    EXPECT_EQ(doubts(Strings(30, "Korea, Republic of")), Strings());
}

TEST_F(LabelDoubts, NamesThatOftenHoldACommaAreNotCutSilently) {
    Strings names;
    for (int i = 0; i < 60; ++i) names.push_back(std::vector<std::string>{"Intel", "Canon", "Sony"}[i % 3]);
    for (int i = 0; i < 40; ++i) names.push_back(i % 2 == 0 ? "Acme, Inc." : "Logitech, Inc.");
    EXPECT_EQ(
        only(names),
        "rows with several labels have some that no row has alone, such as 'Acme': where ',' is part of a "
        "name, give --label-separator none");
    // A topic that other rows have alone, and who wrote it: two labels.
    Strings quotes(60, "poems");
    for (int i = 0; i < 40; ++i) quotes.push_back("poems, by " + std::to_string(i % 5));
    EXPECT_EQ(doubts(quotes), Strings());
}

TEST_F(LabelDoubts, PiecesOfLists) {
    EXPECT_EQ(only({"['a', 'b']", "['b']"}),
              "3 of 3 labels look like pieces of a list, such as ''b']': where label fields are lists like "
              "['a', 'b'], "
              "read them with --label-separator list");
    EXPECT_TRUE(contains(only({"[\"a\", \"b\", \"c\"]", "x"}), "look like pieces of a list"));
    EXPECT_TRUE(contains(only({"[1, 2]", "[3, 4]"}), "look like pieces of a list"));
    EXPECT_TRUE(contains(only({"{a,b}", "{b,c}"}), "4 of 4 labels look like pieces of a list, such as 'b}'"));
}

TEST_F(LabelDoubts, AColumnOfZerosAndOnesWithASlip) {
    write("a.csv", "id,text,a,b\n5,one,1,0\n6,two,2,1\n7,three,1,0\n8,four,0,1\n");
    Config options = config("a.csv");
    options.test_share = 0;
    set_option(options, "label_column", "*");
    EXPECT_EQ(label_doubts(Dataset::open_labels(quiet(), options), find_layout(options)),
              (Strings{"the column 'a' is no label, since it holds '2' beside 0 and 1: where it is one, mend "
                       "such fields"}));
}

TEST_F(LabelDoubts, ANullInListsIsNothingThatAFlagReads) {
    write(
        "a.jsonl",
        "{\"text\": \"one\", \"labels\": [\"null\"]}\n{\"text\": \"two\", \"labels\": [\"x\", \"null\"]}\n");
    Config options = config("a.jsonl");
    options.test_share = 0;
    EXPECT_EQ(label_doubts(Dataset::open_labels(quiet(), options), find_layout(options)),
              (Strings{"'null' is a label of 2 rows: where it means that there is none, leave it out"}));
}

TEST_F(LabelDoubts, ItemsOfListsAreNotCutAnyFurther) {
    const auto of_json = [&](const Strings& values) {
        std::string lines;
        for (std::size_t i = 0; i < values.size(); ++i)
            lines += "{\"text\": \"t" + std::to_string(i) + "\", \"labels\": " + values[i] + "}\n";
        write("a.jsonl", lines);
        Config options = config("a.jsonl");
        options.test_share = 0;
        return label_doubts(Dataset::open_labels(quiet(), options), find_layout(options));
    };
    // Names of Vim's marks: an accident in lists, which no flag reads otherwise.
    EXPECT_EQ(of_json({"[\"a\", \"']\"]", "[\"b\", \"c\"]", "[\"d\"]"}), Strings());
    const Strings inside = of_json({"[\"['a', 'b']\"]", "[\"['c']\"]"});
    ASSERT_EQ(inside.size(), 1U);
    EXPECT_TRUE(contains(inside[0], "write each label as an item of its row's list")) << inside[0];
    const Strings joined = of_json({"[\"a;b\"]", "[\"b;c\"]"});
    ASSERT_EQ(joined.size(), 1U);
    EXPECT_TRUE(contains(joined[0], "write each label as an item of its row's list")) << joined[0];
    Strings single;
    for (int i = 0; i < 40; ++i) single.push_back("[\"name " + std::to_string(i) + "\"]");
    const Strings of_one_row = of_json(single);
    ASSERT_EQ(of_one_row.size(), 1U);
    EXPECT_TRUE(contains(of_one_row[0], "of one row: is --label-column the column of the labels?"))
        << of_one_row[0];
    // Strings are fields, in JSON too.
    const Strings null = of_json({"\"a,b\"", "\"nan\"", "\"b\""});
    ASSERT_EQ(null.size(), 1U);
    EXPECT_TRUE(contains(null[0], "--allow-null-labels")) << null[0];
}

TEST_F(LabelDoubts, Dictionaries) {
    EXPECT_EQ(
        only({"{'a': 1, 'b': 1}", "{'b': 1}"}),
        "3 of 3 labels look like pieces of a dictionary, such as ''b': 1}': write the labels of each row as "
        "a list like [\"a\", \"b\"]");
    EXPECT_TRUE(
        contains(only({"{\"a\":0.5}", "{\"b\":0.5}"}), "2 of 2 labels look like pieces of a dictionary"));
}

// Brackets that are shut are part of a name: they are no piece of a list, and hide no other doubt.
TEST_F(LabelDoubts, NamesWithBrackets) {
    EXPECT_EQ(doubts({"cat [animal]", "[old] cat", "a[0]", "f(x) {y}"}), Strings());
    EXPECT_EQ(doubts({"Bilbo [in \"The Hobbit\"]", "Frodo {'the Ring'}", "Sam"}), Strings());
    EXPECT_EQ(only({"cat [pet];dog [pet]", "dog [pet];cow [farm]", "cow [farm]"}),
              "2 of 3 labels hold ';': where it stands between labels, give --label-separator ';'");
    const Strings both = doubts({"a;b;x]", "b;c", "c;d", "d;e", "e;f"});
    ASSERT_EQ(both.size(), 2U);
    EXPECT_TRUE(contains(both[0], "1 of 5 labels look like pieces of a list"));
    EXPECT_TRUE(contains(both[1], "5 of 5 labels hold ';'"));
}

TEST_F(LabelDoubts, SeparatorsThatWereNotCutAt) {
    EXPECT_EQ(only({"a;b", "b;c", "c"}),
              "2 of 3 labels hold ';': where it stands between labels, give --label-separator ';'");
    EXPECT_TRUE(contains(only({"a|b", "b|c"}), "--label-separator '|'"));
    Strings fields;
    for (int i = 0; i < 40; ++i) fields.push_back("k" + std::to_string(i) + (i % 3 == 0 ? "/x" : ""));
    EXPECT_TRUE(contains(only(fields), "--label-separator '/'"));
    // Rows without labels hide nothing.
    fields.insert(fields.end(), 10, "");
    EXPECT_TRUE(contains(only(fields), "--label-separator '/'"));
}

TEST_F(LabelDoubts, AsManyLabelsAsRows) {
    Strings fields;
    for (int i = 0; i < 40; ++i) fields.push_back("name " + std::to_string(i));
    EXPECT_TRUE(
        contains(only(fields),
                 "40 labels for 40 rows, 40 of them labels of one row: is --label-column the column of "
                 "the labels, and --label-separator what stands between them?"));
    // Few pieces of lists are not why there are so many.
    Strings few = fields;
    few.front() = "[ name 0";
    const Strings both = doubts(few);
    ASSERT_EQ(both.size(), 2U);
    EXPECT_TRUE(contains(both[0], "1 of 40 labels look like pieces of a list"));
    EXPECT_TRUE(contains(both[1], "40 labels for 40 rows"));
    // It counts the labels: most of these rows have one that others have too.
    fields.insert(fields.end(), 60, "a class");
    EXPECT_TRUE(contains(only(fields), "41 labels for 100 rows, 40 of them labels of one row"));
    // Columns that have no names cannot be named with --label-column.
    std::string lines;
    for (int i = 0; i < 40; ++i)
        lines += "class " + std::to_string(i % 4) + "\ttext " + std::to_string(i) + "\n";
    write("a.tsv", lines);
    Config options = config("a.tsv");
    options.test_share = 0;
    const Strings found = label_doubts(Dataset::open_labels(quiet(), options), find_layout(options));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(contains(found[0], "where the labels come before the text, give --columns labels,text"));
}

TEST_F(LabelDoubts, WhatTheCallSaysIsNoDoubt) {
    Strings names(60, "Peru");
    names.insert(names.end(), {"Korea, Republic of", "Moldova, Republic of", "Korea, Republic of"});
    EXPECT_EQ(doubts(names).size(), 1U);
    EXPECT_EQ(doubts(names, ",", true), Strings());
    Strings paths;
    for (int i = 0; i < 40; ++i) paths.push_back("k" + std::to_string(i) + "/x");
    EXPECT_TRUE(contains(only(paths), "--label-separator '/'"));
    const Strings asked = doubts(paths, "none", true);
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_TRUE(contains(asked[0], "of one row: is --label-column the column of the labels?"));
}

// Texts join keys that a row may lack, so a slip in one would pass: all texts would be shorter.
TEST_F(LabelDoubts, KeysOfTextsThatNoRowHas) {
    write("a.jsonl", R"({"t": "one", "meta": {"title": "first"}, "labels": ["x"]}
{"t": "two", "sub": null, "labels": ["y"]}
)");
    Config options = config("a.jsonl");
    options.test_share = 0;
    const auto found = [&](const char* columns) {
        set_option(options, "text_column", columns);
        return label_doubts(Dataset::open_labels(quiet(), options), find_layout(options));
    };
    EXPECT_EQ(found("t+meta.title+sub"), Strings());
    EXPECT_EQ(found("t+meta.titel"),
              Strings{"no text of the first rows has the key 'meta.titel' (did you mean 'meta.title'?): is "
                      "--text-column right?"});
}

TEST_F(LabelDoubts, WordsForNull) {
    EXPECT_EQ(only({"a,b", "nan", "nan", "b"}),
              "'nan' is a label of 2 rows: where it means that there is none, give --allow-null-labels");
    EXPECT_EQ(only({"a,b", "nan", "None", "nan", "b"}),
              "'None' is a label of 1 row, 'nan' is a label of 2 rows: where it means that there is none, "
              "give --allow-null-labels");
}

TEST_F(LabelDoubts, WordsForNullOfRowsThatAreHeldOut) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 60; ++i) rows += "text " + std::to_string(i) + (i % 3 == 0 ? ",nan\n" : ",a\n");
    write("a.csv", rows);
    Config options = config("a.csv");
    options.test_share = 0.3;
    const Dataset data = Dataset::open_labels(quiet(), options);
    ASSERT_GT(data.test().rows(), 0);
    const Strings found = label_doubts(data, find_layout(options));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(contains(found[0], "'nan' is a label of 20 rows: ")) << found[0];
}

// The flag is for fields, not for items of lists.
TEST_F(LabelDoubts, WordsForNullInListsBesideFields) {
    write("a.jsonl", R"({"text": "one", "labels": ["number", "nan"]}
{"text": "two", "labels": "css, number"}
)");
    Config options = config("a.jsonl");
    options.test_share = 0;
    EXPECT_EQ(label_doubts(Dataset::open_labels(quiet(), options), find_layout(options)),
              Strings{"'nan' is a label of 1 row: where it means that there is none, leave it out"});
}

TEST_F(LabelDoubts, MostRowsWithoutLabels) {
    EXPECT_EQ(only({"a,b", "", "", "b", ""}),
              "3 of 5 rows have no labels: is --label-column the column of the labels?");
}

TEST(LabelLists, AllWaysToWriteThem) {
    const std::pair<const char*, Strings> good[] = {
        {"[]", {}},
        {" [ ] ", {}},
        {"set()", {}},
        {"['a']", {"a"}},
        {"[\"a, b\", 'c']", {"a, b", "c"}},
        {"['a' 'b'\n 'c']", {"a", "b", "c"}},
        {"[1 2 30]", {"1", "2", "30"}},
        {"[1, -2, 3.5]", {"1", "-2", "3.5"}},
        {"[1. 2.]", {"1", "2"}},
        {"[\"it's\", 'say \"x\"', 'it\\'s']", {"it's", "say \"x\"", "it's"}},
        {"['\\u00e9', '\\xe9', '\\ud83d\\ude00', 'a\\\\b', 'a\\qb']",
         {"\u00e9", "\u00e9", "\U0001f600", "a\\b", "a\\qb"}},
        {"('a', 'b',)", {"a", "b"}},
        {"{'a'}", {"a"}},
        {"['', ' a ']", {"a"}},
    };
    for (const auto& [cell, items] : good) {
        const auto list = parse_label_list(cell);
        ASSERT_TRUE(list) << cell;
        EXPECT_EQ(list->items, items) << cell;
        EXPECT_EQ(list->nulls, 0) << cell;
        EXPECT_TRUE(list->certain) << cell;
    }
    for (const char* cell :
         {"",          "[",           "]",          "a",           "['a'",     "['a]",
          "['a''b']",  "[['a']]",     "[1, ... 9]", "[1 2 ... 9]", "[a, ...]", "[a, [b]]",
          "{'a': 1}",  "{a: 1}",      "{a:1, b:0}", "[,]",         "['a',,]",  "['\\ud800']",
          "['\\u12']", "['a'] ['b']", "[a] [b]",    "['a' b]",     "{a},{b}",  "[say \"x\", b]"})
        EXPECT_FALSE(parse_label_list(cell)) << cell;
}

// Each value of a long list is looked at once: all that follows, for each, would take hours.
TEST(LabelLists, LongOnesWithoutCommas) {
    std::string cell = "[";
    for (int i = 0; i < 2'000'000; ++i) cell += "1 ";
    const auto list = parse_label_list(cell + "]");
    ASSERT_TRUE(list);
    EXPECT_EQ(list->items.size(), 2'000'000u);
    // Null is a word alone.
    EXPECT_EQ(parse_label_list("[None , 'a',nan]")->nulls, 2);
    EXPECT_EQ(parse_label_list("[None]")->nulls, 1);
    EXPECT_EQ(parse_label_list("[None of these, Nonesuch]")->nulls, 0);
    EXPECT_EQ(parse_label_list("[NA NA, b]")->items, (Strings{"NA NA", "b"}));
}

TEST(LabelLists, WithoutQuotes) {
    const std::pair<const char*, Strings> good[] = {
        {"[a, b]", {"a", "b"}},
        {"[machine learning,ai , children's books]", {"machine learning", "ai", "children's books"}},
        {"[role::program, 3d]", {"role::program", "3d"}},
        {"{a,b}", {"a", "b"}},  // PostgreSQL's arrays
        {"{a,\"b, c\",1}", {"a", "b, c", "1"}},
        {"{File::Spec,it:}", {"File::Spec", "it:"}},
        {"(1, 2)", {"1", "2"}},
    };
    for (const auto& [cell, items] : good) {
        const auto list = parse_label_list(cell);
        ASSERT_TRUE(list) << cell;
        EXPECT_EQ(list->items, items) << cell;
        EXPECT_TRUE(list->certain) << cell;
    }
    // Brackets around one word may be part of its name.
    for (const char* cell : {"[a]", "{a b}", "(a)", "{1}"}) {
        const auto list = parse_label_list(cell);
        ASSERT_TRUE(list) << cell;
        EXPECT_EQ(list->items.size(), 1U) << cell;
        EXPECT_FALSE(list->certain) << cell;
    }
}

// PostgreSQL puts quotes around elements with blanks, commas, quotes and {}, not around others.
TEST(LabelLists, ArraysOfPostgres) {
    const std::pair<const char*, Strings> good[] = {
        {"{lang:en,topic:perl}", {"lang:en", "topic:perl"}},
        {"{http://a.b/c,a[],(?:)}", {"http://a.b/c", "a[]", "(?:)"}},
        {"{a,\"b: c\",\"{d:e}\"}", {"a", "b: c", "{d:e}"}},
        {"{version:1,version:x}", {"version:1", "version:x"}},
    };
    for (const auto& [cell, items] : good) {
        const auto list = parse_label_list(cell);
        ASSERT_TRUE(list) << cell;
        EXPECT_EQ(list->items, items) << cell;
        EXPECT_TRUE(list->certain) << cell;
    }
    EXPECT_EQ(parse_label_list("{topic:perl,NULL}")->nulls, 1);
    // One element, or all with a value behind a colon: they may be something else, and are no proof.
    for (const char* cell :
         {"{topic:perl}", "{http://a.b/c}", "{a[]}", "{(?:)}", "{a:1,b:0}", "{a:true,b:0.5}"}) {
        const auto list = parse_label_list(cell);
        ASSERT_TRUE(list) << cell;
        EXPECT_FALSE(list->certain) << cell;
    }
    // Dictionaries have blanks or quotes; arrays in arrays are none of labels.
    for (const char* cell :
         {"{a: 1}", "{\"a\":1}", "{\"a\":1,b:2}", "{'a':1}", "{'a':'b'}", "{a:'b'}", "{a:\"b\"}", "{a:{b:c}}",
          "{a:[1,2],b:3}", "{{a:b,c},{d,e}}", "{a:b,...}", "{a:b,}", "{,a:b}", "{a:b\\,c}"})
        EXPECT_FALSE(parse_label_list(cell)) << cell;
}

TEST(LabelLists, NullsAreCounted) {
    for (const char* cell : {"['a', None]", "[\"a\", null]", "[nan, 'a']", "{a,NULL}"}) {
        const auto list = parse_label_list(cell);
        ASSERT_TRUE(list) << cell;
        EXPECT_EQ(list->items, Strings{"a"}) << cell;
        EXPECT_EQ(list->nulls, 1) << cell;
    }
}

TEST(LabelSeparators, TakenWhereNothingElseExplains) {
    EXPECT_EQ(guess_separator({}), "");
    EXPECT_EQ(guess_separator({"a", "b", ""}), "");
    EXPECT_EQ(guess_separator({"a;b", "b;c", "c;a"}), ";");
    EXPECT_EQ(guess_separator({"a|b", "b", "c|a|b", "c"}), "|");
    EXPECT_EQ(guess_separator({"a;b", "b;c", "a,b"}), "") << "a comma speaks against it";
    EXPECT_EQ(guess_separator({"Books|Fiction", "Books|Drama", "Music|Pop", "Music|Rock", "Books|Crime"}), "")
        << "paths";
    EXPECT_EQ(guess_separator({"red;glossy;small", "red;glossy;large", "blue;matt;small", "blue;matt;large",
                               "green;rough;small", "green;rough;large"}),
              ";")
        << "places that are fixed, of which one follows from another";
    EXPECT_EQ(guess_separator({"Books|Fiction|Crime", "Books|Fiction|Other", "Books|Art|Photography",
                               "Music|Rock|Metal", "Music|Rock|Other", "Music|Folk|Irish",
                               "Games|Cards|Poker", "Games|Cards|Other", "Games|Dice|Craps"}),
              "")
        << "paths, with a name that is in several";
    EXPECT_EQ(guess_separator({"a|b|c|d|e|x1|x2", "b|c|d|e|f|x3|x4", "c|d|e|a|f|x5|x6", "d|a|b|f|c|x7"}), "|")
        << "more labels than different fields";
    EXPECT_EQ(guess_separator({"R&D; Science", "Science", "Arts", "Music"}), "") << "one name that holds it";
    EXPECT_EQ(guess_separator({"['a']", "[]", "", "nan"}), "list");
    EXPECT_EQ(guess_separator({"['a']", "b"}), "");
    EXPECT_EQ(guess_separator({"[a]", "[a, b]"}), "list");
    EXPECT_EQ(guess_separator({"{a,b}", "{c}"}), "list");
    EXPECT_EQ(guess_separator({"[redacted]", "[secret]"}), "") << "names in brackets";
}

TEST(GuessOtherSeparator, OnlyWhereTheRunsOwnIsNotThere) {
    EXPECT_EQ(guess_other_separator({"a,b", "b,c", "c,a"}, ";"), ",");
    EXPECT_EQ(guess_other_separator({"a|b", "b|c", "c|a"}, ";"), "|");
    EXPECT_EQ(guess_other_separator({"a,b", "b,c", "c;a"}, ";"), "") << "the run's own is there";
    EXPECT_EQ(guess_other_separator({"Smith, John", "Doe, Jane"}, ";"), "") << "names with a comma";
    EXPECT_EQ(guess_other_separator({"a,b", "b,c", "c,a"}, "none"), "");
    for (const char* of_run : {";", ",", "none"})
        EXPECT_EQ(guess_other_separator({"['a']", "['b', 'a']"}, of_run), "list");
    EXPECT_EQ(guess_other_separator({"['a']", "['b', 'a']"}, "list"), "");
    EXPECT_EQ(guess_other_separator({"['a']", "a,b"}, "list"), "");
    EXPECT_EQ(guess_other_separator({"a;b", "b;list", "c;a", "c"}, "list"), ";");
    EXPECT_EQ(guess_other_separator({}, ";"), "");
}

// Where a few names hold a comma, the separator of the others is not taken without asking, but asked for.
TEST_F(LabelDoubts, NamesWhosePiecesAreLabelsElsewhere) {
    Strings names;
    const Strings people = {"Ann", "Bob", "Cid", "Dan", "Eva", "Fay"};
    for (std::size_t i = 0; i < 60; ++i) names.push_back(people[i % 6]);
    names.insert(names.end(), {"Ann;Bob", "Bob;Cid", "Cid;Ann", "Acme, Inc."});
    EXPECT_EQ(only(names),
              "3 of 11 labels hold ';': where it stands between labels, give --label-separator ';'");
    // Others that hold it by chance, and paths, whose pieces have their places.
    names = people;
    names.insert(names.end(), {"Gus; or not", "Hal;x", "Ida;y"});
    EXPECT_EQ(doubts(names), Strings());
    EXPECT_EQ(doubts({"Books", "Books|Fiction", "Books|Fact", "Music", "Music|Folk", "Games", "Tools"}),
              Strings());
}

TEST_F(LabelDoubts, NamesOfFastTextThatDifferInCase) {
    write("a.txt", "__label__Video __label__x one\n__label__video __label__x two\n__label__video three\n");
    Config options = config("a.txt");
    options.test_share = 0;
    const Strings found = label_doubts(Dataset::open_labels(quiet(), options), find_layout(options));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(contains(found[0], "1 pair of labels differs only in case")) << found[0];
}

TEST_F(LabelDoubts, NamesThatDifferInCaseBlanksOrUnicodeForm) {
    EXPECT_EQ(
        only({"userName", "username", "username", "Time  zone", "time zone", "other", "cafe\u0301",
              "caf\u00e9"}),
        "3 pairs of labels differ only in case, blanks or Unicode form, such as 'username' (2 rows) and "
        "'userName' (1): they stay different labels; where they mean the same, write them alike");
    EXPECT_EQ(
        only({"Go", "go", "GO", "rust"}),
        "3 pairs of labels differ only in case, blanks or Unicode form, such as 'GO' (1 row) and 'Go' (1): "
        "they stay different labels; where they mean the same, write them alike");
    // A blank that is not of ASCII stays at the end of a name.
    EXPECT_EQ(only({"Polski", "Polski\u00a0"}).substr(0, 37), "1 pair of labels differs only in case");
    EXPECT_EQ(doubts({"user name", "username", "user_name", "cafe", "caf\u00e9", "1", "10"}), Strings());
}

}  // namespace
}  // namespace elmo
