// elmo data: its actions as a user types them, from a CSV to a score, and what each refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"

namespace elmo {
namespace {

using Json = nlohmann::json;

TEST(Data, InspectCountsAndPlans) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const Outcome outcome =
        run_elmo({"data", "inspect", folder.text("data"), "--vocab-size", "100", "--json", "--quiet"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["splits"]["train"]["rows"], 60);
    EXPECT_EQ(json["splits"]["train"]["repeated_texts"], 30) << "30 texts, each twice";
    EXPECT_EQ(json["splits"]["test"]["texts_in_train"], 20);
    EXPECT_EQ(json["labels"], 6);
    EXPECT_EQ(json["histogram"].back()["labels"], 6);
    EXPECT_EQ(json["plan"]["steps_per_epoch"], 1);
    EXPECT_GT(json["plan"]["total_bytes"], 0);
    // One row in five has three labels: ninety in a hundred rows reach up to it, half of them do not.
    const std::string few = folder.write("few.tsv", "a\tx\nb\tx\nc\tx\nd\tx\ne\tx,y,z\n");
    const Json spread = Json::parse(
        run_elmo({"data", "inspect", few, "--test-share", "0", "--vocab-size", "100", "--json", "--quiet"})
            .out)["splits"]["train"]["labels_per_row"];
    EXPECT_EQ(spread["median"], 1) << spread;
    EXPECT_EQ(spread["p90"], 3) << spread;
    // Blanks around a text do not count, as where rows are held out.
    const std::string blanks = folder.write("blanks.csv", "text,labels\nthe cat,x\n the cat ,y\na dog,x\n");
    EXPECT_EQ(Json::parse(run_elmo({"data", "inspect", blanks, "--test-share", "0", "--vocab-size", "100",
                                    "--json", "--quiet"})
                              .out)["splits"]["train"]["repeated_texts"],
              1);
    const Outcome table =
        run_elmo({"data", "inspect", folder.text("data"), "--vocab-size", "100", "--quiet"});
    expect_success(table);
    for (const char* part : {"labels per row", "tokens per row", "with 9-16 rows", "to train"})
        EXPECT_TRUE(contains(table.out, part)) << part << table.out;
}

TEST(Data, ConvertRefusesAFileAsItsFolder) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const std::string file = folder.write("notes.txt", "mine\n");
    for (const bool overwrite : {false, true}) {
        Words words = {"data", "convert", folder.text("data"), "--to", "jsonl", "--out", file};
        if (overwrite) words.push_back("--overwrite");
        expect_failure(run_elmo(words), 2, {"out: expected a folder, found the file", "notes.txt"});
    }
}

TEST(Data, InspectShowsRowsThatHaveLabels) {
    const TempFolder folder;
    std::string rows = "text,labels\n";
    for (int i = 0; i < 20; ++i) rows += "nothing " + std::to_string(i) + ",\n";
    const std::string file = folder.write("late.csv", rows + "the cat,animal\nthe car,thing\n");
    const Outcome shown =
        run_elmo({"data", "inspect", file, "--test-share", "0", "--vocab-size", "100", "--quiet"});
    expect_success(shown);
    for (const char* part :
         {"the cat", "'animal'", "the car", "20 of 22 rows have no labels", "to train --encoder bag"})
        EXPECT_TRUE(contains(shown.out, part)) << part << shown.out;
    EXPECT_FALSE(contains(shown.out, "nothing 0")) << shown.out;
    const std::string none = folder.write("none.csv", "text,labels\n" + std::string("a,x\n"));
    EXPECT_TRUE(contains(
        run_elmo({"data", "inspect", none, "--encoder", "bag", "--test-share", "0", "--vocab-size", "100"})
            .out,
        "to train  "));
}

// Its errors advise them.
TEST(Inspect, TakesTheFlagsThatDataNeeds) {
    const TempFolder folder;
    const std::string file = folder.write("odd.csv", "id;title;tags\n1;the cat;a,a\n2;the dog;b\n");
    const std::vector<std::string> call = {
        "inspect", file, "--text-column", "title", "--label-column", "tags", "--test-share", "0", "--quiet"};
    expect_failure(run_elmo(call), 1, {"odd.csv:2", "--allow-repeated-labels"});
    std::vector<std::string> allowed = call;
    allowed.push_back("--allow-repeated-labels");
    const Outcome outcome = run_elmo(allowed);
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "train rows")) << outcome.out;
}

TEST(Data, FromACsvToAScore) {
    const TempFolder folder;
    write_small_data(folder, "data");
    expect_success(run_elmo(
        {"data", "convert", folder.text("data"), "--to", "csv", "--out", folder.text("csv"), "--quiet"}));
    expect_success(run_elmo(Words{"train", folder.text("csv"), "--out", folder.text("run")} + small_model()));
    const Outcome scored = run_elmo({"eval", folder.text("run"), folder.text("csv"), "--json", "--quiet"});
    expect_success(scored);
    EXPECT_TRUE(contains(scored.out, "P@1")) << scored.out;
}

TEST(Data, ConvertRefusals) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const Words convert = {"data", "convert", folder.text("data")};
    expect_failure(run_elmo(convert + Words{"--out", folder.text("x")}), 2, {"--to"});
    expect_failure(run_elmo(convert + Words{"--to", "xmc"}), 2, {"--out"});
    expect_failure(run_elmo(convert + Words{"--to", "xcm", "--out", folder.text("x")}), 2,
                   {"to: expected", "xcm", "xmc"});
    expect_failure(run_elmo(convert + Words{"--to", "csv", "--out", folder.text("data")}), 2,
                   {"another folder"});
    expect_failure(run_elmo({"data", "convrt", folder.text("data")}), 2, {"convert"});
}

TEST(Data, ConvertSaysWhatItChanged) {
    const TempFolder folder;
    const std::string data = folder.write("rows.jsonl",
                                          "{\"text\": \"a\\nb\", \"labels\": [\"New York\", \"Paris\"]}\n"
                                          "{\"text\": \"a\\tb\", \"labels\": [\"Los Angeles\"]}\n"
                                          "{\"text\": \"a\\r\\nb\", \"labels\": [\"Paris\"]}\n");
    const auto warnings = [&](const std::string& from, const std::string& to) {
        const Outcome outcome = run_elmo({"data", "convert", from, "--to", to, "--out", folder.text(to),
                                          "--overwrite", "--test-share", "0"});
        expect_success(outcome);
        std::string found;
        std::istringstream lines(outcome.err);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with("warning: ")) found += line.substr(9) + "\n";
        return found;
    };
    EXPECT_EQ(
        warnings(data, "fasttext"),
        "3 texts held line ends, tabs, NUL, or blanks beside blanks or at an end, which fasttext cannot "
        "carry: "
        "now single spaces\n"
        "2 label names held blanks, which fasttext cannot carry: each is now '_', as in 'Los_Angeles'\n");
    EXPECT_EQ(warnings(data, "tsv"), "3 texts held line ends or tabs, which tsv cannot carry: now spaces\n");
    EXPECT_EQ(warnings(data, "csv"), "1 text held carriage returns, which csv cannot carry: now spaces\n");
    EXPECT_EQ(warnings(data, "jsonl"), "");
    folder.write("lines/trn.json", "{\"uid\": \"0\", \"title\": \"a\", \"target_ind\": [0]}\n");
    folder.write("lines/lbl.json", "{\"uid\": \"0\", \"title\": \"one\\nline\"}\n");
    EXPECT_EQ(warnings(folder.text("lines"), "xmc"),
              "1 label name held line ends, which xmc cannot carry: each is now ' ', as in 'one line'\n");
    const std::string clash = folder.write("clash.csv", "text,labels\na,\"New York,New_York\"\n");
    expect_failure(
        run_elmo({"data", "convert", clash, "--to", "fasttext", "--out", folder.text("c")}), 1,
        {"labels 'New York' and 'New_York' would both be 'New_York' in fasttext, which has no blanks in "
         "names: rename one, or write csv or jsonl"});
}

TEST(Data, FilterAndPaper2Keywords) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const Outcome filters =
        run_elmo({"data", "filter", folder.text("data"), "--out", folder.text("f"), "--json"});
    expect_success(filters);
    EXPECT_EQ(Json::parse(filters.out)["train_pairs"], 0);
    expect_failure(
        run_elmo({"data", "filter", folder.text("data"), "--out", folder.text("f"), "--filters", "x"}), 2,
        {"--filters", "reciprocal"});
    std::string dump = "[";
    for (int i = 0; i < 40; ++i)
        dump += (i > 0 ? ",\n" : "\n") + std::string("{\"id\": ") + std::to_string(i) +
                ", \"title\": \"paper " + std::to_string(i) + "\", \"keywords\": [\"Common\", \"k" +
                std::to_string(i) + "\"]}";
    folder.write("dump.json", dump + "\n]\n");
    const Outcome made = run_elmo(
        {"data", "paper2keywords", folder.text("dump.json"), "--out", folder.text("p2k"), "--quiet"});
    expect_success(made);
    for (const char* part : {"2,020,621", "8,623,847", "9.03", "papers in the dump"})
        EXPECT_TRUE(contains(made.out, part)) << part << made.out;
    expect_success(run_elmo({"data", "inspect", folder.text("p2k"), "--vocab-size", "100", "--quiet"}));
    expect_failure(run_elmo({"data", "paper2keywords", folder.text("none.json"), "--out", folder.text("q")}),
                   1, {"none.json"});
    folder.write("cut.json", dump.substr(0, 100));
    expect_failure(run_elmo({"data", "paper2keywords", folder.text("cut.json"), "--out", folder.text("q")}),
                   1, {"cut.json", "truncated"});
}

TEST(Data, RecipesByName) {
    const TempFolder folder;
    write_small_data(folder, "data");
    // The encoder is searched by name; if absent, the error explains how to get it.
    expect_failure(run_shell("HF_HUB_CACHE=$0 $ELMO train --recipe lf-amazontitles-131k --data $0/data --out "
                             "$0/run --quiet",
                             folder.path()),
                   2,
                   {"sentence-transformers/msmarco-distilbert-base-v4",
                    "run: hf download sentence-transformers/msmarco-distilbert-base-v4"});
    expect_failure(run_elmo({"train", "--recipe", "lf-amazontitles-131", "--data", folder.text("data"),
                             "--out", folder.text("run")}),
                   1, {"lf-amazontitles-131k"});
    const Outcome trained =
        run_elmo(Words{"train", "--recipe", "lf-amazontitles-131k", "--data", folder.text("data"), "--out",
                       folder.text("run"), "--encoder", "bag"} +
                 small_model());
    expect_success(trained);
}

}  // namespace
}  // namespace elmo
