// Reading what people have, as they type it: what is said, what a run keeps of it, standard input, and what
// data inspect shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"

namespace elmo {
namespace {

using Json = nlohmann::json;

Words quick() {
    return {"--epochs",     "1",  "--vocab-size", "100", "--width", "16",
            "--batch-size", "16", "--validation", "0"};
}

// Forty rows whose labels stand between `separator`, after a word each.
std::string rows_with(const std::string& header, const std::string& separator) {
    const char* words[] = {"red", "green", "blue"};
    std::string text = header;
    for (int i = 0; i < 40; ++i) {
        const std::string one = words[i % 3], other = words[(i + 1 + i % 2) % 3];
        text += "text " + std::to_string(i) + " " + one + " " + other + "," + one + separator + other + "\n";
    }
    return text;
}

TEST(Reading, ARunKeepsWhatWasDetected) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("Text,Tags\n", ";"));
    const Outcome trained = run_elmo(Words{"train", data, "--out", folder.text("run")} + quick());
    expect_success(trained);
    const std::string line =
        "rows.csv: read with --text-column Text --label-column Tags --label-separator ';', as its "
        "first rows show";
    const std::size_t at = trained.err.find(line);
    ASSERT_NE(at, std::string::npos) << trained.err;
    EXPECT_EQ(trained.err.find(line, at + 1), std::string::npos) << "once";
    std::ifstream recipe(folder.path("run/best/recipe.toml"));
    const std::string text{std::istreambuf_iterator<char>(recipe), std::istreambuf_iterator<char>()};
    EXPECT_TRUE(contains(text, "label_separator = \";\"")) << text;
    // A file too small to tell by itself is read as the run was.
    const std::string few = folder.write("few.csv", "Text,Tags\ntext red blue,red;blue\n");
    const Outcome scored =
        run_elmo({"eval", folder.text("run"), few, "--split", "train", "--json", "--quiet"});
    expect_success(scored);
    expect_success(run_elmo({"predict", folder.text("run"), few, "--quiet"}));
    expect_success(run_elmo({"train", "--out", folder.text("run"), "--resume", "--quiet"}));
}

TEST(Reading, WhatSeparatesColumnsIsSaidOnceWithTheRest) {
    const TempFolder folder;
    std::string rows = rows_with("Text,Tags\n", "|");
    std::replace(rows.begin(), rows.end(), ',', ';');
    const std::string data = folder.write("rows.csv", rows);
    const std::string few = folder.write("few.csv", rows.substr(0, rows.find("text 9 ")));
    const Words verbs[] = {{"train", data, "--out", folder.text("run"), "--validation", "0"},
                           {"plan", data},
                           {"data", "inspect", data}};
    for (const Words& verb : verbs) {
        const Outcome outcome = run_elmo(verb);
        expect_success(outcome);
        const std::size_t at = outcome.err.find("read with");
        ASSERT_NE(at, std::string::npos) << outcome.err;
        EXPECT_EQ(outcome.err.find("read with", at + 1), std::string::npos) << outcome.err;
        for (const char* flag : {"--text-column Text", "--delimiter ';'", "--label-separator '|'"})
            EXPECT_TRUE(contains(outcome.err, flag)) << outcome.err;
    }
    // Most of its rows trained the run: it is opened again, for those that did not.
    const Outcome scored = run_elmo({"eval", folder.text("run"), few});
    expect_success(scored);
    const std::size_t at = scored.err.find("read with --delimiter ';'");
    ASSERT_NE(at, std::string::npos) << scored.err;
    EXPECT_EQ(scored.err.find("read with", at + 1), std::string::npos) << scored.err;
}

TEST(Reading, StandardInputIsADataSet) {
    const TempFolder folder;
    const std::string rows = rows_with("text,labels\n", ";");
    const Words train = Words{"train", "-", "--cache", folder.text("cache"), "--out"};
    const Outcome trained = run_elmo(train + Words{folder.text("run")} + quick(), rows);
    expect_success(trained);
    EXPECT_TRUE(contains(trained.err, "standard input: kept as ")) << trained.err;
    expect_success(run_elmo(train + Words{folder.text("again")} + quick(), rows));
    int kept = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("cache")))
        kept += contains(entry.path().filename().string(), "stdin-");
    EXPECT_EQ(kept, 1) << "the same input is the same file";
    expect_success(run_elmo({"eval", folder.text("run"), "--quiet"}));
    expect_failure(run_elmo(train + Words{folder.text("none")} + quick(), ""), 1,
                   {"standard input: expected a data set, found nothing"});
    expect_success(run_elmo({"data", "inspect", "-", "--cache", folder.text("cache"), "--quiet"}, rows));
}

TEST(Reading, InspectShowsRowsLabelsAndLikelyMistakes) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";"));
    const Words inspect = {"data", "inspect", data, "--test-share", "0", "--vocab-size", "100", "--quiet"};
    const Outcome good = run_elmo(inspect);
    expect_success(good);
    EXPECT_TRUE(contains(good.out, "text 0 red green")) << good.out;
    EXPECT_TRUE(contains(good.out, "'green', 'red'")) << good.out;
    EXPECT_TRUE(contains(good.out, "commonest (rows)")) << good.out;
    EXPECT_FALSE(contains(good.out, "likely mistake")) << good.out;
    const Outcome bad = run_elmo(inspect + Words{"--label-separator", ","});
    EXPECT_TRUE(contains(bad.out, "likely mistake")) << bad.out;
    EXPECT_TRUE(contains(bad.out, "give --label-separator ';'")) << bad.out;
    const Json json = Json::parse(run_elmo(inspect + Words{"--json"}).out);
    EXPECT_EQ(json["samples"].size(), 3U);
    EXPECT_EQ(json["samples"][0]["labels"], Json({"green", "red"}));
    EXPECT_EQ(json["commonest_labels"].size(), 3U);
    EXPECT_EQ(json["doubts"], Json::array());
}

TEST(Reading, PredictTakesOtherDelimitersAndRefusesForeignFiles) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";"));
    expect_success(run_elmo(Words{"train", data, "--out", folder.text("run")} + quick()));
    const std::string semicolons = folder.write("new.csv", "id;text\n1;red, and green\n");
    const Outcome answered = run_elmo({"predict", folder.text("run"), semicolons, "--quiet"});
    expect_success(answered);
    const std::string parquet = folder.write("new.parquet", std::string("PAR1\x15\0\x15 bytes", 12));
    expect_failure(run_elmo({"predict", folder.text("run"), parquet, "--quiet"}), 1,
                   {"new.parquet", "found Parquet", "python3 -c"});
}

TEST(Reading, APlanTakesTheFlagsThatItsErrorsAdvise) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";") + "one more,a;a\n");
    expect_failure(run_elmo({"plan", data, "--quiet"}), 1, {"rows.csv", "--allow-repeated-labels"});
    expect_success(run_elmo({"plan", data, "--quiet", "--allow-repeated-labels", "--allow-null-labels",
                             "--allow-stray-quotes", "--allow-invalid-utf8"}));
}

TEST(Reading, CachesAreListedAndCleared) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";"));
    expect_success(run_elmo({"data", data, "--vocab-size", "100", "--quiet"}));
    folder.write(".elmo-cache/mine.txt", "not elmo's");
    const Json list = Json::parse(run_elmo({"cache", "list", data, "--json"}).out);
    ASSERT_EQ(list["caches"].size(), 1U) << list;
    EXPECT_GE(list["files"], 5);
    expect_success(run_elmo({"cache", "list", folder.text()}));
    const Json removed = Json::parse(run_elmo({"cache", "clear", data, "--json"}).out);
    EXPECT_EQ(removed, list);
    EXPECT_EQ(Json::parse(run_elmo({"cache", "list", data, "--json"}).out)["files"], 0);
    folder.write(".elmo-cache/0123456789abcdef.train.labels", "");
    const Outcome one = run_elmo({"cache", "list", data});
    EXPECT_TRUE(contains(one.out, " 1 file ") && !contains(one.out, "1 files")) << one.out;
    EXPECT_TRUE(std::filesystem::exists(folder.path(".elmo-cache/mine.txt"))) << "only its own files";
    EXPECT_TRUE(std::filesystem::exists(data));
    expect_failure(run_elmo({"cache", "wipe"}), 2, {"expected list or clear, found 'wipe'"});
    expect_failure(run_elmo({"cache", "list", folder.text("gone")}), 1, {"gone: expected a data set"});
}

TEST(Reading, LabelsAreListed) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";"));
    expect_success(
        run_elmo(Words{"train", data, "--out", folder.text("run"), "--test-share", "0"} + quick()));
    const Outcome listed = run_elmo({"labels", "list", folder.text("run")});
    expect_success(listed);
    EXPECT_TRUE(contains(listed.out, "0\t")) << listed.out;
    EXPECT_TRUE(contains(listed.out, "\tgreen\n")) << listed.out;
    const Json json = Json::parse(run_elmo({"labels", "list", folder.text("run"), "--json"}).out);
    ASSERT_EQ(json["labels"].size(), 3U);
    EXPECT_EQ(json["labels"][0]["name"], "blue");
    EXPECT_GT(json["labels"][0]["rows"], 0);
}

// Before the data is read: here it is broken, and is not what is complained about.
TEST(Reading, WhatCannotWorkIsSaidBeforeTheImport) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", "no header\n");
    expect_failure(run_elmo({"train", data, "--out", "/proc/x/run", "--quiet"}), 1,
                   {"/proc/x/run: cannot be created"});
    const Outcome outcome = run_elmo({"train", data, "--out", folder.text("a/b"), "--quiet"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_FALSE(std::filesystem::exists(folder.path("a"))) << "nothing is left behind";
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // no GPU, in a build with CUDA
    for (const char* verb : {"train", "tune"})
        expect_failure(run_elmo({verb, data, "--out", folder.text("b"), "--device", "cuda", "--quiet"}), 1,
                       {"device"});
    const std::string good = folder.write("good.csv", rows_with("text,labels\n", ";"));
    expect_success(run_elmo(Words{"train", good, "--out", folder.text("run")} + quick()));
    expect_failure(run_elmo({"eval", folder.text("run"), data, "--device", "cuda", "--quiet"}), 1,
                   {"device"});
    expect_failure(run_elmo({"refine", folder.text("run"), data, "--out", folder.text("b"), "--device",
                             "cuda", "--quiet"}),
                   1, {"device"});
    ::unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace elmo
