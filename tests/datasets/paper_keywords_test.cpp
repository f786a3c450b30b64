// LF-Paper2Keywords from generated dumps, sound and broken.
#include <gtest/gtest.h>

#include <set>

#include "data/test_folder.h"
#include "data/test_zip.h"
#include "elmo/data.h"
#include "quiet.h"

namespace elmo {
namespace {

using testing_data::contains;

class PaperKeywordsTest : public testing_data::TestFolder {
  protected:
    PaperKeywords make(const std::string& dump, const std::string& out = "out") {
        Config options;
        options.out = (folder_ / out).string();
        return make_paper2keywords(quiet(), (folder_ / dump).string(), options);
    }
    std::string error(const std::string& bytes) {
        write("bad.json", bytes);
        const std::string says = message([&] { make("bad.json", "bad"); });
        EXPECT_FALSE(std::filesystem::exists(folder_ / "bad")) << says;
        return says;
    }
    // The dump's schema, with what the real one has besides.
    static std::string paper(int i) {
        return "{\"id\": \"53e99784b7602d9701f3e" + std::to_string(i) + "\", \"title\": \"Title  number " +
               std::to_string(i) +
               "\", \"authors\": [{\"id\": \"x\", \"name\": \"A. \\\"B\\\" {C}\", \"org\": \"]\"}], "
               "\"venue\": "
               "{\"raw\": \"V\"}, \"year\": 2009, \"keywords\": [\"Common\", \"common \", \"k" +
               std::to_string(i) + "\", \"K" + std::to_string(i % 50) +
               "\", \"\"], \"n_citation\": 3, \"abstract\": \"Abstract\\nof " + std::to_string(i) +
               ".\", \"references\": [\"53e9\"]}";
    }
    static std::string dump(int papers) {
        std::string all = "[\n";
        for (int i = 0; i < papers; ++i) all += paper(i) + (i + 1 < papers ? ",\n" : "\n");
        return all + "]\n";
    }
};

TEST_F(PaperKeywordsTest, RowsLabelsAndSplit) {
    write("dump.json", dump(5000));
    const PaperKeywords made = make("dump.json");
    EXPECT_EQ(made.papers, 5000);
    EXPECT_EQ(made.train_rows + made.test_rows, 5000);
    // Binomial(5000, 1/2): standard deviation 35; six of them.
    EXPECT_NEAR(static_cast<double>(made.test_rows), 2500, 212);
    const Dataset data = Dataset::open_labels(quiet(), config("out"));
    EXPECT_EQ(data.train().rows(), made.train_rows);
    EXPECT_EQ(data.num_labels(), made.labels);
    // "common" is in every row; k<i> of the training rows; k0 ... k49 surely among them.
    EXPECT_EQ(data.label_name(0), "common");
    EXPECT_EQ(data.label_counts()[0], made.train_rows);
    std::set<std::string> names;
    for (std::int64_t label = 0; label < data.num_labels(); ++label) names.emplace(data.label_name(label));
    EXPECT_EQ(static_cast<std::int64_t>(names.size()), made.labels);
    EXPECT_TRUE(names.count("k49"));
    // Distinct names: common and k0 ... k4999; each is in training or counted as unseen.
    EXPECT_EQ(made.labels + made.labels_unseen_in_train, 5001);
    const std::string texts = read(folder_ / "out/trn_X.txt");
    EXPECT_TRUE(texts.starts_with("Title number ")) << texts.substr(0, 40);
    EXPECT_TRUE(contains(texts, " Abstract of "));
    EXPECT_NEAR(made.labels_per_row, 3 - 50.0 / 5000, 0.02);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out/trn.ids"));
}

TEST_F(PaperKeywordsTest, PackedDumpsAreTheSame) {
    const std::string bytes = dump(3000);
    write("dump.json", bytes);
    write_gz("dump.json.gz", bytes);
    for (const bool deflated : {false, true}) {
        testing_data::TestZip zip;
        zip.add("readme.txt", "not this", deflated);
        zip.add("folder/dump.json", bytes, deflated);
        write(deflated ? "deflated.zip" : "stored.zip", zip.finish());
    }
    make("dump.json", "plain");
    for (const char* packed : {"dump.json.gz", "stored.zip", "deflated.zip"}) {
        make(packed, packed + std::string(".out"));
        for (const char* file : {"trn_X.txt", "tst_X.txt", "trn_X_Y.txt", "tst_X_Y.txt", "Y.txt"})
            EXPECT_EQ(read(folder_ / (packed + std::string(".out")) / file), read(folder_ / "plain" / file))
                << packed << " " << file;
    }
}

TEST_F(PaperKeywordsTest, WhatIsLeftOut) {
    write(
        "dump.json",
        "[{\"id\":\"1\",\"title\":\"t\",\"keywords\":[\"a\"]},"
        "{\"id\":\"1\",\"title\":\"t\",\"keywords\":[\"a\"]},"
        "{\"id\":\"2\",\"title\":\" \",\"abstract\":\"x\",\"keywords\":[\"a\"]},"
        "{\"id\":\"3\",\"title\":\"t\"},{\"id\":\"4\",\"title\":\"t\",\"keywords\":null},"
        "{\"id\":\"5\",\"title\":null,\"keywords\":[\"a\"]},{\"id\":\"6\",\"title\":\"t\",\"keywords\":[\" "
        "-- "
        "\"]},{\"id\":7,\"title\":\"NumberInt(1)\",\"year\":NumberInt(2009),\"keywords\":[\"C++\",\"f(x)\"]},"
        "{\"id\":\"8\",\"title\":\"u\",\"keywords\":[\"b\", null]},"
        "{\"id\":\"9\",\"title\":\"v\",\"keywords\":[\"b.\", \"\\u00c9TUDE\"]},"
        "{\"id\":\"10\",\"title\":\"w\",\"keywords\":[\"b\"]},{\"id\":\"11\",\"title\":\"w\",\"keywords\":["
        "\"b\"]}]");
    const PaperKeywords made = make("dump.json");
    EXPECT_EQ(made.papers, 12);
    EXPECT_EQ(made.repeated, 1);
    EXPECT_EQ(made.without_text, 2);
    EXPECT_EQ(made.without_keywords, 3);
    EXPECT_EQ(made.train_rows + made.test_rows, 6);
    const std::string both = read(folder_ / "out/trn_X.txt") + read(folder_ / "out/tst_X.txt");
    EXPECT_TRUE(contains(both, "NumberInt(1)\n")) << "strings stay";
}

TEST_F(PaperKeywordsTest, BrokenDumpsAreNamed) {
    const std::string good = dump(3);
    EXPECT_TRUE(contains(error(""), "element 0, byte 0: expected a JSON array '['"));
    EXPECT_TRUE(contains(error("{\"a\":1}"), "expected a JSON array '['"));
    EXPECT_TRUE(contains(error("[]"), "expected papers with a title and keywords, found none among 0"));
    EXPECT_TRUE(contains(error("[1]"), "element 0, byte 1: expected an object, found '1]'"));
    EXPECT_TRUE(
        contains(error("[" + paper(0) + " " + paper(1) + "]"), "expected ',' or ']' after an element"));
    EXPECT_TRUE(contains(error("[" + paper(0) + ",]"), "element 1, byte"));
    EXPECT_TRUE(contains(error(good + "x"), "nothing after the array"));
    EXPECT_TRUE(contains(error("[{\"title\": \"a\", \"keywords\": [\"b\"}]"), "element 0"));
    EXPECT_TRUE(contains(error("[{\"title\": 5}]"), "element 0: expected a string at 'title', found 5"));
    EXPECT_TRUE(
        contains(error("[{\"title\": \"a\", \"keywords\": \"b\"}]"), "expected a list at 'keywords'"));
    EXPECT_TRUE(
        contains(error("[" + paper(0) + ",{\"title\": \"\xff\"}]"), "element 1: expected a JSON object"));
    for (std::size_t cut = 1; cut + 2 < good.size(); cut += 11)
        EXPECT_NE(error(good.substr(0, cut)), "") << cut;
    testing_data::TestZip zip;
    zip.add("other.txt", "x", false);
    EXPECT_TRUE(contains(error(zip.finish()), "expected a .json in the archive"));
    EXPECT_TRUE(contains(message([&] { make("absent.json"); }), "no such file"));
}

}  // namespace
}  // namespace elmo
