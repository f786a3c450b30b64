// JSON lines: keys, joined texts, labels by number and by name, and bad lines.
#include "sources/tables/json_rows.h"

#include <gtest/gtest.h>

#include "data/test_folder.h"
#include "elmo/error.h"

namespace elmo::json_rows_test {
namespace {

using testing_data::contains;

std::string text(const std::string& line, const std::vector<std::string>& keys) {
    JsonRows rows;
    std::string out = "old";
    rows.text({line, 3, "file"}, keys, out);
    return out;
}

std::vector<std::uint32_t> ids(const std::string& line, bool merge = false) {
    JsonRows rows;
    std::vector<std::uint32_t> out = {77};
    ImportCounts counts;
    rows.label_ids({line, 3, "file"}, "target_ind", 10, merge, out, counts);
    return out;
}

std::vector<std::string> names(const std::string& line) {
    JsonRows rows;
    std::vector<std::string> out = {"old"};
    ImportCounts counts;
    rows.label_names({line, 3, "file"}, "labels", {.separator = ";"}, out, counts);
    return out;
}

template <class Body>
std::string error(const Body& body) {
    try {
        body();
    } catch (const DataError& e) {
        return e.what();
    }
    return "";
}

TEST(JsonRows, JoinsTexts) {
    const std::string line = R"({"uid": "x", "content": "B", "title": "A \u00e9\n", "no": null})";
    EXPECT_EQ(text(line, {"title"}), "A \xc3\xa9\n");
    EXPECT_EQ(text(line, {"title", "content"}), "A \xc3\xa9\n B");
    EXPECT_EQ(text(line, {"title", "absent", "no", "content"}), "A \xc3\xa9\n B");
    EXPECT_EQ(text(R"({"title": "", "content": "B"})", {"title", "content"}), "B");
    EXPECT_EQ(text(R"({"title": "A", "content": ""})", {"title", "content"}), "A");
}

TEST(JsonRows, RefusesAKeyThatStandsTwice) {
    EXPECT_TRUE(contains(error([] { text(R"({"text": "a", "text": "b"})", {"text"}); }),
                         "file:3: expected each key once, found 'text' twice; rename or remove one of them"));
    EXPECT_TRUE(
        contains(error([] { text(R"({"meta": {"t": "a", "t": "b"}})", {"meta.t"}); }), "found 't' twice"));
    EXPECT_TRUE(contains(error([] { names(R"({"labels": ["x"], "labels": ["y"]})"); }),
                         "file:3: expected each key once, found 'labels' twice"));
    EXPECT_EQ(text(R"({"text": "a", "other": 1, "other": 2})", {"text"}), "a") << "as columns of a table";
}

TEST(JsonRows, SaysWhatToDoAboutLabelsThatAreNone) {
    const std::string advice = "write each label as a string";
    EXPECT_TRUE(contains(error([] { names(R"({"labels": true})"); }), advice));
    EXPECT_TRUE(contains(error([] { names(R"({"labels": 1.5})"); }), advice));
    EXPECT_TRUE(contains(error([] { names(R"({"labels": ["x", ["y"]]})"); }),
                         "write the labels of a row as one list like [\"a\", \"b\"]"));
    EXPECT_TRUE(
        contains(error([] { text(R"({"text": "\ud800 a"})", {"text"}); }),
                 "a \\u escape of half a character, which no text holds: write U+FFFD (\\ufffd) there"));
}

TEST(JsonRows, ReadsLabels) {
    EXPECT_EQ(ids(R"({"target_ind": [3, 1, 9], "target_rel": [1.0, 1.0, 0.5]})"),
              (std::vector<std::uint32_t>{1, 3, 9}));
    EXPECT_EQ(ids(R"({"target_ind": []})"), std::vector<std::uint32_t>{});
    EXPECT_EQ(ids(R"({"target_ind": [3, 1, 3]})", true), (std::vector<std::uint32_t>{1, 3}));
    EXPECT_EQ(names(R"({"labels": ["a", "b c", 7, -2, "", 18446744073709551615]})"),
              (std::vector<std::string>{"a", "b c", "7", "-2", "18446744073709551615"}));
    EXPECT_EQ(names(R"({"labels": " a ;b c;; d"})"), (std::vector<std::string>{"a", "b c", "d"}));
    EXPECT_EQ(names(R"({"labels": 5})"), std::vector<std::string>{"5"});
}

TEST(JsonRows, ValuesInsideOfListsAreNamesEach) {
    const std::string line =
        R"({"refs": [{"name": "Berlin, Germany"}, {"name": "x"}], "one": {"name": "a,b"}})";
    JsonRows rows;
    std::vector<std::string> out;
    ImportCounts counts;
    rows.label_names({line, 3, "file"}, "refs.name", {.separator = ","}, out, counts);
    EXPECT_EQ(out, (std::vector<std::string>{"Berlin, Germany", "x"}));
    EXPECT_EQ(rows.string_at({line, 3, "file"}, "refs.name"), "");
    rows.label_names({line, 3, "file"}, "one.name", {.separator = ","}, out, counts);
    EXPECT_EQ(out, (std::vector<std::string>{"a", "b"}));
    // No objects, no labels; objects without the key are a slip.
    rows.label_names({R"({"refs": []})", 3, "file"}, "refs.name", {.separator = ","}, out, counts);
    EXPECT_EQ(out, std::vector<std::string>());
    EXPECT_EQ(counts.null_labels, 0);
    EXPECT_THROW(rows.label_names({R"({"refs": [{"x": 1}]})", 3, "file"}, "refs.name", {}, out, counts),
                 DataError);
    EXPECT_TRUE(contains(error([&] {
                             rows.label_names({line, 3, "f"}, "refs.nam", {}, out, counts);
                         }),
                         "(did you mean 'refs.name'?)"));
    EXPECT_TRUE(contains(error([&] { text(line, {"one"}); }), "--text-column one.KEY"));
}

TEST(JsonRows, NamesWhatIsWrong) {
    EXPECT_EQ(error([] { text(R"({"a": 1, "b": 2})", {"title"}); }),
              "file:3: expected the key 'title', found the keys 'a', 'b'; name the key of the texts with "
              "--text-column");
    EXPECT_EQ(error([] { text(R"({"title": 4})", {"title"}); }),
              "file:3: expected a string at 'title', found '4'; write it as a string, or name another key "
              "with --text-column");
    EXPECT_EQ(error([] { text("", {"title"}); }),
              "file:3: expected a JSON object, found an empty line; remove it");
    EXPECT_EQ(
        error([] { text("[1]", {"title"}); }),
        "file:3: expected a JSON object, found '[1]'; write the array's objects one a line, as 'jq -c .[]' "
        "does");
    EXPECT_EQ(error([] { text("1", {"title"}); }), "file:3: expected a JSON object, found '1'");
    EXPECT_TRUE(contains(error([] { text("{'title': 'a'}", {"title"}); }), "; JSON has double quotes"));
    EXPECT_TRUE(
        contains(error([] { text("{\"title\": \"a\"},", {"title"}); }), "; remove the comma at the end"));
    for (const char* item : {"1.5", "true"})
        EXPECT_TRUE(contains(error([&] { names("{\"labels\": [" + std::string(item) + "]}"); }),
                             "'; write each label as a string"));
    for (const char* bad :
         {"{", "{\"title\": \"a\"", "{\"title\": \"a\"} x", "nul", "{\"title\": \"\\ud800\"}"})
        EXPECT_TRUE(contains(error([&] { text(bad, {"title"}); }), "file:3: expected a JSON object, found '"))
            << bad;
    for (const char* bad : {"[10]", "[-1]", "[1.0]", "[\"1\"]", "[null]"})
        EXPECT_TRUE(contains(error([&] { ids(std::string("{\"target_ind\": ") + bad + "}"); }),
                             "file:3: expected label numbers from 0 to 9 at 'target_ind', found '"))
            << bad;
    EXPECT_NE(error([] { ids(R"({"target_ind": [99999999999999999999]})"); }), "");
    EXPECT_TRUE(contains(error([] { ids(R"({"target_ind": 3})"); }), "expected a list of label numbers"));
    EXPECT_TRUE(contains(error([] { ids(R"({"target_ind": [3, 3]})"); }), "expected every label once"));
    for (const char* bad : {"[1.5]", "[[1]]", "{}", "null", "true"})
        EXPECT_NE(error([&] { names(std::string("{\"labels\": ") + bad + "}"); }), "") << bad;
}

TEST(JsonRows, DeepNestingIsRefusedNotFollowed) {
    EXPECT_NE(error([] { text("{\"title\":" + std::string(100000, '['), {"title"}); }), "");
}

}  // namespace
}  // namespace elmo::json_rows_test
