// Reading what people have, as they type it: what is said, what a run keeps of it, standard input, and what
// data inspect shows.
#include <fmt/format.h>
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

TEST(Reading, OneColumnForTextsAndLabelsIsRefused) {
    const TempFolder folder;
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += fmt::format("{{\"text\": \"row {}\", \"tags\": [\"a\"]}}\n", i);
    const std::string csv = folder.write("rows.csv", rows_with("text,tags\n", ";")),
                      jsonl = folder.write("rows.jsonl", lines);
    for (const std::string& data : {csv, jsonl})
        for (const auto& [text, labels] :
             {std::pair("text", "text"), {"tags", "tags"}, {"text+tags", "tags"}})
            for (const Words& verb :
                 {Words{"train", data, "--out", folder.text("run")}, {"data", "inspect", data}})
                expect_failure(
                    run_elmo(verb + Words{"--text-column", text, "--label-column", labels}), 2,
                    {fmt::format("label_column: expected another column than those of --text-column, "
                                 "found '{}' in both; name the column of the labels",
                                 labels)});
}

// What was detected in the training file is no answer for the files beside it.
TEST(Reading, TrainingReadsEachFileWithItsOwnSeparator) {
    const TempFolder folder;
    const auto as_lists = [](std::string text) {
        for (std::size_t at = 0; (at = text.find('|', at)) != text.npos;) text.replace(at, 1, "', '");
        std::string out = "text,labels\n";
        for (std::size_t at = text.find('\n') + 1, end; at < text.size(); at = end + 1) {
            end = text.find('\n', at);
            const std::size_t comma = text.find(',', at);
            out += text.substr(at, comma - at) + ",\"['" + text.substr(comma + 1, end - comma - 1) + "']\"\n";
        }
        return out;
    };
    const std::string bars = rows_with("text,labels\n", "|"), lists = as_lists(bars);
    const std::string data = folder.write("rows.csv", bars);
    const Words linear = {"--test-share", "0", "--encoder", "linear"};
    for (const auto& [name, text] :
         {std::pair{"lists", lists}, std::pair{"semicolons", rows_with("text,labels\n", ";")}}) {
        const std::string validation = folder.write(std::string(name) + ".csv", text),
                          run = folder.text(name);
        const Outcome trained =
            run_elmo(Words{"train", data, "--out", run, "--validation", validation} + linear);
        expect_success(trained);
        EXPECT_FALSE(contains(trained.err, "never")) << trained.err;
        EXPECT_TRUE(contains(trained.err, std::string(name) + ".csv: read with --label-separator"))
            << trained.err;
        // One that is given holds for all.
        const Outcome given = run_elmo(Words{"train", data, "--out", folder.text("given"), "--overwrite",
                                             "--validation", validation, "--label-separator", "|"} +
                                       linear);
        expect_success(given);
        EXPECT_TRUE(contains(given.err, "never seen in training")) << given.err;
    }
    folder.write("pair/train.csv", lists);
    folder.write("pair/test.csv", bars);
    const std::string run = folder.text("pair_run");
    const Outcome trained = run_elmo(Words{"train", folder.text("pair"), "--out", run, "--steps", "4",
                                           "--validation", folder.write("valid.csv", bars)} +
                                     Words{"--vocab-size", "100", "--width", "16", "--batch-size", "16"});
    expect_success(trained);
    EXPECT_TRUE(contains(trained.err, "test.csv: read with --label-separator '|'")) << trained.err;
    // So does the run when it is continued.
    const Outcome resumed = run_elmo({"train", "--out", run, "--resume"});
    expect_success(resumed);
    EXPECT_TRUE(contains(resumed.err, "test.csv: read with --label-separator '|'")) << resumed.err;
}

TEST(Reading, ExplainShowsTheDelimiterThatWasDetected) {
    const TempFolder folder;
    std::string rows = rows_with("text,labels\n", "|");
    std::replace(rows.begin(), rows.end(), ',', ';');
    const Outcome shown = run_elmo({"train", folder.write("rows.csv", rows), "--encoder", "linear", "--out",
                                    folder.text("x"), "--explain"});
    expect_success(shown);
    const std::size_t at = shown.out.find("\ndelimiter ");
    ASSERT_NE(at, std::string::npos) << shown.out;
    EXPECT_TRUE(contains(shown.out.substr(at, shown.out.find('\n', at + 1) - at),
                         "';' was found in the first rows of the data"))
        << shown.out;
}

// Texts of which the run's tokenizer knows nothing are alike to it, but not the same.
TEST(Reading, TextsOfUnknownTokensAreSaidAndAreNoTrainedTexts) {
    const TempFolder folder;
    std::string west = rows_with("text,labels\n", ";"), old = "text,labels\n", fresh = old;
    for (int i = 0; i < 20; ++i) {
        (i % 2 ? old : fresh) +=
            std::string(1 + i / 4, ' ') + "\u65e5\u672c\u8a9e" + (i % 4 < 2 ? ",red\n" : ",blue\n");
        west += "\u00fc,red;blue\n";
    }
    const std::string run = folder.text("west");
    expect_success(
        run_elmo(Words{"train", folder.write("west.csv", west), "--out", run, "--encoder", "bag"} + quick()));
    const std::string line = "that the tokenizer does not know: different ones look alike";
    const Outcome on =
        run_elmo(Words{"train", folder.write("old.csv", old), "--init", run, "--out", folder.text("ja"),
                       "--test-share", "0", "--validation", "0", "--epochs", "1"});
    expect_success(on);
    EXPECT_TRUE(contains(on.err, "old.csv: 10 of 10 texts consist mostly of tokens " + line)) << on.err;
    const Outcome scored = run_elmo({"eval", folder.text("ja"), folder.write("fresh.csv", fresh)});
    expect_success(scored);
    EXPECT_TRUE(contains(scored.err, line)) << scored.err;
    EXPECT_FALSE(contains(scored.err, "trained this run")) << scored.err;
    const Outcome answered = run_elmo({"predict", run, "--text", "\u65e5\u672c"});
    expect_success(answered);
    EXPECT_TRUE(contains(answered.err, "some texts consist mostly of tokens " + line)) << answered.err;
    const Outcome known = run_elmo({"predict", run, "--text", "text 3 red"});
    EXPECT_FALSE(contains(known.err, line)) << known.err;
}

TEST(Reading, NewLabelsWhoseTextsAreUnknownAreNamed) {
    const TempFolder folder;
    const std::string run = folder.text("west"),
                      west = folder.write("west.csv", rows_with("text,labels\n", ";"));
    expect_success(run_elmo(Words{"train", west, "--out", run, "--encoder", "bag"} + quick()));
    const Outcome added =
        run_elmo({"labels", "add", run, folder.write("new.txt", " ja \t\u65e5\nth\t\u0e20\nred text \n"),
                  "--out", folder.text("plus")});
    expect_success(added);
    const Outcome listed = run_elmo({"labels", "list", folder.text("plus")});
    EXPECT_TRUE(contains(listed.out, "\tja\n") && contains(listed.out, "\tred text\n")) << listed.out;
    EXPECT_TRUE(
        contains(added.err,
                 "the run's tokenizer knows little of the texts of 2 new labels ('ja', 'th'), whose rows may "
                 "be the same: give texts that have these labels (--data)"))
        << added.err;
    // Texts with their labels are no list of names.
    for (const auto& [name, rows] :
         {std::pair("few.csv", "text,labels\nan elvish letter,Elvish\n"),
          std::pair("few.txt", "__label__Elvish an elvish letter\n"),
          std::pair("rows.txt", "{\"text\": \"a letter\", \"labels\": [\"b\"]}\n")})
        expect_failure(run_elmo({"labels", "add", run, folder.write(name, rows), "--out", folder.text("no")}),
                       1, {"expected a new label per line", "as --data ", name});
}

// The run knows its columns: rows of such a table on a pipe are no texts.
TEST(Reading, ATableWithoutAHeaderOnStandardInput) {
    const TempFolder folder;
    for (const std::string delimiter : {"\t", ",", "|"}) {
        std::string rows;
        for (int i = 0; i < 40; ++i)
            rows += std::to_string(i) + delimiter + (i % 2 ? "text of red" : "text of blue") + delimiter +
                    (i % 2 ? "red\n" : "blue\n");
        const std::string data = folder.write("rows.csv", rows),
                          run = folder.text(delimiter == ","   ? "commas"
                                            : delimiter == "|" ? "bars"
                                                               : "tabs");
        expect_success(run_elmo(Words{"train", data, "--columns", "id,text,labels", "--out", run} + quick()));
        const Outcome outcome = run_elmo({"predict", run}, rows);
        if (delimiter == "\t") {
            expect_failure(
                outcome, 1,
                {"standard input:1: expected lines of text, or JSON lines, found a row of a table with the "
                 "run's columns (id, text, labels)",
                 "save it and name the file, or give --input text"});
        } else {
            expect_success(outcome);
            EXPECT_TRUE(
                contains(outcome.err, "its first line may be a row of a table with the run's columns"))
                << outcome.err;
        }
        expect_success(run_elmo({"predict", run, "--input", "text"}, rows));
        EXPECT_FALSE(contains(run_elmo({"predict", run}, "text of red\n").err, "columns"));
    }
}

TEST(Reading, ValidationRowsThatAlsoTrainAreSaid) {
    const TempFolder folder;
    const std::string rows = rows_with("text,labels\n", ";"), data = folder.write("rows.csv", rows);
    const std::string line = "of 40 validation texts are training texts too";
    const Outcome same =
        run_elmo({"train", data, "--validation", folder.write("same.csv", rows), "--out", folder.text("a")});
    expect_success(same);
    EXPECT_TRUE(contains(same.err, line)) << same.err;
    std::string others = rows;
    for (std::size_t at = 0; (at = others.find("text ", at)) != std::string::npos; at += 5) others[at] = 'n';
    const Outcome other = run_elmo({"train", data, "--validation", folder.write("other.csv", others), "--out",
                                    folder.text("b"), "--text-column", "text"});
    EXPECT_FALSE(contains(other.err, "training texts too")) << other.err;
    const Outcome one = run_elmo({"train", folder.write("one.csv", "text,labels\nred,a\n"), "--test-share",
                                  "0", "--validation", "0", "--out", folder.text("c")});
    EXPECT_TRUE(contains(one.err, "learning a vocabulary 1 text,")) << one.err;
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
    const auto refuses_cuda = [](const Words& call) {
        const Outcome without_gpu = run_elmo(call + Words{"--device", "cuda", "--quiet"});
        // Of a build without CUDA it is an option with a wrong value.
        expect_failure(without_gpu, contains(without_gpu.err, "libelmo_cuda.so is not in") ? 2 : 1,
                       {"device"});
    };
    refuses_cuda({"train", data, "--out", folder.text("b")});
    refuses_cuda({"tune", data, "--out", folder.text("b")});
    const std::string good = folder.write("good.csv", rows_with("text,labels\n", ";"));
    expect_success(run_elmo(Words{"train", good, "--out", folder.text("run")} + quick()));
    refuses_cuda({"eval", folder.text("run"), data});
    refuses_cuda({"refine", folder.text("run"), data, "--out", folder.text("b")});
    ::unsetenv("CUDA_VISIBLE_DEVICES");
}

// All that a run keeps of how its data is read, not the columns alone.
TEST(Reading, NewLabelsAreReadAsTheRunsDataWas) {
    const TempFolder folder;
    const auto row = [](int i, const std::string& tags) {
        return std::to_string(i) + "~number " + std::to_string(i) + " \"is\" of " + tags + "~" + tags + "\n";
    };
    std::string rows, few;
    for (int i = 0; i < 40; ++i) rows += row(i, i % 2 == 0 ? "red" : "green,green");
    for (int i = 0; i < 8; ++i) few += row(100 + i, i % 2 == 0 ? "violet,violet" : "red");
    const std::string data = folder.write("rows.csv", rows), new_data = folder.write("few.csv", few);
    const Words reading = {"--columns",
                           "id,words,tags",
                           "--text-column",
                           "words",
                           "--label-column",
                           "tags",
                           "--delimiter",
                           "~",
                           "--quotes",
                           "none",
                           "--allow-repeated-labels"};
    expect_success(
        run_elmo(Words{"train", data, "--out", folder.text("run"), "--test-share", "0"} + reading + quick()));
    expect_success(run_elmo({"labels", "add", folder.text("run"), "--data", new_data, "--steps", "2", "--out",
                             folder.text("more"), "--quiet"}));
    const Outcome listed = run_elmo({"labels", "list", folder.text("more")});
    EXPECT_EQ(listed.out, "0\t20\tgreen\n1\t20\tred\n2\t4\tviolet\n");
}

TEST(Reading, WhatIsWrongWithNewLabelsIsSaidWithWhatToDo) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";")),
                      run = folder.text("run");
    expect_success(run_elmo(Words{"train", data, "--out", run} + quick()));
    const auto add = [&](const std::string& names) {
        return run_elmo(
            {"labels", "add", run, folder.write("new.txt", names), "--out", folder.text("more"), "--quiet"});
    };
    expect_failure(add("violet\nred\n"), 1,
                   {"new.txt:2: expected labels that the run does not have, found 'red'; remove the line"});
    expect_failure(add("violet\nviolet\n"), 1,
                   {"new.txt:2: expected every new label once, found 'violet'; remove the line"});
    const std::string other = folder.write("other.csv", "text,labels\na,x\nb,y\nc,x\nd,y\ne,x\n");
    expect_failure(run_elmo({"refine", run, other, "--out", folder.text("refined"), "--quiet"}), 1,
                   {"; give data with exactly the labels of the run"});
}

// Of data that mostly trained the run an index takes what was held out, and says with which flag it takes
// all.
TEST(Reading, AnIndexTakesTheRowsThatAreAskedFor) {
    const TempFolder folder;
    std::string rows;
    for (int i = 0; i < 300; ++i)
        rows += "number " + std::to_string(i) + (i % 2 == 0 ? " is red,red\n" : " is green,green\n");
    const std::string data = folder.write("rows.csv", "text,labels\n" + rows),
                      other = folder.write("other.csv", "text,labels\nsomething new,red\n" + rows),
                      run = folder.text("run");
    expect_success(run_elmo(Words{"train", data, "--out", run} + quick()));
    const Outcome held_out = run_elmo({"index", run, other});
    EXPECT_EQ(held_out.status, 1);
    EXPECT_TRUE(contains(held_out.err, "(--split all")) << held_out.err;
    const Outcome all = run_elmo({"index", run, other, "--split", "all", "--json"});
    expect_success(all);
    EXPECT_EQ(Json::parse(all.out)["texts"], 75);  // a quarter of all
}

TEST(Reading, AFieldTooManyIsSaidWithWhatToDo) {
    const TempFolder folder;
    std::string rows = "text\tlang\tlabels\n";
    for (int i = 0; i < 30; ++i) rows += "text " + std::to_string(i) + "\ten\tred\n";
    const std::string data = folder.write("rows.tsv", rows + "a text\twith a tab\ten\tred\n");
    expect_failure(
        run_elmo({"train", data, "--out", folder.text("run"), "--quiet"}), 1,
        {"rows.tsv:32: expected 3 fields, as the header has, found 4 fields",
         "; write a tab inside a field as a blank, or put such fields in quotes with --quotes double"});
}

TEST(Reading, ATextOfSeveralPartsIsJoined) {
    const TempFolder folder;
    std::string lists, words;
    for (int i = 0; i < 40; ++i) {
        const std::string name = i % 2 == 0 ? "red" : "green", n = std::to_string(i);
        lists += R"({"parts": ["number )" + n + R"(", "", "is )" + name +
                 R"("], "refs": [{"t": "a"}, {"t": "b"}], )" + R"("labels": [")" + name + "\"]}\n";
        words += R"({"parts": "number )" + n + " is " + name + R"( a b", "labels": [")" + name + "\"]}\n";
    }
    const auto scores = [&](const std::string& name, const std::string& bytes, const std::string& columns) {
        const std::string data = folder.write(name + ".jsonl", bytes), run = folder.text(name);
        expect_success(run_elmo({"train", data, "--text-column", columns, "--out", run, "--quiet"}));
        return slurp(folder.path(name) / "best" / "tokenizer.json") +
               run_elmo({"eval", run, "--json", "--quiet"}).out.substr(0, 100);
    };
    EXPECT_EQ(scores("lists", lists, "parts+refs.t"), scores("words", words, "parts"));
    const std::string answer = folder.write("new.jsonl", R"({"parts": ["red"], "refs": []})"
                                                         "\n"
                                                         R"({"parts": []})"
                                                         "\n");
    const Outcome predicted =
        run_elmo({"predict", folder.text("lists"), answer, "--json", "--with-text", "--quiet"});
    expect_success(predicted);
    EXPECT_TRUE(contains(predicted.out, R"("text":"red")")) << predicted.out;
    const auto refused = [&](const std::string& value) {
        const std::string data =
            folder.write("bad.jsonl", R"({"text": )" + value + R"(, "labels": ["a"]})" + "\n");
        return run_elmo({"data", "inspect", data, "--quiet"});
    };
    const std::string advice = "write it as a string, or name another key with --text-column";
    expect_failure(refused("5"), 1, {"bad.jsonl:1: expected a string at 'text', found '5'; " + advice});
    expect_failure(refused("[\"a\", 5]"), 1,
                   {"bad.jsonl:1: expected a string at 'text', found '5'; " + advice});
    expect_failure(refused("[{\"a\": 1}]"), 1, {"name a key inside with --text-column text.KEY"});
}

// Commas, blanks and the like do not join columns, and a message that only says what is missing does not
// help.
TEST(Reading, ColumnsThatAreJoinedOtherwiseAreSaidToBeJoinedByPlus) {
    const TempFolder folder;
    const std::string table = folder.write("rows.csv", "title,body,tags,kind\na,b,x,y\n"),
                      lines = folder.write(
                          "rows.jsonl", R"({"title": "a", "meta": {"body": "b"}, "tags": "x", "kind": "y"})"
                                        "\n");
    const auto inspect = [&](const std::string& data, const std::string& text, const std::string& labels) {
        return run_elmo(
            {"data", "inspect", data, "--text-column", text, "--label-column", labels, "--quiet"});
    };
    for (const char* text :
         {"title,body", "title, body", "title;body", "title body", "title|body", "title&body"})
        expect_failure(inspect(table, text, "tags"), 1, {"; + joins columns: --text-column title+body"});
    expect_failure(inspect(lines, "title,meta.body", "tags"), 1,
                   {"; + joins keys: --text-column title+meta.body"});
    for (const char* labels : {"tags,kind", "tags+kind"}) {
        expect_failure(inspect(table, "title", labels), 1,
                       {"; labels are those of one column: join 'tags' and 'kind' in the file"});
        expect_failure(inspect(lines, "title", labels), 1,
                       {"; labels are those of one key: join 'tags' and 'kind' in the file"});
    }
    expect_failure(inspect(table, "title,text", "tags"), 1, {"; name the columns with --text-column"});
}

// They score 0 whatever is answered: who does not know of them takes the scores for worse than they are.
TEST(Reading, TextsWithoutLabelsAreCountedWhereTheyAreScored) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";")),
                      run = folder.text("run"),
                      labelled = folder.write("all.csv", "text,labels\nsomething red,red\nand green,green\n"),
                      some = folder.write("some.csv",
                                          "text,labels\nsomething red,red\nblue,\nand green,green\n");
    expect_success(run_elmo(Words{"train", data, "--out", run} + quick()));
    const Outcome all = run_elmo({"eval", run, labelled});
    expect_success(all);
    EXPECT_FALSE(contains(all.out, "without labels")) << all.out;
    const Outcome outcome = run_elmo({"eval", run, some});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "1 of the 3, which scores 0 whatever is answered")) << outcome.out;
    const Json json = Json::parse(run_elmo({"eval", run, some, "--json", "--quiet"}).out);
    EXPECT_EQ(json["protocol"]["unlabelled_samples"], 1);
}

// Every verb that reads the data of a run has this flag; explain has no DATA to name it as.
TEST(Reading, DataThatOnlyTheRunNamesIsGivenByAFlagThatEveryVerbHas) {
    const TempFolder folder;
    const std::string data = folder.write("rows.csv", rows_with("text,labels\n", ";")),
                      run = folder.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--neighbours", "0.3", "--quiet"}));
    expect_success(run_elmo({"cache", "clear", data}));
    const std::string advice = "if it is the right one, name it with --data " + data;
    expect_failure(run_elmo({"eval", run, "--quiet"}), 2, {advice});
    const Words explain = {"explain", run, "--text", "something red"};
    const Outcome told = run_elmo(explain);
    expect_success(told);
    EXPECT_TRUE(contains(told.err, advice)) << told.err;
    const Outcome shown = run_elmo(explain + Words{"--data", data});
    expect_success(shown);
    EXPECT_TRUE(contains(shown.out, "text 3 red")) << shown.out;
}

}  // namespace
}  // namespace elmo
