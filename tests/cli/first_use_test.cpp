// What a first user stumbled over: each command as it was typed, and what it has to say.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const char* const kAnimals[] = {"cat", "dog", "horse", "sparrow"};

// Different texts that hold the word of their label.
std::string text_of(int i) {
    return "number " + std::to_string(i) + " is about a " + kAnimals[i % 4] + " in house " +
           std::to_string(7 * i);
}

std::string csv_rows(int first, int last) {
    std::string rows = "text,labels\n";
    for (int i = first; i < last; ++i) rows += text_of(i) + "," + kAnimals[i % 4] + "\n";
    return rows;
}

class FirstUse : public testing::Test {
  protected:
    // A linear run on 200 rows of a table, a tenth of which it has held out.
    static void SetUpTestSuite() {
        shared_ = new TempFolder;
        shared_->write("rows.csv", csv_rows(0, 200));
        const Outcome trained =
            run_elmo({"train", shared_->text("rows.csv"), "--out", shared_->text("run"), "--quiet"});
        ASSERT_EQ(trained.status, 0) << trained.err;
    }
    static void TearDownTestSuite() { delete shared_; }

    std::string run() const { return shared_->text("run"); }
    std::string data() const { return shared_->text("rows.csv"); }
    Json scores(const Words& words) const {
        const Outcome outcome = run_elmo(Words{"eval"} + words + Words{"--json", "--quiet"});
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }

    static TempFolder* shared_;
    TempFolder folder_;
};
TempFolder* FirstUse::shared_ = nullptr;

TEST_F(FirstUse, AnotherTestShareOfTheRunsOwnDataIsNoticed) {
    const Outcome usual = run_elmo({"eval", run()});
    expect_success(usual);
    EXPECT_FALSE(contains(usual.err, "trained this run")) << usual.err;
    EXPECT_FALSE(contains(usual.out, "trained texts")) << usual.out;
    const Outcome other = run_elmo({"eval", run(), data(), "--test-share", "0.5"});
    expect_success(other);
    EXPECT_TRUE(contains(other.err, "scored texts trained this run")) << other.err;
    EXPECT_TRUE(contains(other.err, "leave --test-share out")) << other.err;
    EXPECT_TRUE(contains(other.out, "trained texts")) << other.out;
}

// Rows without labels are examples of texts that have none, with one label, a few and label trees.
TEST_F(FirstUse, TextsWithoutLabelsTrainALinearModel) {
    for (const int labels : {1, 3, 150}) {
        std::string rows = "text,labels\n";
        for (int i = 0; i < 1200; ++i)
            rows += fmt::format("cheap pills of maker {} number {},maker{}\nminutes of the meeting {},\n",
                                i % labels, i, i % labels, i);
        const std::string file = folder_.write("rows.csv", rows), run = folder_.text("linear");
        expect_success(run_elmo({"train", file, "--encoder", "linear", "--test-share", "0", "--out", run,
                                 "--overwrite", "--quiet"}));
        const auto answers = [&](const char* text) {
            const Outcome outcome =
                run_elmo({"predict", run, "--text", text, "--threshold", "0.5", "--json"});
            expect_success(outcome);
            return outcome.out;
        };
        EXPECT_TRUE(contains(answers("cheap pills of maker 0 number 7"), "maker0")) << labels;
        EXPECT_FALSE(contains(answers("minutes of the meeting 7"), "maker"))
            << labels << answers("minutes of the meeting 7");
    }
}

// Rows are held out by a hash of their text, so of other columns others are, which trained the run; and what
// it was trained on, the longer texts, does not show it.
TEST_F(FirstUse, OtherTextColumnsOfTheRunsOwnDataAreNoticed) {
    std::string rows = "title,body,labels\n";
    for (int i = 0; i < 200; ++i) rows += fmt::format("{},body {},{}\n", text_of(i), i, kAnimals[i % 4]);
    const std::string file = folder_.write("two.csv", rows), both = folder_.text("both"),
                      title = folder_.text("title");
    expect_success(run_elmo({"train", file, "--text-column", "title+body", "--out", both, "--quiet"}));
    expect_success(run_elmo({"train", file, "--text-column", "title", "--out", title, "--quiet"}));
    const Outcome usual = run_elmo({"eval", both, file});
    expect_success(usual);
    EXPECT_FALSE(contains(usual.err, "held out by the text")) << usual.err;
    EXPECT_TRUE(contains(usual.out, "the run's own data: its other rows trained the run")) << usual.out;
    const std::string warning =
        "two.csv: the test rows of this run were held out by the text of --text-column title+body; those "
        "held out "
        "by the text of title may have trained it: leave --text-column out, or score a file that did not";
    const Outcome other = run_elmo({"eval", both, file, "--text-column", "title"});
    expect_success(other);
    EXPECT_TRUE(contains(other.err, warning)) << other.err;
    EXPECT_FALSE(contains(other.out, "its other rows trained the run")) << other.out;
    expect_success(run_elmo({"eval", both, "--text-column", "title"}));  // of the run's data too
    // Nobody is led there by the comparison of such runs.
    const Outcome compared = run_elmo({"eval", both, title, file});
    EXPECT_EQ(compared.status, 1);
    EXPECT_TRUE(contains(compared.err, title + " on title: give a file that trained neither"))
        << compared.err;
    EXPECT_EQ(scores({both, title, file, "--split", "all"})["first"]["protocol"]["samples"], 200);
    const Outcome led = run_elmo({"eval", both, title, file, "--text-column", "title"});
    expect_success(led);
    EXPECT_TRUE(contains(led.err, "two.csv: the test rows of " + both + " were held out by the text of"))
        << led.err;
    const std::string fresh =
        folder_.write("fresh.csv", rows.substr(0, 18) + "a new cat,body,cat\na dog,new,dog\n");
    expect_success(run_elmo({"eval", both, title, fresh}));
}

TEST_F(FirstUse, PropensitiesOfTheScoredRowsAreNoticed) {
    std::string train = "40 8 4\n", test = "8 8 4\n", found = "8 4\n";
    for (int i = 0; i < 40; ++i) train += fmt::format("{} {}:1\n", i % 10 < 7 ? 0 : i % 4, i % 4);
    for (int i = 0; i < 8; ++i) {
        test += fmt::format("{} {}:1\n", i % 4, i % 4);
        found += fmt::format("{}:0.9 {}:0.1\n", i % 2, 2 + i % 2);
    }
    const std::string both = folder_.write("set/x_train.txt", train),
                      alone = folder_.write("set/x_test.txt", test),
                      answers = folder_.write("found.txt", found);
    const Outcome right = run_elmo({"eval", "--predictions", answers, both});
    expect_success(right);
    EXPECT_FALSE(contains(right.err, "propensities")) << right.err;
    const Outcome counted = run_elmo({"eval", "--predictions", answers, alone, "--split", "all"});
    expect_success(counted);
    EXPECT_TRUE(
        contains(counted.err,
                 "x_test.txt: propensities, head and tail are counted on the scored rows, as no others are "
                 "there: give the training data with the test rows beside it"))
        << counted.err;
}

// Of data with the columns of one of two runs, both read these.
TEST_F(FirstUse, TwoRunsReadTheColumnsThatTheDataHas) {
    std::string table = "account,note,type\n";
    for (int i = 0; i < 120; ++i) table += fmt::format("{},note {},{}\n", text_of(i), i % 7, kAnimals[i % 4]);
    const std::string named = folder_.write("table.csv", table), first = folder_.text("first");
    expect_success(run_elmo({"train", named, "--text-column", "account+note", "--label-column", "type",
                             "--out", first, "--quiet"}));
    for (const Words& words : {Words{first, run()}, {run(), first, named}}) {
        const Json both = scores(words);
        EXPECT_EQ(both["first"]["protocol"]["samples"], both["second"]["protocol"]["samples"]);
        EXPECT_GT(both["first"]["P@1"], 90) << both;
        EXPECT_GT(both["second"]["P@1"], 90) << both;
    }
    const Outcome said = run_elmo({"eval", run(), first, named});
    EXPECT_TRUE(contains(
        said.err, "table.csv: found no --text-column 'text', so " + run() + " reads 'account+note', too"))
        << said.err;
}

// The columns of a run are there where one of the first rows has them, whatever became of its validation
// file.
TEST_F(FirstUse, TwoRunsReadTheirOwnColumnsWhereTheDataHasBoth) {
    const auto json_rows = [](int first, int last) {
        std::string rows;
        for (int i = first; i < last; ++i)
            rows +=
                fmt::format("{{\"alpha\": \"{0}\"{2}, \"labels\": [\"{1}\"]}}\n", text_of(i), kAnimals[i % 4],
                            i == 0 ? "" : fmt::format(", \"beta\": \"{}\"", text_of(i + 4)));
        return rows;
    };
    const std::string data = folder_.write("both.jsonl", json_rows(0, 100)),
                      validation = folder_.write("validation.jsonl", json_rows(100, 120));
    const auto trained = [&](const char* column) {
        const std::string rows = folder_.write(std::string(column) + ".jsonl", json_rows(1, 100)),
                          out = folder_.text(std::string("run_") + column);
        expect_success(run_elmo(
            {"train", rows, "--text-column", column, "--validation", validation, "--out", out, "--quiet"}));
        return out;
    };
    const std::string alpha = trained("alpha"), beta = trained("beta");
    fs::remove(validation);
    expect_failure(run_elmo({"eval", alpha, beta, data, "--split", "all"}), 1,
                   {"both.jsonl:1: expected the key 'beta'"});
}

// A run keeps the path of its data as it was given: here it leads to the file of another month.
TEST_F(FirstUse, AnotherFileOfTheSameNameIsScoredWhole) {
    folder_.write("january/data.csv", csv_rows(0, 120));
    folder_.write("february/data.csv", csv_rows(1000, 1121));
    const auto in = [&](const std::string& month, const std::string& words) {
        return run_shell("cd \"$0/" + month + "\" && \"$ELMO\" " + words, folder_.path());
    };
    expect_success(in("january", "train data.csv --out run"));
    const auto protocol = [&](const std::string& month, const std::string& words) {
        const Outcome outcome = in(month, words + " --json --bootstrap 0");
        expect_success(outcome);
        Json scores = Json::parse(outcome.out);
        return scores.contains("first") ? scores["first"]["protocol"] : scores["protocol"];
    };
    for (const char* words :
         {"eval ../january/run data.csv", "eval ../january/run ../january/run data.csv"}) {
        const Json of_other = protocol("february", words), own = protocol("january", words);
        EXPECT_EQ(of_other["samples"], 121) << words;
        EXPECT_TRUE(contains(of_other["split_reason"], "not the run's own")) << of_other;
        EXPECT_LT(own["samples"], 60) << words;
    }
    // A run that held nothing out.
    expect_success(in("january", "train data.csv --out all --test-share 0"));
    EXPECT_EQ(protocol("february", "eval ../january/all data.csv")["samples"], 121);
    for (const char* verb : {"eval", "calibrate"}) {  // nobody named it
        const Outcome outcome = in("february", verb + std::string(" ../january/run"));
        EXPECT_EQ(outcome.status, 1) << outcome.out;
        EXPECT_TRUE(contains(outcome.err, "expected the data that trained this run")) << outcome.err;
    }
}

// From a folder with another file under that name.
TEST_F(FirstUse, TheRunsOwnFileIsKnownFromAnyFolder) {
    const auto rows = [](int begin, int end) {
        std::string csv = "text,more,labels\n";
        for (int i = begin; i < end; ++i)
            csv += fmt::format("{},about {} and {},{}\n", text_of(i), i, i % 7, kAnimals[i % 4]);
        return csv;
    };
    const std::string january = folder_.write("january/data.csv", rows(0, 200));
    folder_.write("february/data.csv", rows(1000, 1100));
    fs::create_directory(folder_.path("none"));
    const auto in = [&](const std::string& folder, const std::string& words) {
        const Outcome outcome = run_shell("cd \"$0/" + folder + "\" && \"$ELMO\" " + words, folder_.path());
        expect_success(outcome);
        return outcome;
    };
    folder_.write("january/more.csv", rows(0, 300));
    in("january", "train data.csv --out run");
    in("january", "train more.csv --out second");
    in("february", "data data.csv");  // after which the path of the run may be read there
    for (const char* words : {"eval ../january/run ../january/data.csv --text-column more --json",
                              "eval ../january/run ../january/data.csv --json",
                              "eval ../january/run ../january/second ../january/data.csv --json"}) {
        Json here = Json::parse(in("february", words).out), there = Json::parse(in("none", words).out);
        for (Json* scores : {&here, &there}) {
            if (scores->contains("first")) *scores = (*scores)["first"];
            EXPECT_LT((*scores)["protocol"]["samples"], 60) << words;
        }
        EXPECT_EQ(here["protocol"]["split_reason"], there["protocol"]["split_reason"]) << words;
        EXPECT_EQ(here["P@1"], there["P@1"]) << words;
    }
    const Outcome other = in("february", "eval ../january/run ../january/data.csv --text-column more");
    EXPECT_TRUE(contains(other.err, "held out by the text of --text-column text; ")) << other.err;
    const Outcome february = in("february", "eval ../january/run data.csv --text-column more");
    EXPECT_TRUE(contains(february.out, "all: 100 texts")) << february.out;
    EXPECT_TRUE(contains(february.out, "not the run's own")) << february.out;
}

// A file most of whose rows are others now is no more the run's, though some are; a share that is given is
// the reason.
TEST_F(FirstUse, TheReasonForTheRowsIsTrue) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 200)), run = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--quiet"}));
    EXPECT_EQ(scores({run, data, "--test-share", "0.5"})["protocol"]["split_reason"], "test_share is given");
    folder_.write("rows.csv", csv_rows(160, 400));  // 40 of 240
    const Json protocol = scores({run, data})["protocol"];
    EXPECT_EQ(protocol["samples"], 240);
    EXPECT_TRUE(contains(protocol["split_reason"], "not the run's own")) << protocol;
    expect_failure(run_elmo({"eval", run}), 1, {"expected the data that trained this run, found other rows"});
}

TEST_F(FirstUse, DataThatGrewManyTimesIsStillTheRunsOwn) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 60)), run = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--quiet"}));
    folder_.write("rows.csv", csv_rows(0, 3000));
    expect_success(run_elmo({"eval", run}));
}

// Each column by itself: a run whose labels are elsewhere still reads its own texts.
TEST_F(FirstUse, TwoRunsShareTheColumnThatOneOfThemLacksOnly) {
    std::string table = "text,labels,body,tags\n", without = "text,labels,body\n";
    for (int i = 0; i < 120; ++i) {
        table += fmt::format("{0},{1},{2},{1}\n", text_of(i), kAnimals[i % 4], text_of(i + 1));
        without += fmt::format("{0},{1},{2}\n", text_of(1000 + i), kAnimals[i % 4], text_of(1001 + i));
    }
    const std::string both = folder_.write("both.csv", table), part = folder_.write("part.csv", without),
                      second = folder_.text("second");
    expect_success(run_elmo(
        {"train", both, "--text-column", "body", "--label-column", "tags", "--out", second, "--quiet"}));
    // Also where no column is called as columns of labels usually are.
    const std::string first = folder_.text("first"), unusual = "text,group,body" + without.substr(16),
                      other = folder_.write("other.csv", unusual);
    expect_success(run_elmo({"train", other, "--label-column", "group", "--out", first, "--quiet"}));
    for (const auto& [one, file, labels] :
         {std::tuple(run(), part, "labels"), std::tuple(first, other, "group")}) {
        const Outcome outcome = run_elmo({"eval", one, second, file, "--split", "all", "--json"});
        expect_success(outcome);
        EXPECT_TRUE(contains(outcome.err,
                             "found no --label-column 'tags', so " + second + " reads '" + labels + "', too"))
            << outcome.err;
        EXPECT_FALSE(contains(outcome.err, "--text-column")) << outcome.err;
        EXPECT_GT(Json::parse(outcome.out)["second"]["P@1"], 90) << outcome.out;
    }
}

TEST_F(FirstUse, AComparisonNoticesDataThatWasReplaced) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 100)), first = folder_.text("first");
    expect_success(run_elmo({"train", data, "--out", first, "--quiet"}));
    folder_.write("rows.csv", csv_rows(1000, 1150));
    expect_failure(run_elmo({"eval", first, run()}), 1, {"expected the data that trained " + first});
}

// Rows whose own data is that of one run are scored as that run would.
TEST_F(FirstUse, TwoRunsOnTheDataOfOneOfThem) {
    const std::string other = folder_.write("other.csv", csv_rows(1000, 1120)),
                      second = folder_.text("second");
    expect_success(run_elmo({"train", other, "--out", second, "--quiet"}));
    const int samples = scores({run(), data()})["protocol"]["samples"];
    EXPECT_LT(samples, 60);
    for (const Words& words : {Words{run(), second}, {run(), second, data()}, {second, run(), data()}}) {
        const Json both = scores(words);
        EXPECT_EQ(both["first"]["protocol"]["samples"], samples);
        EXPECT_EQ(both["second"]["protocol"]["samples"], samples);
    }
}

TEST_F(FirstUse, TextsThatATokenizerDoesNotKnowAreNotSaidToBeUntrained) {
    std::string rows = csv_rows(0, 50);
    for (int i = 0; i < 120; ++i) rows += fmt::format("\u72ac\u732b {},dog\n", "\u9ce5\u99ac");
    const std::string mixed = folder_.write("mixed.csv", rows);
    const Outcome outcome = run_elmo({"eval", run(), mixed});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "and its tokenizer knows too little of 120 to tell: the other "))
        << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "most of the data's rows that its tokenizer knows trained the run"))
        << outcome.out;
}

// How often a training validates follows from its own epochs, not from those of the run it starts from.
TEST_F(FirstUse, AShortTrainingFromALongOneValidatesAfterEachEpoch) {
    const std::string rows = folder_.write("rows.csv", csv_rows(0, 60)), first = folder_.text("first");
    const Words train = {"train", rows, "--encoder", "bag", "--width", "16", "--quiet"};
    expect_success(run_elmo(train + Words{"--epochs", "100", "--out", first}));
    const Outcome outcome = run_elmo({"train", folder_.write("more.csv", csv_rows(100, 160)), "--init", first,
                                      "--epochs", "3", "--out", folder_.text("second")});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "eval_every auto: 1, every epoch")) << outcome.err;
}

TEST_F(FirstUse, OriginalsMayLieBesideWhatWasMadeOfThem) {
    folder_.write("set/train.csv", csv_rows(0, 40));
    folder_.write("set/test.csv", csv_rows(40, 50));
    for (const char* name : {"original.parquet", "train.parquet", "train.xlsx"}) {
        folder_.write(std::string("set/") + name, "PAR1 and more");
        const Outcome shown = run_elmo({"data", "inspect", folder_.text("set"), "--quiet"});
        expect_success(shown);
        EXPECT_TRUE(contains(shown.out, "test rows in test.csv")) << shown.out;
    }
    fs::remove(folder_.path("set/train.csv"));
    expect_failure(run_elmo({"data", "inspect", folder_.text("set")}), 1, {"found Parquet"});
    for (const char* name : {"train.py", "train.log", "train.ipynb", "train_config.json", "training"}) {
        folder_.write(std::string("set/") + name, "a script, of some kind\n");
        expect_failure(run_elmo({"data", "inspect", folder_.text("set")}), 1, {"found Parquet"});
        fs::remove(folder_.path(std::string("set/") + name));
    }
}

TEST_F(FirstUse, SavedFoldersOfHuggingFaceAreToldApart) {
    for (const char* file : {"set/state.json", "set/dataset_info.json", "sets/dataset_dict.json"})
        folder_.write(file, "{}");
    const std::string one = folder_.text("set"), several = folder_.text("sets");
    expect_failure(run_elmo({"predict", run(), one}), 1,
                   {"load_from_disk('" + one + "').to_json('data.jsonl')"});
    expect_failure(run_elmo({"predict", run(), several}), 1,
                   {"with several (save_to_disk); name the folder of one"});
    expect_failure(
        run_elmo({"calibrate", run(), "--validation", one}), 1,
        {"elmo.convert('" + one + "', out='validation', test_share=0)", "--validation validation/train"});
    expect_failure(run_elmo({"calibrate", run(), "--validation", several}), 1,
                   {"name the folder of one of them"});
}

// A training goes on with it, a refinement needs none, and neither does a calibration on other rows the data.
TEST_F(FirstUse, AValidationFileMayHaveMoved) {
    const std::string rows = folder_.write("rows.csv", csv_rows(0, 60)),
                      old = folder_.write("val.csv", csv_rows(60, 80)), out = folder_.text("moved");
    expect_success(run_elmo({"train", rows, "--validation", old, "--encoder", "bag", "--width", "16",
                             "--epochs", "2", "--out", out, "--quiet"}));
    const std::string now = folder_.text("elsewhere.csv");
    fs::rename(old, now);
    expect_failure(run_elmo({"train", "--out", out, "--resume"}), 2, {"name it with --validation FILE"});
    const Outcome moved = run_elmo({"train", "--out", out, "--resume", "--validation", now});
    expect_success(moved);
    EXPECT_TRUE(contains(moved.err, "the run had " + old + ", and goes on with " + now)) << moved.err;
    expect_failure(run_elmo({"train", "--out", out, "--resume", "--validation", "0.1"}), 2, {"found 0.1"});
    expect_success(run_elmo({"refine", out, "--out", folder_.text("refined"), "--quiet"}));
    const std::string parquet = folder_.write("new.parquet", "PAR1\x15\x04\x15 bytes PAR1");
    fs::remove(rows);
    expect_failure(run_elmo({"calibrate", out, "--validation", parquet}), 1, {"found Parquet; convert it"});
}

TEST_F(FirstUse, TheValidationFileOfARunIsKnownBesideOtherData) {
    const std::string rows = folder_.write("old/rows.csv", csv_rows(0, 60)),
                      validation = folder_.write("old/val.csv", csv_rows(60, 80)),
                      more = folder_.write("new/more.csv", csv_rows(100, 160)), run = folder_.text("first");
    expect_success(run_elmo({"train", rows, "--validation", validation, "--encoder", "bag", "--width", "16",
                             "--epochs", "1", "--out", run, "--quiet"}));
    expect_success(run_elmo({"train", more, "--init", run, "--out", folder_.text("second"), "--quiet"}));
}

TEST_F(FirstUse, ACopyOfTheTrainingFileIsScoredByTheRunsSplit) {
    const Json own = scores({run(), data()});
    const std::int64_t held_out = own["protocol"]["samples"];
    ASSERT_LT(held_out, 100);
    // Moved: the file that the run was trained on is gone, and the copy has another name and form.
    const TempFolder moved;
    const std::string first = moved.write("first.csv", csv_rows(0, 200));
    expect_success(run_elmo({"train", first, "--out", moved.text("run"), "--quiet"}));
    fs::rename(first, moved.path("second.csv"));
    std::string json;
    for (int i = 0; i < 200; ++i)
        json += Json{{"text", text_of(i)}, {"labels", {kAnimals[i % 4]}}}.dump() + "\n";
    for (const std::string& file : {moved.text("second.csv"), moved.write("other/third.jsonl", json)}) {
        const Outcome outcome = run_elmo({"eval", moved.text("run"), file});
        expect_success(outcome);
        EXPECT_TRUE(contains(outcome.err, "texts trained this run")) << outcome.err;
        EXPECT_TRUE(contains(outcome.out, "held out")) << outcome.out;
        EXPECT_EQ(scores({moved.text("run"), file})["protocol"]["samples"], held_out) << file;
    }
    // All rows when asked for, with a word about them.
    const Outcome all = run_elmo({"eval", moved.text("run"), moved.text("second.csv"), "--split", "all"});
    expect_success(all);
    EXPECT_TRUE(contains(all.err, "of 200 scored texts trained this run")) << all.err;
}

TEST_F(FirstUse, AFileWithSomeTrainedRowsSaysSo) {
    const std::string mixed = folder_.write("mixed.csv", csv_rows(150, 400));
    const Outcome outcome = run_elmo({"eval", run(), mixed});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "of 250 scored texts trained this run")) << outcome.err;
    const std::string fresh = folder_.write("fresh.csv", csv_rows(1000, 1100));
    const Outcome quiet = run_elmo({"eval", run(), fresh});
    expect_success(quiet);
    EXPECT_FALSE(contains(quiet.err, "trained this run")) << quiet.err;
    EXPECT_EQ(scores({run(), fresh})["protocol"]["samples"], 100);
}

TEST_F(FirstUse, TextsThatARunStartedFromCountToo) {
    const Words small = {"--epochs",     "1",  "--vocab-size", "200", "--width", "16",
                         "--batch-size", "32", "--threads",    "1",   "--quiet"};
    const std::string old = folder_.write("old.csv", csv_rows(0, 100)),
                      next = folder_.write("next.csv", csv_rows(100, 200)),
                      birds =
                          folder_.write("birds.csv", "text,labels\na loud parrot,parrot\nparrots,parrot\n");
    expect_success(run_elmo(Words{"train", old, "--out", folder_.text("first")} + small));
    expect_success(run_elmo({"train", next, "--init", folder_.text("first"), "--out", folder_.text("second"),
                             "--epochs", "1", "--quiet"}));
    // No order of their rows suits both.
    const std::string all = folder_.write("all.csv", csv_rows(0, 200));
    for (const auto& [from, advice] : {std::pair("first", "give the rows of that run first"),
                                       std::pair("second", "new to it and to what it started from")}) {
        const Outcome outcome =
            run_elmo({"train", all, "--init", folder_.text(from), "--validation", "0.3", "--epochs", "1",
                      "--out", folder_.text(std::string("all-") + from), "--quiet"});
        expect_success(outcome);
        EXPECT_TRUE(contains(outcome.err, advice)) << outcome.err;
    }
    const Json of_old = scores({folder_.text("second"), old, "--split", "all"});
    EXPECT_GT(of_old["protocol"].value("trained_samples", 0), 80) << of_old;
    expect_success(run_elmo({"labels", "add", folder_.text("second"), "--data", birds, "--out",
                             folder_.text("third"), "--quiet"}));
    const Json of_birds = scores({folder_.text("third"), birds, "--split", "all"});
    EXPECT_EQ(of_birds["protocol"].value("trained_samples", 0), 2) << of_birds;
}

TEST_F(FirstUse, PredictReadsLabelledLinesWithoutTheirLabels) {
    const std::string plain = "a dog in the rain\nthe sparrow\n";
    const std::string labelled = "__label__cat __label__x a dog in the rain\n__label__cat the sparrow\n";
    const auto answers = [&](const Words& words, const std::string& input = {}) {
        const Outcome outcome = run_elmo(Words{"predict", run()} + words + Words{"--json", "--quiet"}, input);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.out;
    };
    const std::string expected = answers({folder_.write("plain.txt", plain)});
    EXPECT_EQ(answers({folder_.write("labelled.txt", labelled)}), expected);
    EXPECT_EQ(answers({}, labelled), expected);
    EXPECT_EQ(answers({"--format", "fasttext"}, plain), expected);
    // A table under any name.
    const std::string table = folder_.write("table", "text,labels\na dog in the rain,cat\nthe sparrow,cat\n");
    EXPECT_EQ(answers({table, "--format", "csv"}), expected);
    expect_failure(run_elmo({"predict", run(), "--format", "csv", "--quiet"}, plain), 1,
                   {"standard input: expected a file"});
    // As text when asked for.
    EXPECT_NE(answers({folder_.text("labelled.txt"), "--input", "text"}), expected);
}

TEST_F(FirstUse, PredictReadsSparseRowsWithoutTheirLabels) {
    std::string rows = "80 8 4\n";
    for (int i = 0; i < 80; ++i)
        rows += std::to_string(i % 4) + " " + std::to_string(i % 4) + ":1 " + std::to_string(4 + i % 3) +
                ":0.5\n";
    const std::string data = folder_.write("x_train.txt", rows);
    expect_success(run_elmo({"train", data, "--out", folder_.text("run"), "--quiet"}));
    const auto answers = [&](const std::string& file, const Words& flags = {}) {
        const Outcome outcome =
            run_elmo(Words{"predict", folder_.text("run"), file, "--top", "1", "--json", "--quiet"} + flags);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.out;
    };
    // Documented: feature numbers, repeated as their values say.
    const std::string words = folder_.write("words.txt", "2 2 5\n1 1 6\n");
    const std::string expected = answers(words);
    EXPECT_EQ(answers(folder_.write("new.txt", "0 2:1 5:0.5\n0 1:1 6:0.5\n")), expected);
    EXPECT_EQ(answers(folder_.write("head.txt", "2 8 4\n0 2:1 5:0.5\n 1:1 6:0.5\n")), expected);
    EXPECT_EQ(answers(folder_.write("bare.txt", "2:1 5:0.5\n1:1 6:0.5\n"), {"--format", "sparse"}), expected);
    // Through every other door too, with the header or without.
    for (const char* lines :
         {"2:1 5:0.5\n1:1 6:0.5\n", "0 2:1 5:0.5\n3,1 1:1 6:0.5\n", "2 8 4\n0 2:1 5:0.5\n1 1:1 6:0.5\n"}) {
        const Outcome piped = run_elmo({"predict", folder_.text("run"), "--top", "1", "--json"}, lines);
        EXPECT_EQ(piped.status, 0) << piped.err;
        EXPECT_EQ(piped.out, expected) << lines;
        EXPECT_FALSE(contains(piped.err, "warning")) << piped.err;
    }
    const Outcome shown =
        run_elmo({"predict", folder_.text("run"), "--top", "1", "--json", "--with-text"}, "0,3 2:1 5:0.5\n");
    EXPECT_TRUE(contains(shown.out, "\"text\":\"2:1 5:0.5\"")) << shown.out;
    const Outcome typed = run_elmo({"predict", folder_.text("run"), "--top", "1", "--json", "--text",
                                    "2 2:1 5:0.5", "--text", "1:1 6:0.5"});
    EXPECT_EQ(typed.out, expected) << typed.err;
    // A line of three numbers is a header only if rows follow.
    const Outcome numbers =
        run_elmo({"predict", folder_.text("run"), "--top", "1", "--json"}, "2 2 5\n1 1 6\n");
    EXPECT_EQ(numbers.out, expected) << numbers.err;
    // A feature with its value is one word of an explanation.
    const Outcome why =
        run_elmo({"explain", folder_.text("run"), "--text", "2:1 5:0.5", "--top", "1", "--json", "--quiet"});
    ASSERT_EQ(why.status, 0) << why.err;
    EXPECT_TRUE(contains(why.out, "\"2:1\"")) << why.out;
}

TEST_F(FirstUse, PredictCutsNoFeaturesThatTrainingHad) {
    // 200 features that say nothing before the one that tells: more than the usual length of a text.
    std::string noise;
    for (int i = 0; i < 200; ++i) noise += " " + std::to_string(i) + ":1";
    std::string rows = "80 204 4\n";
    for (int i = 0; i < 80; ++i) rows += fmt::format("{}{} {}:1\n", i % 4, noise, 200 + i % 4);
    const std::string data = folder_.write("x_train.txt", rows);
    expect_success(run_elmo({"train", data, "--out", folder_.text("run"), "--encoder", "bag", "--epochs",
                             "40", "--batch-size", "8", "--width", "16", "--quiet"}));
    const Outcome outcome =
        run_elmo({"predict", folder_.text("run"), data, "--top", "4", "--json", "--quiet"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    // Cut ones would have the same answer.
    std::vector<std::string> lines;
    std::istringstream text(outcome.out);
    for (std::string line; std::getline(text, line) && lines.size() < 2;)
        lines.push_back(line.substr(line.find("\"labels\"")));
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_NE(lines[0], lines[1]);
}

// The error advises the flag.
TEST_F(FirstUse, EvalOfValidationRowsThatMoved) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 40; ++i)
        rows += (i % 2 ? "the red apple " : "a green pear ") + std::to_string(i) + (i % 2 ? ",a\n" : ",b\n");
    const std::string data = folder_.write("fruit.csv", rows), valid = folder_.write("valid.csv", rows);
    const std::string moved = folder_.text("fruit_run");
    expect_success(run_elmo({"train", data, "--validation", valid, "--out", moved, "--quiet"}));
    std::filesystem::rename(valid, folder_.path("other.csv"));
    std::vector<std::string> call = {"eval", moved, "--split", "validation", "--quiet"};
    expect_failure(run_elmo(call), 2, {"which is gone", "--validation FILE"});
    call.insert(call.end(), {"--validation", folder_.text("other.csv")});
    const Outcome outcome = run_elmo(call);
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "validation: 40 texts")) << outcome.out;
}

// Read as the data is, its rows would be texts without labels, and their score 0.
TEST_F(FirstUse, ValidationFileInAnotherFormat) {
    std::string marked, table = "text,labels\n", lines;
    for (int i = 0; i < 40; ++i) {
        const std::string text = (i % 2 ? "the red apple " : "a green pear ") + std::to_string(i);
        const std::string label = i % 2 ? "a" : "b";
        marked += "__label__" + label + " " + text + "\n";
        table += text + "," + label + "\n";
        lines += R"({"text": ")" + text + R"(", "labels": [")" + label + "\"]}\n";
    }
    marked = folder_.write("marked.txt", marked);
    table = folder_.write("table.csv", table);
    lines = folder_.write("lines.jsonl", lines);
    const auto train = [&](const std::string& data, const std::string& validation) {
        return run_elmo({"train", data, "--validation", validation, "--out", folder_.text("other_run"),
                         "--overwrite", "--quiet"});
    };
    expect_failure(train(marked, lines), 1,
                   {"lines.jsonl: expected validation rows in the format of the data, fasttext, found jsonl",
                    "give a file in that format, or a share"});
    expect_failure(train(marked, table), 1, {"table.csv: expected validation rows", "found csv"});
    expect_failure(train(table, lines), 1, {"lines.jsonl: expected validation rows", "found jsonl"});
    // A table of any name.
    const std::string renamed = folder_.text("renamed.txt");
    std::filesystem::copy_file(table, renamed);
    expect_success(train(table, renamed));
    expect_success(train(marked, marked));
}

// They have no texts to show, only rows.
TEST_F(FirstUse, WorstAnswersOfFeatures) {
    std::string rows;
    for (int i = 0; i < 80; ++i)
        rows += std::to_string(i % 4) + " " + std::to_string(i % 2) + ":1 " + std::to_string(4 + i % 3) +
                ":0.5\n";
    const std::string data = folder_.write("x_train.txt", rows);
    folder_.write("x_test.txt", rows);
    const std::string features = folder_.text("features");
    expect_success(run_elmo({"train", data, "--out", features, "--quiet"}));
    const Outcome shown =
        run_elmo({"eval", features, data, "--threshold", "0.9", "--errors", "2", "--json", "--quiet"});
    expect_success(shown);
    EXPECT_TRUE(contains(shown.out, "\"wrong_texts\"")) << shown.out;
    expect_success(run_elmo({"report", features, data, "--out", folder_.text("page.html"), "--quiet"}));
}

TEST_F(FirstUse, PredictSaysWhenTextsAreOfAnotherKindThanTheRuns) {
    std::string rows;
    for (int i = 0; i < 80; ++i)
        rows += std::to_string(i % 4) + " " + std::to_string(i % 4) + ":1 " + std::to_string(4 + i % 3) +
                ":0.5\n";
    expect_success(run_elmo(
        {"train", folder_.write("x_train.txt", rows), "--out", folder_.text("features"), "--quiet"}));
    const Outcome words = run_elmo({"predict", folder_.text("features"), "--text", "a small cat"});
    EXPECT_EQ(words.status, 0);
    EXPECT_TRUE(contains(words.err, "the run was trained on features")) << words.err;
    const std::string warning = "the run was trained on texts";
    const std::string lines = "3,5 12:1 40:0.5\n1 7:1 8:1\n";
    for (const Outcome& outcome :
         {run_elmo({"predict", run(), "--text", "3,5 12:1 40:0.5"}), run_elmo({"predict", run()}, lines),
          run_elmo({"predict", run(), folder_.write("x_test.txt", lines)})}) {
        EXPECT_EQ(outcome.status, 0);
        EXPECT_TRUE(contains(outcome.err, warning)) << outcome.err;
    }
    for (const char* text : {"at 12:30 the cat", "12:30", "1 2 3", "a horse"}) {
        const Outcome plain = run_elmo({"predict", run(), "--text", text});
        EXPECT_FALSE(contains(plain.err, "warning")) << plain.err;
    }
}

TEST_F(FirstUse, EvalSaysWhenDataAreOfAnotherKindThanTheRuns) {
    std::string rows = "80 7 4\n";
    for (int i = 0; i < 80; ++i)
        rows += std::to_string(i % 4) + " " + std::to_string(i % 4) + ":1 " + std::to_string(4 + i % 3) +
                ":0.5\n";
    const std::string data = folder_.write("x.txt", rows), features = folder_.text("features");
    expect_success(run_elmo({"train", data, "--out", features, "--quiet"}));
    expect_failure(run_elmo({"eval", run(), data}), 1,
                   {"x.txt: expected texts, which the run was trained on, found bag-of-words features"});
    const Outcome texts = run_elmo({"eval", features, this->data()});
    expect_failure(texts, 1, {"these are not the labels of the run", "expected 4, found 4 named ones"});
    EXPECT_FALSE(contains(texts.err, "positives")) << texts.err;
    const std::string wider = folder_.write("wider.txt", "2 99 4\n1 1:1 4:1\n2 2:1 50:1\n");
    expect_failure(
        run_elmo({"eval", features, wider}), 1,
        {"wider.txt:3: expected features below 7, as many as the header or the run has, found 50"});
}

TEST_F(FirstUse, ARunOfFeaturesIsTrainedOn) {
    std::string rows = "80 7 4\n";
    for (int i = 0; i < 80; ++i) rows += std::to_string(i % 4) + " " + std::to_string(i % 4) + ":1\n";
    const std::string data = folder_.write("x.txt", rows), first = folder_.text("first");
    const Words steps = {"--epochs", "1", "--quiet"};
    expect_success(
        run_elmo(Words{"train", data, "--out", first, "--encoder", "bag", "--width", "16"} + steps));
    expect_success(run_elmo(Words{"train", "--init", first, "--out", folder_.text("second")} + steps));
    expect_success(run_elmo({"eval", folder_.text("second"), data, "--split", "train", "--quiet"}));
    const std::string wider = folder_.write("wider.txt", "2 99 4\n1 1:1 4:1\n2 2:1 50:1\n");
    expect_failure(
        run_elmo(Words{"train", wider, "--init", first, "--out", folder_.text("third")} + steps), 1,
        {"wider.txt:3: expected features below 7, as many as the header or the run has, found 50"});
    expect_failure(run_elmo(Words{"train", this->data(), "--init", first, "--out", folder_.text("third"),
                                  "--text-column", "text", "--label-column", "labels"} +
                            steps),
                   1, {"none of the 4 labels"});
}

// By max_memory the encoder is another one than that of a training without it: who asks whether that fits is
// told.
TEST_F(FirstUse, AMemoryLimitSaysWhichEncoderItPlans) {
    const std::string why = "encoder auto: bag, max_memory was given, which linear does not have";
    const Outcome plan = run_elmo({"plan", data(), "--max-memory", "1GiB"});
    expect_success(plan);
    EXPECT_TRUE(contains(plan.err, why)) << plan.err;
    const Outcome tight = run_elmo({"train", data(), "--out", folder_.text("none"), "--max-memory", "1MiB"});
    EXPECT_EQ(tight.status, 1);
    EXPECT_TRUE(contains(tight.err, why)) << tight.err;
    EXPECT_FALSE(contains(run_elmo({"plan", data()}).err, "encoder auto"));
    // The linear model has this one.
    EXPECT_FALSE(contains(run_elmo({"plan", data(), "--max-length", "8"}).err, "encoder auto: bag"));
}

TEST_F(FirstUse, BytesThatAreNoTextAreRefusedFromStandardInputToo) {
    using namespace std::string_literals;
    const std::pair<std::string, const char*> kinds[] = {
        {"PAR1\x15\x04\x15\0abc\ndef"s, "found Parquet; save it as FILE and convert it: python3 -c"},
        {"ARROW1\0\0\xff\xff"s, "found Arrow; "},
        {"\xff\xff\xff\xff\x10\0\0\0abc"s, "found an Arrow stream; "},
        {"\xff\xfe"s + "a\0b\0"s, "iconv -f UTF-16 -t UTF-8"},
        {"a\0b\0\n\0"s, "found binary data"},
        {"folder/"s + std::string(250, '\0') + "ustar  \0"s, "found a tar archive"},
        {"\x7f"
         "ELF\x02\x01\x01\0\0"s,
         "found binary data"}};
    for (const auto& [bytes, found] : kinds) {
        const Outcome predicted = run_elmo({"predict", run()}, bytes);
        EXPECT_EQ(predicted.status, 1) << found;
        EXPECT_EQ(predicted.out, "") << found;
        EXPECT_TRUE(contains(predicted.err, found)) << predicted.err;
        const Outcome trained =
            run_elmo({"train", "-", "--out", folder_.text("none"), "--cache", folder_.text("cache")}, bytes);
        EXPECT_EQ(trained.status, 1) << found;
        EXPECT_TRUE(contains(trained.err, std::string(found).substr(0, 12))) << trained.err;
    }
    // Packed too.
    folder_.write("rows.parquet", kinds[0].first);
    for (const char* line :
         {"gzip $0/rows.parquet && $ELMO predict RUN $0/rows.parquet.gz",
          "$ELMO predict RUN < $0/rows.parquet.gz", "$ELMO data inspect $0/rows.parquet.gz"}) {
        std::string command = line;
        if (const auto at = command.find("RUN"); at != command.npos) command.replace(at, 3, run());
        const Outcome outcome = run_shell(command, folder_.path());
        EXPECT_EQ(outcome.status, 1) << line;
        EXPECT_TRUE(contains(outcome.err, "found Parquet")) << outcome.err;
    }
}

TEST_F(FirstUse, LabelsOfHeldOutRowsAreTrueInAPartOfTheData) {
    // Each name is on a row of either half: in one half only held-out rows carry some names.
    const auto rows = [](int first, int last) {
        std::string text = "text,labels\n";
        for (int i = first; i < last; ++i)
            text += fmt::format("{},{};name{}\n", text_of(i), kAnimals[i % 4], i % 200);
        return text;
    };
    const std::string run = folder_.text("run");
    expect_success(run_elmo({"train", folder_.write("whole.csv", rows(0, 400)), "--out", run, "--quiet",
                             "--label-separator", ";"}));
    const Outcome part = run_elmo({"eval", run, folder_.write("part.csv", rows(0, 200)), "--json",
                                   "--threshold", "0.1", "--errors", "3"});
    ASSERT_EQ(part.status, 0) << part.err;
    EXPECT_TRUE(contains(part.err, "of 200 texts trained this run: the other ")) << part.err;
    EXPECT_FALSE(contains(part.err, "of the test rows never seen")) << part.err;
    const Json found = Json::parse(part.out);
    EXPECT_EQ(found["protocol"]["split"], "test") << part.out;
    EXPECT_EQ(found["wrong_texts"].size(), 3u) << part.out;
    for (const Json& wrong : found["wrong_texts"]) {
        EXPECT_EQ(wrong["split"], "all");
        EXPECT_EQ(wrong["expected"].size(), 2u) << wrong;
        EXPECT_EQ(wrong["text"], text_of(wrong["row"].get<int>() - 1));
    }
    // A copy of the whole under another name has the scores of the whole.
    const Json own = scores({run, folder_.text("whole.csv")}),
               copy = scores({run, folder_.write("copy.csv", rows(0, 400) + "\n")});
    EXPECT_EQ(own["P@1"], copy["P@1"]);
}

TEST_F(FirstUse, ColumnsOfLabelsHaveNoSeparator) {
    std::string table = "comment,toxic,severe,clean\n";
    for (int i = 0; i < 8; ++i) table += fmt::format("w{0} a,0,0,1\nw{0} b,1,0,0\nw{0} c,0,0,1\n", i);
    const Outcome outcome =
        run_elmo({"data", "inspect", folder_.write("t.csv", table + "x y,1,1,0\nx z,1,1,0\nx q,1,1,0\n")});
    expect_success(outcome);
    EXPECT_FALSE(contains(outcome.err + outcome.out, "label-separator")) << outcome.err << outcome.out;
}

TEST_F(FirstUse, IdsThatAreNumbersStayNumbers) {
    const Outcome outcome = run_elmo({"predict", run(), "--json", "--top", "1", "--quiet"},
                                     "{\"text\": \"a cat\", \"id\": 1.5}\n{\"text\": \"a cat\", \"id\": "
                                     "7}\n{\"text\": \"a cat\", \"id\": 1.0}\n");
    expect_success(outcome);
    std::istringstream lines(outcome.out);
    for (const double id : {1.5, 7.0, 1.0}) {
        std::string line;
        std::getline(lines, line);
        EXPECT_EQ(Json::parse(line)["id"], id) << line;
    }
    expect_failure(
        run_elmo(
            {"data", "inspect",
             folder_.write("n.jsonl", "{\"text\":\"a\",\"labels\":[\"x\"],\"n\":18446744073709551616}\n")}),
        1,
        {"n.jsonl:1: expected a JSON object", "numbers beyond 64 bits are not read: write them as strings"});
}

TEST_F(FirstUse, SparseRowsMayHaveNoFeatures) {
    const std::string rows = folder_.write("s.txt", "1 5:1\n2 6:1\n1 \n2 7:1\n");
    const Outcome outcome = run_elmo({"data", "inspect", rows, "--json", "--quiet", "--test-share", "0"});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "sparse")) << outcome.out;
}

TEST_F(FirstUse, ASearchThatTrainedNothingFails) {
    const Outcome outcome = run_elmo({"tune", data(), "--out", folder_.text("tuned"), "--encoder", "bag",
                                      "--width", "16", "--epochs", "1000000", "--budget", "1s"});
    EXPECT_EQ(outcome.status, 130) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "stopped before")) << outcome.err;
}

// Commands that are printed can be typed.
TEST_F(FirstUse, NamesWithBlanksAreInQuotesInCommands) {
    const std::string file = folder_.write("my set/x_train.csv", csv_rows(0, 60)),
                      test = folder_.write("my set/x_test.csv", "text\na cat here\n");
    const Outcome trained = run_elmo({"train", file, "--out", folder_.text("my run")});
    expect_success(trained);
    EXPECT_TRUE(contains(trained.err, "elmo predict RUN \"" + test + "\" answers it")) << trained.err;
    expect_failure(run_elmo({"eval", "--predictions", folder_.text("my run"), file}), 1,
                   {"score it with 'elmo eval \"" + folder_.text("my run") + "\" DATA'"});
}

TEST_F(FirstUse, ASearchSaysOnceWhatItsTrainingsSayOfTheData) {
    std::string rows = csv_rows(0, 100);
    for (int i = 100; i < 140; ++i) rows += text_of(i) + ",alone" + std::to_string(i) + "\n";
    const std::string data = folder_.write("rows.csv", rows);
    const Words small = {"--encoder", "bag", "--width", "16", "--vocab-size", "300", "--epochs", "1"};
    for (const Words& words :
         {Words{"tune", data, "--out", folder_.text("tuned"), "--trials", "2"},
          Words{"study", "bits", data, "--out", folder_.text("bits"), "--formats", "bf16 e3m4"}}) {
        const Outcome outcome = run_elmo(words + small);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const std::size_t said = outcome.err.find("never seen in training");
        EXPECT_NE(said, std::string::npos) << outcome.err;
        EXPECT_EQ(outcome.err.find("never seen in training", said + 1), std::string::npos) << outcome.err;
    }
}

TEST_F(FirstUse, EachCellOfAStudyReadsStandardInput) {
    const Outcome outcome =
        run_elmo({"study", "bits", "-", "--out", folder_.text("bits"), "--formats", "bf16 e3m4", "--width",
                  "16", "--vocab-size", "300", "--epochs", "1", "--cache", folder_.text("cache")},
                 csv_rows(0, 100));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "e3m4")) << outcome.out;
}

TEST_F(FirstUse, ExplainSaysWhatALinearModelDoesNotUse) {
    const Outcome outcome =
        run_elmo({"train", data(), "--encoder", "linear", "--out", folder_.text("x"), "--explain"});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "auto: linear does not use it")) << outcome.out;
    EXPECT_FALSE(contains(outcome.out, "no data is trained on")) << outcome.out;
}

TEST_F(FirstUse, AConvertedFolderOfWordsIsReadWithItsOwnSeparator) {
    std::string rows;
    for (int i = 0; i < 120; ++i)
        rows += fmt::format("word{} and more{}\t{};all\n", i % 4, i, kAnimals[i % 4]);
    const std::string data = folder_.write("rows.tsv", rows);
    expect_success(run_elmo({"train", data, "--label-separator", ";", "--out", folder_.text("run"), "-q"}));
    expect_success(run_elmo({"data", "convert", data, "--label-separator", ";", "--to", "raw", "--out",
                             folder_.text("raw"), "-q"}));
    const Outcome scored = run_elmo({"eval", folder_.text("run"), folder_.text("raw"), "-q"});
    EXPECT_EQ(scored.status, 0) << scored.err;
}

TEST_F(FirstUse, SlipsLeadToWhatIsThere) {
    folder_.write("pecos/Y.trn.npz", "");
    const std::string data = folder_.write("rows.csv", "id;message;tags\n1;a cat;b|c\n2;a dog;b\n");
    const std::string tabs = folder_.write("rows.tsv", "name\ttags\na cat\tb\na dog\tc\n");
    const std::string quoted = folder_.write("quoted.csv", "\"message\";\"tags\"\n\"a cat\";\"b|c\"\n");
    const std::pair<Words, const char*> slips[] = {
        {{"train", data, "--label-column", "tag", "--out", "x"}, "(did you mean 'tags'?)"},
        {{"train", tabs, "--text-column", "nam", "--label-column", "tags", "--out", "x"},
         "(did you mean 'name'?)"},
        {{"train", data, "--text-column", "mesage", "--out", "x"}, "(did you mean 'message'?)"},
        {{"train", quoted, "--text-column", "mesage", "--out", "x"}, "(did you mean 'message'?)"},
        {{"train", folder_.write("mac.csv", "text,labels\ra cat,b\ra dog,c\r"), "--out", "x"},
         "a carriage return alone"},
        {{"train", folder_.write("macs.csv", "\"text\",\"labels\"\r\"a cat\",\"b\"\r"), "--out", "x"},
         "a carriage return alone"},
        {{"train", folder_.write("macq.csv", "text,labels\r\"a cat\",b\r"), "--out", "x"},
         "a carriage return alone"},
        {{"train", folder_.write("blank.csv", "\ntext,labels\na cat,b\n"), "--out", "x"},
         "its first line is empty: remove it"},
        {{"predict", run(), "--k", "3", "--text", "a cat"}, "(did you mean '--top'?)"},
        {{"train", data, data, "--out", "x"}, "train_raw_texts.txt"},
        {{"train", folder_.write("pecos/X.trn.txt", "a\n"), "--out", "x"}, "name the folder"},
        {{"data", "filter", data, "--out", data, "--filters", "own"}, "--to xmc"},
        {{"data", "inspect", folder_.write("many.json", "[\n {\n  \"text\": \"a\"\n }\n]\n")}, "jq -c .[]"},
        {{"data", "inspect", folder_.write("open.json", "{\n  \"text\": \"a\"\n}\n")}, "jq -c ."}};
    for (const auto& [words, advice] : slips) {
        const Outcome outcome = run_elmo(words);
        EXPECT_NE(outcome.status, 0) << advice;
        EXPECT_TRUE(contains(outcome.err, advice)) << outcome.err;
    }
    // What is said once is enough.
    const Outcome inspected = run_elmo(
        {"data", "inspect", folder_.write("latin.csv", "message;tags\nein B\xe4r;b|c\na dog;b|d\n")});
    EXPECT_EQ(inspected.status, 0) << inspected.err;
    const std::size_t said = inspected.err.find("read with");
    EXPECT_NE(said, std::string::npos) << inspected.err;
    EXPECT_EQ(inspected.err.find("read with", said + 1), std::string::npos) << inspected.err;
    // Nothing is begun where there is nothing to begin with.
    folder_.write("stopped/log.jsonl", "");
    const Outcome resumed = run_elmo({"train", "--out", folder_.text("stopped"), "--resume"});
    EXPECT_NE(resumed.status, 0);
    EXPECT_FALSE(contains(resumed.err, "starting from the beginning")) << resumed.err;
}

TEST_F(FirstUse, ExplainNamesTheFormatThatIsUsed) {
    std::string rows;
    for (int i = 0; i < 80; ++i)
        rows += fmt::format("{{\"text\": \"{}\", \"labels\": [\"{}\"]}}\n", text_of(i), kAnimals[i % 4]);
    const std::string json = folder_.write("rows.jsonl", rows);
    expect_success(run_elmo({"train", json, "--format", "jsonl", "--out", folder_.text("run"), "--quiet"}));
    const auto format = [&](const std::string& file) {
        const Outcome shown = run_elmo({"eval", folder_.text("run"), file, "--explain", "--json"});
        EXPECT_EQ(shown.status, 0) << shown.err;
        return Json::parse(shown.out)["format"]["value"].get<std::string>();
    };
    EXPECT_EQ(format(json), "jsonl");
    EXPECT_EQ(format(folder_.write("other.csv", csv_rows(0, 40))), "auto");
}

TEST_F(FirstUse, DoubtsAreSaidAtEveryTraining) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 60; ++i)
        rows += "text " + std::to_string(i) + "," + (i % 2 == 0 ? "None" : "full") + "\n";
    const std::string data = folder_.write("rows.csv", rows);
    for (const char* out : {"first", "second"}) {
        const Outcome trained = run_elmo({"train", data, "--out", folder_.text(out)});
        expect_success(trained);
        const std::size_t at = trained.err.find("'None' is a label of ");
        ASSERT_NE(at, std::string::npos) << out << ": " << trained.err;
        EXPECT_EQ(trained.err.find("'None' is a label of ", at + 1), std::string::npos) << "once";
    }
}

TEST_F(FirstUse, ExplainListsPunctuation) {
    const Outcome outcome = run_elmo({"explain", run(), "--text", "a dog!", "--json", "--quiet"});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "\"!\"")) << outcome.out;
}

TEST_F(FirstUse, FinishedAnswersOfAnotherRunAreNotComplete) {
    const std::string other = folder_.write("other.csv", csv_rows(500, 600));
    expect_success(run_elmo({"train", other, "--out", folder_.text("other"), "--quiet"}));
    const std::string texts = folder_.write("texts.txt", "a dog in the rain\n");
    for (const char* name : {"answers.jsonl", "answers.csv"}) {
        const Words predict = {texts, "--out", folder_.text(name), "--quiet"};
        expect_success(run_elmo(Words{"predict", run()} + predict));
        expect_success(run_elmo(Words{"predict", run()} + predict + Words{"--resume"}));
        const std::string before = folder_.text(name);
        expect_failure(run_elmo(Words{"predict", folder_.text("other")} + predict + Words{"--resume"}), 2,
                       {name, "is complete, but was made by another checkpoint", "/run/best", "--overwrite"});
        expect_failure(run_elmo(Words{"predict", run()} + predict + Words{"--resume", "--top", "2"}), 2,
                       {"was made with another top"});
        expect_success(run_elmo(Words{"predict", folder_.text("other")} + predict + Words{"--overwrite"}));
        expect_success(run_elmo(Words{"predict", folder_.text("other")} + predict + Words{"--resume"}));
    }
}

TEST_F(FirstUse, AnswersAreNotWrittenUnderTheNameOfAnotherFormat) {
    const std::string texts = folder_.write("texts.txt", "a dog in the rain\n");
    for (const char* name : {"answers.parquet", "answers.tsv", "answers.jsonl.gz"}) {
        expect_failure(run_elmo({"predict", run(), texts, "--out", folder_.text(name)}), 2,
                       {name, "answers are JSON lines (.jsonl) or CSV (.csv)"});
        EXPECT_FALSE(fs::exists(folder_.path(name))) << name;
    }
    expect_success(run_elmo({"predict", run(), texts, "--out", folder_.text("ANSWERS.CSV")}));
    EXPECT_TRUE(slurp(folder_.path("ANSWERS.CSV")).starts_with("line,labels"));
}

TEST_F(FirstUse, AMissingKeyNamesTheFlags) {
    const std::string data = folder_.write("rows.jsonl", "{\"words\": \"a\", \"kinds\": [\"x\"]}\n");
    const Words train = {"train", data, "--out", folder_.text("run"), "--quiet"};
    expect_failure(run_elmo(train), 1, {"rows.jsonl:1: expected the key 'text'", "--text-column"});
    expect_failure(run_elmo(train + Words{"--text-column", "words"}), 1,
                   {"rows.jsonl:1: expected the key 'labels'", "--label-column"});
}

TEST_F(FirstUse, AFailedComparisonLeavesNoScores) {
    const std::string other = folder_.write("other.csv", csv_rows(500, 600));
    expect_success(run_elmo({"train", other, "--out", folder_.text("other"), "--quiet"}));
    const std::string bad = folder_.write("bad.csv", "text,labels\none,nothing\ntwo,known\n");
    expect_success(run_elmo({"train", other, "--out", folder_.text("first"), "--quiet"}));
    fs::create_directories(folder_.path("broken/best"));
    folder_.write("broken/best/manifest.json", "{}");
    const Outcome failed =
        run_elmo({"eval", folder_.text("first"), folder_.text("broken"), other, "--quiet"});
    EXPECT_NE(failed.status, 0);
    EXPECT_FALSE(fs::exists(folder_.path("first/scores.jsonl")));
    expect_success(run_elmo({"eval", folder_.text("first"), folder_.text("other"), other, "--quiet"}));
    EXPECT_TRUE(fs::exists(folder_.path("first/scores.jsonl")));
    EXPECT_TRUE(fs::exists(folder_.path("other/scores.jsonl")));
}

TEST_F(FirstUse, AComparisonPrintsTheScoresAtAThreshold) {
    std::string rows = csv_rows(500, 600);
    for (std::size_t at; (at = rows.find(",cat\n")) != rows.npos;) rows.replace(at, 5, ",dog\n");
    const std::string other = folder_.write("other.csv", rows + "nothing here,cat\n"),
                      second = folder_.text("second");
    expect_success(run_elmo({"train", other, "--out", second, "--test-share", "0", "--quiet"}));
    const Words compare = {"eval", run(), second, folder_.write("new.csv", csv_rows(700, 760)), "--quiet"};
    EXPECT_FALSE(contains(run_elmo(compare).out, "F1"));
    const Outcome at = run_elmo(compare + Words{"--threshold", "0.3"});
    expect_success(at);
    const Json found = Json::parse(run_elmo(compare + Words{"--threshold", "0.3", "--json"}).out);
    const double one = found["first"]["at_threshold"]["micro"]["F1"],
                 two = found["second"]["at_threshold"]["micro"]["F1"];
    EXPECT_LT(two, one);
    std::istringstream lines(at.out);
    std::string line, word;
    while (std::getline(lines, line) && !line.starts_with("micro F1"))
        ;
    std::istringstream words(line);
    Words cells;
    while (words >> word) cells.push_back(word);
    EXPECT_EQ(cells, (Words{"micro", "F1", fmt::format("{:.2f}", one), fmt::format("{:.2f}", two),
                            fmt::format("{:+.2f}", two - one)}))
        << at.out;
    EXPECT_TRUE(contains(at.out, "0.3000, given, of raw probabilities")) << at.out;
    // Only one of the two has a threshold.
    expect_success(run_elmo({"calibrate", second, "--validation", other, "--quiet"}));
    const Outcome half = run_elmo(compare);
    expect_success(half);
    EXPECT_TRUE(contains(half.out, "none: not calibrated, and no --threshold")) << half.out;
    EXPECT_TRUE(contains(half.out, "calibrated: the largest F1")) << half.out;
}

// Both runs are to read the rows of one of them; nobody gave the share that says which these are.
TEST_F(FirstUse, AComparisonNamesTheRunAndOnlyFlagsThatWereGiven) {
    const std::string train = folder_.write("set/train.csv", csv_rows(300, 400)),
                      first = folder_.text("first"), test = folder_.write("set/test.csv", csv_rows(400, 420)),
                      second = folder_.text("second"), both = folder_.write("both.csv", csv_rows(380, 450));
    expect_success(run_elmo({"train", train, "--out", first, "--quiet"}));
    expect_success(run_elmo({"train", both, "--out", second, "--test-share", "0", "--quiet"}));
    const Outcome outcome = run_elmo({"eval", first, second, train});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, " of 20 scored texts trained " + second + ",")) << outcome.err;
    EXPECT_FALSE(contains(outcome.err, "test-share")) << outcome.err;
    EXPECT_FALSE(contains(outcome.err, "this run")) << outcome.err;
    const Outcome given = run_elmo({"eval", first, second, train, "--test-share", "0.2"});
    expect_success(given);
    EXPECT_TRUE(contains(given.err, "--test-share 0.2 has no part in this")) << given.err;
    // Names of files stay what they are.
    const std::string same = folder_.write("what trained this run.csv", csv_rows(380, 450));
    const Outcome named = run_elmo({"eval", first, second, same, "--split", "all"});
    expect_success(named);
    EXPECT_TRUE(contains(named.err, same + ": 70 of 70 scored texts trained " + second + ",")) << named.err;
    expect_failure(run_elmo({"eval", first, second, train, "--label-thresholds"}), 2,
                   {first + ": label_thresholds: the run has none"});
}

TEST_F(FirstUse, FilterFilesOfNamedLabelsHaveToBeGiven) {
    const Outcome made = run_elmo({"data", "filter", data(), "--out", folder_.text("filters"), "--quiet"});
    expect_success(made);
    const std::string file = folder_.text("filters/tst_filter_labels.txt");
    EXPECT_TRUE(contains(made.err, "give it with --filter " + file)) << made.err;
    expect_success(run_elmo({"eval", run(), data(), "--filter", file, "--quiet"}));
    write_small_data(folder_, "numbers");
    const Outcome numbers =
        run_elmo({"data", "filter", folder_.text("numbers"), "--out", folder_.text("numbers"), "--quiet"});
    expect_success(numbers);
    EXPECT_FALSE(contains(numbers.err, "--filter")) << numbers.err;
}

TEST_F(FirstUse, LabelsThatAreAllKnownAreNoWarning) {
    const std::string few = folder_.write("few.csv", "text,labels\na new dog,dog\nan old cat,cat\n");
    const Outcome outcome = run_elmo({"eval", run(), few});
    expect_success(outcome);
    EXPECT_FALSE(contains(outcome.err, "warning")) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "by name: all 2 of the data are in the run, which has 4"))
        << outcome.out;
    EXPECT_FALSE(contains(outcome.out, " 1 labels")) << outcome.out;
}

TEST_F(FirstUse, LabelsWrittenOtherwiseThanInTrainingNameTheFlag) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 40; ++i)
        rows += text_of(i) + "," + kAnimals[i % 4] + "|" + kAnimals[(i + 1 + i % 2) % 4] + "\n";
    const std::string bars = folder_.write("bars.csv", rows);
    expect_failure(run_elmo({"eval", run(), bars, "--label-separator", ",", "--quiet"}), 1,
                   {"these are not the labels of the run", "--label-separator"});
    rows = "text,labels\n";
    for (int i = 0; i < 8; ++i) rows += text_of(i) + "," + (i < 5 ? "DOG" : "CAT") + "\n";
    expect_failure(run_elmo({"eval", run(), folder_.write("upper.csv", rows), "--quiet"}), 1,
                   {"the data has 'DOG', for example, and the run 'cat'"});
}

// Most labels of a long tail are in one row: those of a test file that no training row has may be more than
// half of its labels, but not of its positives.
TEST_F(FirstUse, ATestFileWhoseRareLabelsAreNewIsScored) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 12; ++i)
        rows +=
            "a new " + text_of(i) + "," + kAnimals[i % 4] + (i < 6 ? ";by " + std::to_string(i) : "") + "\n";
    const std::string tail = folder_.write("tail.csv", rows);
    const Outcome outcome = run_elmo({"eval", run(), tail, "--label-separator", ";"});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "6 of the data's 10 are not in the run")) << outcome.err;
    EXPECT_TRUE(contains(outcome.out,
                         "), N 181, counts of the training set, plain; of 6 labels that the run does not "
                         "have, the scored data\n"))
        << outcome.out;
    std::string other = "text,labels\n";
    for (int i = 0; i < 12; ++i)
        other += "a new " + text_of(i) + "," + (i < 5 ? kAnimals[i % 4] : "by " + std::to_string(i)) + "\n";
    const std::string strange = folder_.write("strange.csv", other);
    expect_failure(run_elmo({"eval", run(), strange, "--quiet"}), 1,
                   {"these are not the labels of the run", "of which 4 are the run's", "5 of 12 positives"});
}

TEST_F(FirstUse, ALabelWeightedTwiceIsRefused) {
    const std::string weights = folder_.write("weights.tsv", "dog\t2\ncat\t3\ndog\t4\n");
    expect_failure(
        run_elmo({"train", data(), "--out", folder_.text("run"), "--label-weights", weights, "--quiet"}), 1,
        {"weights.tsv:3", "expected each label once, found 'dog' again, after line 1"});
}

TEST_F(FirstUse, MoreEpochsOfAFinishedRunPointToInit) {
    write_small_data(folder_, "data");
    const Words train = Words{"train", folder_.text("data"), "--out", folder_.text("run")};
    expect_success(run_elmo(train + small_model()));
    expect_failure(run_elmo({"train", "--out", folder_.text("run"), "--resume", "--epochs", "40", "--quiet"}),
                   2, {"the run has epochs = 20, found 40", "--init RUN --out NEW"});
}

TEST_F(FirstUse, FlagsOfOtherProgramsAreAnswered) {
    const std::pair<Words, std::string> cases[] = {
        {{"train", "d", "-lr", "0.5"}, "did you mean '--encoder-lr' or '--head-lr'?"},
        {{"train", "d", "-epoch", "5"}, "did you mean '--epochs'?"},
        {{"train", "d", "-wordNgrams", "2"}, "takes words, word pairs and letters by itself"},
        {{"train", "d", "-minn", "3"}, "takes words, word pairs and letters by itself"},
        {{"train", "d", "-minCount", "3"}, "counts"},
        {{"train", "d", "-loss", "ova"}, "yes or no of its own"},
        {{"train", "d", "-input", "f"}, "did you mean '--data'?"},
        {{"train", "d", "-autotune-duration", "600"}, "elmo tune"},
        {{"train", "d", "--nr-splits", "16"}, "label trees"},
        {{"train", "d", "--max-leaf-size", "100"}, "label trees"},
        {{"train", "d", "--n_trees", "3"}, "label trees"},
        {{"train", "d", "--linear.c", "1"}, "constants are fixed"},
        {{"train", "d", "-k", "5"}, "predict --top, eval --k"},
        {{"train", "d", "-t", "4"}, "did you mean '--threads'?"},
        {{"predict", "r", "-k", "5"}, "did you mean '--top'?"},
        {{"predict", "r", "--model-path", "m"}, "a run is a folder"},
    };
    for (const auto& [words, answer] : cases) expect_failure(run_elmo(words), 2, {"unknown flag", answer});
}

TEST_F(FirstUse, ATokenFileThatOthersCanReadIsAWarning) {
    const std::string tokens = folder_.write("tokens", "secret\n");
    const auto serve = [&] {
        const std::string out = folder_.text("out");
        return run_shell("\"$ELMO\" serve " + run() + " --port 0 --token-file " + tokens + " > " + out +
                         " & child=$!; until grep -q ready " + out +
                         "; do kill -0 $child || break; sleep 0.1; done; kill -TERM $child; wait $child");
    };
    fs::permissions(tokens, fs::perms(0644));
    EXPECT_TRUE(contains(serve().err, "can read the tokens (mode 644); chmod 600 closes it"));
    fs::permissions(tokens, fs::perms(0600));
    const Outcome closed = serve();
    EXPECT_FALSE(contains(closed.err, "can read the tokens")) << closed.err;
}

TEST_F(FirstUse, ASearchThatIsNoneIsRefused) {
    const Outcome outcome = run_elmo({"predict", run(), "--text", "a cat", "--search", "aproximate"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(contains(outcome.err, "search: expected one of exact, approximate, found 'aproximate'"))
        << outcome.err;
}

TEST_F(FirstUse, WhatIsReadIsNotReplaced) {
    folder_.write("texts.txt", "a cat\n");
    const Outcome answers = run_elmo(
        {"predict", run(), folder_.text("texts.txt"), "--out", folder_.text("texts.txt"), "--overwrite"});
    EXPECT_EQ(answers.status, 2);
    EXPECT_TRUE(contains(answers.err, "holds the texts to answer")) << answers.err;
    EXPECT_EQ(fs::file_size(folder_.text("texts.txt")), 6u);
    const auto bytes = fs::file_size(data());
    const Outcome page = run_elmo({"report", run(), "--out", data(), "--overwrite"});
    EXPECT_EQ(page.status, 2);
    EXPECT_TRUE(contains(page.err, "is what the report is about")) << page.err;
    EXPECT_EQ(fs::file_size(data()), bytes);
}

TEST_F(FirstUse, AFolderOfOtherThingsIsNotResumed) {
    folder_.write("notes.txt", "mine\n");
    const Outcome outcome = run_elmo({"train", data(), "--out", folder_.text(""), "--resume"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(contains(outcome.err, "holds 'notes.txt' and no run")) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_.text("log.jsonl")));
}

TEST_F(FirstUse, AHyphenIsNoFileOfAnswers) {
    folder_.write("texts.txt", "a cat\n");
    const Outcome outcome = run_elmo({"predict", run(), folder_.text("texts.txt"), "--out", "-"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(contains(outcome.err, "answers go to standard output")) << outcome.err;
}

TEST_F(FirstUse, ExplainedWordsAreThoseOfLargestEffect) {
    const Words call = {"explain", run(), "--text", "number 3 is about a cat or a dog in house 8 and 9",
                        "--top",   "1"};
    const Outcome table = run_elmo(call + Words{"--quiet"});
    expect_success(table);
    EXPECT_TRUE(contains(table.out, "words of less effect (--json has all)")) << table.out;
    const Json all = Json::parse(run_elmo(call + Words{"--json", "--quiet"}).out);
    const auto effects = all.at("labels").at(0).at("effects").get<std::vector<double>>();
    const double least = *std::min_element(effects.begin(), effects.end());
    ASSERT_LT(least, -0.001);
    EXPECT_TRUE(contains(table.out, fmt::format("{:+.3f}", least))) << table.out << least;
}

TEST_F(FirstUse, GroupsOfExplainedWordsAreNoWords) {
    std::string text = "cat";
    for (int i = 1; i < 300; ++i) text += " word" + std::to_string(i);
    const Outcome grouped = run_elmo({"explain", run(), "--text", text, "--top", "1", "--quiet"});
    expect_success(grouped);
    EXPECT_TRUE(contains(grouped.out, "  142 groups of 2 words of less effect (--json has all)"))
        << grouped.out;
}

TEST_F(FirstUse, LinearSaysThatItCutTexts) {
    const Words train = {"train", data(), "--encoder", "linear", "--out", folder_.text("x"), "--overwrite"};
    const Outcome cut = run_elmo(train + Words{"--max-length", "6"});
    expect_success(cut);
    EXPECT_TRUE(contains(cut.err, "texts cut at 6 tokens (max_length)")) << cut.err;
    const Outcome whole = run_elmo(train);
    expect_success(whole);
    EXPECT_FALSE(contains(whole.err, "cut at")) << whole.err;
    const Outcome shown = run_elmo(train + Words{"--explain"});
    EXPECT_TRUE(contains(shown.out, "auto: linear takes texts of up to 65,536 tokens whole")) << shown.out;
    std::string longest = csv_rows(0, 40) + "cat";
    for (int i = 0; i < 70'000; ++i) longest += " x";
    const Outcome long_text =
        run_elmo({"train", folder_.write("long.csv", longest + ",cat\n"), "--test-share", "0", "--validation",
                  "0", "--encoder", "linear", "--out", folder_.text("y")});
    expect_success(long_text);
    EXPECT_TRUE(contains(long_text.err, "1 text cut at 65536 tokens (max_length)")) << long_text.err;
}

TEST_F(FirstUse, FeaturesAreCutAtNoLength) {
    std::string rows = "40 400 2\n";
    for (int i = 0; i < 40; ++i) {
        rows += std::to_string(i % 2);
        for (int f = 0; f < 200; ++f) rows += fmt::format(" {}:1", 2 * f + i % 2);
        rows += "\n";
    }
    const Outcome shown = run_elmo({"train", folder_.write("rows.txt", rows), "--encoder", "bag", "--out",
                                    folder_.text("x"), "--explain"});
    expect_success(shown);
    EXPECT_TRUE(contains(shown.out, "auto: bag-of-words features are cut at no length")) << shown.out;
    EXPECT_FALSE(contains(shown.out, "are longer")) << shown.out;
}

TEST_F(FirstUse, InspectOfARunBeforeItsFirstCheckpointSaysSo) {
    folder_.write("begun/log.jsonl", "{}\n");
    folder_.write("begun/recipe.toml", "data = \"rows.csv\"\n");
    expect_failure(run_elmo({"inspect", folder_.text("begun")}), 1,
                   {"expected a checkpoint 'best', found none; has this run saved one yet?"});
    // A data set may have a log beside it.
    folder_.write("data/log.jsonl", "{}\n");
    folder_.write("data/train.csv", csv_rows(0, 20));
    expect_success(run_elmo({"inspect", folder_.text("data"), "--quiet"}));
}

// All rows of the file, whatever the training data was or is.
TEST_F(FirstUse, CalibrationOnAFileNeedsNoTrainingData) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 200)), trained = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", trained, "--quiet"}));
    std::string renamed = csv_rows(300, 500);
    renamed.replace(0, renamed.find('\n'), "sentence,tags");
    std::string lines;
    for (int i = 300; i < 500; ++i)
        lines += fmt::format("{{\"text\": \"{}\", \"labels\": [\"{}\"]}}\n", text_of(i), kAnimals[i % 4]);
    const Words files = {folder_.write("fresh.csv", csv_rows(300, 500)), folder_.write("named.csv", renamed),
                         folder_.write("lines.jsonl", lines)};
    std::string first;
    for (const bool gone : {false, true}) {
        if (gone) fs::remove(data);
        for (const std::string& file : files) {
            const Outcome outcome = run_elmo({"calibrate", trained, "--validation", file});
            expect_success(outcome);
            EXPECT_TRUE(contains(outcome.out, "200 validation texts")) << outcome.out;
            if (first.empty()) first = outcome.out;
            EXPECT_EQ(outcome.out, first) << file;
        }
    }
    expect_failure(run_elmo({"calibrate", trained}), 1, {"rows.csv: no such file or folder"});
    expect_failure(run_elmo({"calibrate", trained, "--validation", folder_.text("nosuch.csv")}), 2,
                   {"validation: ", "nosuch.csv': no such file"});
    expect_failure(
        run_elmo({"train", files[0], "--out", folder_.text("x"), "--validation", "nosuch.csv"}), 2,
        {"validation: expected a share from 0 to below 1, or a file, found 'nosuch.csv': no such file"});
}

TEST_F(FirstUse, RowsWithoutLabelsAreNotCalledTrainingRowsWhereNothingTrains) {
    std::string rows = "text,labels\n";
    for (int i = 300; i < 360; ++i)
        rows += text_of(i) + "," + (i % 3 == 0 ? kAnimals[i % 4] : std::string()) + "\n";
    const Outcome outcome = run_elmo({"eval", run(), folder_.write("sparse.csv", rows)});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, ": 40 of 60 rows have no labels")) << outcome.err;
}

TEST_F(FirstUse, AFolderOfTextFilesIsNamed) {
    folder_.write("flat/a.txt", "one");
    folder_.write("flat/b.txt", "two");
    folder_.write("deep/cat/a.txt", "one");
    folder_.write("deep/dog/b.txt", "two");
    expect_failure(run_elmo({"data", "inspect", folder_.text("flat"), "--quiet"}), 1,
                   {"expected one file with a row per text, found 2 .txt files", "data.jsonl"});
    expect_failure(run_elmo({"data", "inspect", folder_.text("deep"), "--quiet"}), 1,
                   {"found 2 folders with 2 .txt files", "f.parent.name", "data.jsonl"});
}

TEST_F(FirstUse, FilesWithoutRowsSayWhatIsMissing) {
    const auto train = [&](const std::string& file) {
        return run_elmo({"train", file, "--out", folder_.text("run"), "--quiet"});
    };
    expect_failure(train(folder_.write("head.csv", "text,labels\n")), 1,
                   {"head.csv: expected rows after the header, found none"});
    expect_failure(train(folder_.write("empty.csv", "")), 1,
                   {"empty.csv: expected rows, found an empty file"});
    expect_failure(train(folder_.write("empty.jsonl", "")), 1,
                   {"empty.jsonl: expected rows, found an empty file"});
    expect_failure(train(folder_.write("empty.txt", "\n\n")), 1, {"empty.txt: expected rows, found"});
    expect_failure(train(folder_.write("empty", "")), 1, {"empty: expected rows, found an empty file"});
    // Of files of one row some hold it out.
    bool held_out = false;
    for (int i = 0; i < 100 && !held_out; ++i) {
        const std::string file =
            folder_.write(fmt::format("one{}.csv", i), fmt::format("text,labels\nrow {},a\n", i));
        const Outcome inspected = run_elmo({"data", "inspect", file, "--quiet"});
        held_out = inspected.status != 0;
        if (!held_out) continue;
        for (const Outcome& refused : {inspected, train(file)})
            expect_failure(refused, 1, {"all rows are in the test share (0.1,", "give --test-share 0"});
    }
    EXPECT_TRUE(held_out);
}

TEST_F(FirstUse, ALineWithoutATabSaysHowATextWithoutLabelsIsWritten) {
    const std::string file = folder_.write("t.tsv", "some words\ta\nmore words\tb\nno labels here\n");
    expect_failure(run_elmo({"data", "inspect", file, "--quiet"}), 1,
                   {"t.tsv:3: expected 'text<TAB>label,label', found 1 field in 'no labels here'; a text "
                    "without labels ends in a tab"});
}

TEST_F(FirstUse, ATableOnAPipeIsRefusedAndNotAnsweredLineByLine) {
    const std::string table = "\"id\";\"text\"\n\"1\";\"" + text_of(50) + "\"\n";
    expect_failure(run_elmo({"predict", run()}, table), 1,
                   {"standard input:1: expected lines of text, or JSON lines, found the header of a table",
                    "a table is read twice: save it and name the file", "--input text"});
    expect_success(run_elmo({"predict", run(), "--input", "text"}, table));
    expect_success(run_elmo({"predict", run()}, "some text, and words\n"));
    // Columns by other names than the run's, as a file of them is read by.
    expect_failure(run_elmo({"predict", run()}, "id,Sentence,Tags\n1," + text_of(50) + ",cat\n"), 1,
                   {"standard input:1: expected lines of text, or JSON lines, found the header of a table"});
    for (const char* text : {"Sentence, of words\n", "the tags, and a sentence\n"})
        expect_success(run_elmo({"predict", run()}, text));
    expect_failure(run_elmo({"predict", run(), "--text-column", "text"}, "a;b\nc;d\n"), 1,
                   {"expected JSON lines, as --text-column asks for", "a table is read twice"});
    const std::string pipe = folder_.text("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    expect_failure(run_elmo({"predict", run(), pipe, "--out", folder_.text("answers.csv")}), 1,
                   {"pipe: expected a file, found a pipe or a device", "save it to a file first"});
}

TEST_F(FirstUse, PredictionsOfValidationRowsNeedTheirTexts) {
    folder_.write("p.txt", "1 1\n0:1\n");
    expect_failure(
        run_elmo({"eval", "--predictions", folder_.text("p.txt"), data(), "--split", "validation"}), 2,
        {"split: which rows validate depends on their texts", "elmo eval RUN DATA --split validation",
         "--equal-texts apart"});
}

TEST_F(FirstUse, LabelsInAFixedPlaceAreSeveral) {
    std::string rows = "text,labels\n";
    const char* colours[] = {"red", "green", "blue"};
    const char* sizes[] = {"small", "large", "huge"};
    for (int i = 0; i < 45; ++i)
        rows += "thing " + std::to_string(i) + "," + colours[i % 3] + ";" + sizes[i / 3 % 3] + "\n";
    const std::string data = folder_.write("rows.csv", rows);
    const Outcome outcome = run_elmo({"data", "inspect", data, "--json"});
    expect_success(outcome);
    EXPECT_EQ(Json::parse(outcome.out)["labels"], 6) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "--label-separator ';'")) << outcome.err;
}

TEST_F(FirstUse, ATrainingFileWithoutItsTestFileIsNotHeldOut) {
    std::string rows = "text,labels\n";  // each has a label that no other one has
    for (int i = 0; i < 100; ++i) rows += fmt::format("{},{};own{}\n", text_of(i), kAnimals[i % 4], i);
    const std::string train = folder_.write("set/train.csv", rows), run = folder_.text("run");
    folder_.write("set/test.csv", csv_rows(100, 120));
    expect_success(run_elmo({"train", train, "--out", run, "--label-separator", ";", "--quiet"}));
    EXPECT_EQ(scores({run})["protocol"]["samples"], 20);
    const std::string copy = folder_.write("elsewhere/train.csv", rows);
    for (const bool gone : {false, true}) {
        if (gone) fs::remove_all(folder_.path("set"));
        const Outcome outcome = run_elmo({"eval", run, copy});
        expect_success(outcome);
        EXPECT_TRUE(contains(outcome.err, "of 100 scored texts trained this run")) << outcome.err;
        EXPECT_TRUE(contains(outcome.out, "nothing of them was held out")) << outcome.out;
        EXPECT_FALSE(contains(outcome.out, "own data")) << outcome.out;
        EXPECT_FALSE(contains(outcome.err, "left out")) << outcome.err;  // of rows that are not held out
    }
}

TEST_F(FirstUse, DataThatWasReplacedByItsNameStaysKnown) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 100)), run = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--quiet"}));
    fs::rename(folder_.write("new.csv", csv_rows(0, 110)), data);
    const Outcome outcome = run_elmo({"eval", run});
    expect_success(outcome);
    fs::remove(data);
    expect_failure(run_elmo({"eval", run}), 1, {"rows.csv: no such file or folder"});
}

TEST_F(FirstUse, SlipsInNamesOfFiles) {
    const std::string runs = fs::path(run()).parent_path().string();
    expect_failure(run_elmo({"eval", run(), runs + "/rosw.csv"}), 1, {"(did you mean 'rows.csv'?)"});
    expect_failure(run_elmo({"predict", run(), runs + "/row.csv"}), 1, {"(did you mean 'rows.csv'?)"});
    expect_failure(run_elmo({"eval", runs + "/rnu", data()}), 1, {"found nothing (did you mean 'run'?)"});
    // A folder is not taken for one of texts because of what lies deeper in it.
    folder_.write("a.csv", csv_rows(0, 9));
    for (const char* name : {"x/1.txt", "x/2.txt", "y/3.txt"}) folder_.write(name, "a text");
    expect_failure(run_elmo({"train", folder_.text(""), "--out", folder_.text("run")}), 1,
                   {"expected a file named like train.csv, found a.csv; name the one to read"});
}

TEST_F(FirstUse, TheSecondRunReadsTheDataBeforeTheFirstIsScored) {
    const auto trained = [&](const std::string& column) {  // on texts in a column that is called so
        const std::string rows = csv_rows(0, 60);
        const std::string data = folder_.write(column + ".csv", column + rows.substr(rows.find(',')));
        const std::string out = folder_.text("run_" + column);
        expect_success(run_elmo({"train", data, "--text-column", column, "--out", out, "--quiet"}));
        return out;
    };
    // The columns of both, but further down only that of the first.
    const std::string data =
        folder_.write("both.jsonl", R"({"alpha": "a cat here", "omega": "a cat here", "labels": ["cat"]})"
                                    "\n"
                                    R"({"alpha": "a dog", "labels": ["dog"]})"
                                    "\n");
    const Outcome outcome = run_elmo({"eval", trained("alpha"), trained("omega"), data});
    expect_failure(outcome, 1, {"both.jsonl:2: expected the key 'omega'"});
    EXPECT_FALSE(contains(outcome.err, "scoring")) << outcome.err;
}

TEST_F(FirstUse, ATabSeparatedFileSaysItsColumnsOfText) {
    const std::string named = folder_.write("named.tsv", "title\ttags\na cat here\tcat\na dog\tdog\n");
    const std::string plain = folder_.write("plain.tsv", "a cat here\tcat\na dog\tdog\n");
    const auto format = [](const Words& words) {
        return Json::parse(
            run_elmo(Words{"data", "inspect"} + words + Words{"--json", "--quiet"}).out)["format"];
    };
    EXPECT_EQ(format({named, "--text-column", "title", "--label-column", "tags"}),
              "plain file, tab-separated (text: title)");
    EXPECT_EQ(format({plain}), "plain file, tab-separated");
    EXPECT_EQ(format({plain, "--columns", "text,labels"}), "plain file, tab-separated (text: text)");
}

TEST_F(FirstUse, BlanksAroundATextDoNotDivideEqualTexts) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 200; ++i)
        for (const char* form : {"%", "\"  %\"", "\"% \"", "\"%\t\n\""}) {
            std::string row = form;
            row.replace(row.find('%'), 1, text_of(i));
            rows += row + "," + kAnimals[i % 4] + "\n";
        }
    const std::string data = folder_.write("rows.csv", rows), run = folder_.text("run");
    for (const std::string way : {"together", "apart"}) {
        expect_success(
            run_elmo({"train", data, "--out", run, "--equal-texts", way, "--overwrite", "--quiet"}));
        const Json own = scores({run});
        if (way == "together") {
            EXPECT_EQ(own["protocol"]["samples"].get<int>() % 4, 0) << own;
        }
        EXPECT_EQ(own["protocol"].value("trained_samples", 0) == 0, way == "together") << own;
    }
}

TEST_F(FirstUse, AConvertedFileIsReadWithItsOwnSeparator) {
    const char* more[] = {"wild", "tame", "small"};
    std::string rows = "text,labels\n";
    for (int i = 0; i < 200; ++i)
        rows += text_of(i) + "," +
                (i % 2 == 0 ? std::string(kAnimals[i % 4]) + ";" + more[i % 3]
                            : std::string(more[i % 3]) + ";" + kAnimals[i % 4]) +
                "\n";
    const std::string data = folder_.write("rows.csv", rows), run = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--quiet"}));
    for (const std::string form : {"tsv", "csv", "jsonl"}) {
        expect_success(run_elmo({"data", "convert", data, "--to", form, "--out", folder_.text(form)}));
        const Outcome outcome = run_elmo({"eval", run, folder_.text(form)});
        expect_success(outcome);
        EXPECT_FALSE(contains(outcome.err, "not in the run")) << form << outcome.err;
        EXPECT_EQ(scores({run, folder_.text(form)})["protocol"]["samples"],
                  scores({run})["protocol"]["samples"])
            << form;
    }
    // Nothing in the fields shows that what stands beside the first name is another one.
    rows = "text,labels\n";
    for (int i = 0; i < 200; ++i) rows += fmt::format("{},any|name{}\n", text_of(i), i % 20);
    const std::string bars = folder_.write("bars.csv", rows);
    const Words separator = {"--label-separator", "|"};
    expect_success(run_elmo(Words{"train", bars, "--out", folder_.text("bars"), "--quiet"} + separator));
    expect_success(
        run_elmo(Words{"data", "convert", bars, "--to", "csv", "--out", folder_.text("commas"), "--quiet"} +
                 separator));
    EXPECT_EQ(scores({folder_.text("bars"), folder_.text("commas")})["P@1"],
              scores({folder_.text("bars")})["P@1"]);
}

TEST_F(FirstUse, AHeaderThatIsReadAsARowIsADoubt) {
    std::string rows;
    for (int i = 0; i < 40; ++i) rows += text_of(i) + "\t" + kAnimals[i % 4] + "\n";
    const Outcome headed =
        run_elmo({"data", "inspect", folder_.write("headed.tsv", "sentence_of_it\tkind\n" + rows)});
    expect_success(headed);
    EXPECT_TRUE(contains(headed.err, "give --text-column sentence_of_it --label-column kind")) << headed.err;
    EXPECT_TRUE(contains(headed.out, "steps per epoch") || contains(headed.out, "1 step per epoch"))
        << headed.out;
    EXPECT_FALSE(contains(headed.out, "1 steps")) << headed.out;
    for (const std::string& file :
         {folder_.write("plain.tsv", rows), folder_.write("word.tsv", "sparrow\tsparrow\n" + rows)}) {
        const Outcome plain = run_elmo({"data", "inspect", file});
        expect_success(plain);
        EXPECT_FALSE(contains(plain.err, "looks like a header")) << plain.err;
    }
}

TEST_F(FirstUse, AShareThatHoldsOutNothingIsNamed) {
    const std::string data = folder_.write("few.csv", csv_rows(0, 12)), run = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--validation", "0.000001", "--quiet"}));
    expect_failure(run_elmo({"calibrate", run}), 1,
                   {"a share of 1e-06 holds out none of", "train with a larger --validation"});
    expect_failure(run_elmo({"index", run}), 2, {"fast search already"});
}

TEST_F(FirstUse, ExplainFindsTheWordsOfTextsWithoutSpaces) {
    const Outcome outcome =
        run_elmo({"explain", run(), "--text", "ファイルを開けません: 東京 cat's", "--json", "--quiet"});
    expect_success(outcome);
    std::vector<std::string> words;
    const Json explanation = Json::parse(outcome.out);
    for (const Json& word : explanation["words"]) words.push_back(word["word"]);
    EXPECT_EQ(words, (std::vector<std::string>{"ファイル", "を", "開", "けません", ":", "東", "京", "cat",
                                               "'", "s"}));
}

TEST_F(FirstUse, ExplainShowsTheNearestTrainingTexts) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 100)), run = folder_.text("run");
    expect_success(
        run_elmo({"train", data, "--out", run, "--neighbours", "0.3", "--test-share", "0", "--quiet"}));
    const Words asked = {"explain", run, "--text", text_of(50)};
    const Outcome outcome = run_elmo(asked + Words{"--json"});
    expect_success(outcome);
    const Json explanation = Json::parse(outcome.out);
    ASSERT_EQ(explanation["nearest"].size(), 5u) << outcome.out;
    const Json& first = explanation["nearest"][0];
    EXPECT_EQ(first["text"], text_of(50));
    EXPECT_LE(first["similarity"].get<double>(), 1);
    EXPECT_NEAR(first["similarity"].get<double>(), 1, 0.01);  // values of 8 bits, about forty of them
    EXPECT_EQ(first["names"], Json::array({kAnimals[50 % 4]}));
    EXPECT_TRUE(
        contains(run_elmo(asked).out, "nearest training texts:\n  1.000  " + text_of(50) + "  [horse]"));
    // Other rows: labels and numbers only, and why.
    folder_.write("rows.csv", csv_rows(1, 101));
    const Outcome changed = run_elmo(asked + Words{"--json"});
    expect_success(changed);
    EXPECT_EQ(Json::parse(changed.out)["nearest"][0]["text"], "");
    EXPECT_TRUE(contains(changed.err, "training texts are not shown: ")) << changed.err;
    // A run without an index has none to show.
    EXPECT_FALSE(contains(run_elmo({"explain", FirstUse::run(), "--text", text_of(50)}).out, "nearest"));
}

TEST_F(FirstUse, WordsOfFastTextAreAnsweredWithOurs) {
    // fasttext predict-prob model.bin texts.txt 5
    expect_failure(run_elmo({"predict", run(), data(), "5"}), 2, {"5: no such file", "give --top 5"});
    for (const auto& [theirs, ours] :
         std::initializer_list<std::pair<const char*, const char*>>{{"supervised", "'train'"},
                                                                    {"test", "'eval'"},
                                                                    {"predict-prob", "'predict'"},
                                                                    {"compare", "'eval RUN1 RUN2 DATA'"},
                                                                    {"fit", "'train'"}})
        expect_failure(run_elmo({theirs}), 2, {"unknown verb", ours});
}

TEST_F(FirstUse, AThresholdBeyondAllProbabilitiesIsAnsweredWithAllThatMayBeGiven) {
    expect_failure(run_elmo({"predict", run(), "--text", "a cat", "--threshold", "2"}), 2,
                   {"from 0 to 1, or -1 for the one of best F1, found 2"});
}

TEST_F(FirstUse, AFileThatFailsAtItsFirstTextIsNotInTheWayOfTheNext) {
    const std::string out = folder_.text("answers.jsonl");
    const std::string wrong = folder_.write("wrong.jsonl", "{\"heading\": \"a cat\"}\n");
    const std::string right = folder_.write("right.jsonl", "{\"text\": \"a cat\"}\n");
    expect_failure(run_elmo({"predict", run(), wrong, "--out", out}), 1, {"wrong.jsonl:1", "'text'"});
    expect_success(run_elmo({"predict", run(), right, "--out", out}));
    const std::string other = folder_.text("other.jsonl");
    expect_failure(run_elmo({"predict", run(), wrong, "--out", other}), 1, {"wrong.jsonl:1"});
    expect_success(run_elmo({"predict", run(), right, "--out", other, "--resume"}));
}

TEST_F(FirstUse, ARunInThePlaceOfDataAndDataInThePlaceOfARunAreNamed) {
    for (const Words& words : {Words{"train", run(), "--out", folder_.text("other")},
                               Words{"data", "inspect", run()}, Words{"data", "inspect", run() + "/best"}})
        expect_failure(run_elmo(words), 1, {"expected a data set, found the folder of a run"});
    expect_failure(run_elmo({"eval", data(), run()}), 1,
                   {"rows.csv: expected the folder of a run, found a file; the run comes first"});
}

// Rows from Python are JSON lines; whoever has such a run scores a table with it.
TEST_F(FirstUse, ARunOfJsonLinesScoresATable) {
    std::string lines;
    for (int i = 0; i < 200; ++i)
        lines += fmt::format("{{\"text\": \"{}\", \"labels\": [\"{}\"]}}\n", text_of(i), kAnimals[i % 4]);
    const std::string rows = folder_.write("rows.jsonl", lines), of_lines = folder_.text("run");
    expect_success(run_elmo({"train", rows, "--format", "jsonl", "--out", of_lines, "--quiet"}));
    const std::string table = folder_.write("new.csv", csv_rows(300, 340));
    EXPECT_EQ(scores({of_lines, table})["protocol"]["samples"], 40);
    fs::remove(rows);
    expect_failure(run_elmo({"eval", of_lines}), 1, {"rows.jsonl: no such file or folder"});
}

// The columns of a run hold where a file has them. A folder with names of its own, and what data convert
// writes, are read with theirs, and a line says so.
TEST_F(FirstUse, DataWithOtherColumnsThanTheRunsIsReadWithItsOwn) {
    std::string rows = "heading,body,tags\n", numbered, names;
    for (int i = 0; i < 200; ++i) {
        rows += fmt::format("{},x,{}\n", text_of(i), kAnimals[i % 4]);
        numbered += fmt::format("{{\"title\": \"{} z\", \"target_ind\": [{}]}}\n", text_of(i), i % 4);
    }
    for (const char* animal : kAnimals) names += fmt::format("{{\"title\": \"{}\"}}\n", animal);
    const std::string data = folder_.write("rows.csv", rows), run = folder_.text("run");
    expect_success(run_elmo(
        {"train", data, "--text-column", "heading+body", "--label-column", "tags", "--out", run, "--quiet"}));
    folder_.write("numbered/trn.json", numbered);
    folder_.write("numbered/tst.json", numbered);
    folder_.write("numbered/lbl.json", names);
    EXPECT_EQ(scores({run, folder_.text("numbered")})["protocol"]["samples"], 200);
    for (const std::string format : {"csv", "jsonl"}) {
        const std::string converted = folder_.text(format);
        expect_success(run_elmo({"data", "convert", data, "--text-column", "heading+body", "--label-column",
                                 "tags", "--to", format, "--out", converted, "--quiet"}));
        const Outcome scored = run_elmo({"eval", run, converted});
        expect_success(scored);
        EXPECT_TRUE(contains(scored.err, "read with --text-column text --label-column labels")) << scored.err;
        const Outcome answered = run_elmo({"predict", run, converted + "/test." + format});
        expect_success(answered);
        EXPECT_TRUE(contains(answered.err, "read with --text-column text")) << answered.err;
    }
    // Its own data and names that are given are read as ever.
    EXPECT_FALSE(contains(run_elmo({"eval", run, data}).err, "read with --text-column"));
    expect_failure(run_elmo({"eval", run, folder_.text("csv"), "--label-column", "tags"}), 1, {"'tags'"});
    // Neither the run's column nor one that is usual.
    expect_failure(run_elmo({"eval", run, folder_.write("other.csv", "a,b\nx,y\n")}), 1,
                   {"other.csv:1", "'heading' and 'body' and 'tags'", "--text-column"});
}

TEST_F(FirstUse, ColumnsOfATableWithoutAHeaderAreNotNamedInVain) {
    std::string rows;
    for (int i = 0; i < 40; ++i) rows += fmt::format("{}\t{}\n", text_of(i), kAnimals[i % 4]);
    const std::string table = folder_.write("rows.tsv", rows);
    const Words train = {"train", table, "--out", folder_.text("run"), "--quiet"};
    for (const Words& named : {Words{"--text-column", "title", "--label-column", "tags"},
                               Words{"--text-column", "title"}, Words{"--label-column", "tags"}})
        expect_failure(run_elmo(train + named), 1, {"rows.tsv:1", "a header with the columns", "--columns"});
    // What the message advises.
    expect_success(run_elmo(train));
    expect_success(run_elmo(train + Words{"--overwrite", "--columns", "title,tags", "--text-column", "title",
                                          "--label-column", "tags"}));
    expect_failure(run_elmo({"predict", run(), table, "--text-column", "heading"}), 1, {"'heading'"});
    expect_success(run_elmo({"predict", run(), table, "--quiet"}));
}

// A run that was trained on a file without a header scores files that have one: the header is no row.
TEST_F(FirstUse, NamesForColumnsOfARunAreNotTakenForAFileWithAHeader) {
    std::string rows;
    for (int i = 0; i < 100; ++i) rows += fmt::format("{},{},{}\n", i, text_of(i), kAnimals[i % 4]);
    const std::string run = folder_.text("run"), names = "--columns";
    expect_success(run_elmo({"train", folder_.write("rows.csv", rows), names, "n,summary,uses",
                             "--text-column", "summary", "--label-column", "uses", "--out", run, "--quiet"}));
    for (const std::string header : {"n,summary,uses\n", "n,text,labels\n"}) {
        const std::string other = folder_.write("other.csv", header + rows);
        EXPECT_EQ(scores({run, other, "--split", "all"})["protocol"]["samples"], 100) << header;
        expect_success(run_elmo({"predict", run, other, "--quiet"}));
    }
    EXPECT_EQ(
        scores({run, folder_.write("two.csv", csv_rows(0, 50)), "--split", "all"})["protocol"]["samples"],
        50);
    EXPECT_EQ(scores({run, folder_.write("same.csv", rows), "--split", "all"})["protocol"]["samples"], 100);
}

TEST_F(FirstUse, CalibrationNamesTheFileWhoseTextsTrainedTheRun) {
    const std::string mine = folder_.write("mine.csv", csv_rows(0, 120));
    const Outcome outcome = run_elmo({"calibrate", run(), "--validation", mine});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "mine.csv: ")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "scored texts trained this run")) << outcome.err;
    EXPECT_FALSE(contains(outcome.err, "rows.csv: ")) << outcome.err;
    fs::remove(fs::path(run()) / "calibration-best.json");
}

TEST_F(FirstUse, ALabelThatIsNotThereIsAnsweredWithTheOneThatMayBeMeant) {
    expect_failure(run_elmo({"explain", run(), "--text", "a cat", "--label", "sparow"}), 1,
                   {"--label: expected the name of a label", "found 'sparow' (did you mean 'sparrow'?)"});
    const std::string list = folder_.write("list.txt", "cat\nhors\n");
    expect_failure(run_elmo({"predict", run(), "--text", "a cat", "--labels", "a name"}), 1,
                   {"a name: no such file; labels are given in a file, one on each line"});
    expect_failure(run_elmo({"predict", run(), "--text", "a cat", "--labels", list}), 1,
                   {"list.txt:2", "(did you mean 'horse'?)"});
    const Outcome both = run_elmo(
        {"explain", run(), "--text", "a cat", "--label", "sparrow", "--label", "cat", "--json", "--quiet"});
    expect_success(both);
    EXPECT_EQ(Json::parse(both.out)["labels"].size(), 2u);
}

TEST_F(FirstUse, WarningsAboutStandardInputNameIt) {
    std::string rows = csv_rows(0, 40);
    for (int i = 40; i < 60; ++i) rows += text_of(i) + ",nan\n";
    const Words train = {"train", "-", "--cache", folder_.text("cache"), "--out", folder_.text("run")};
    const Outcome outcome = run_elmo(train, rows);
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "warning: standard input: 'nan' is a label of")) << outcome.err;
    const Outcome counted = run_elmo(train + Words{"--allow-null-labels", "--overwrite"}, rows);
    expect_success(counted);
    EXPECT_TRUE(contains(counted.err, "warning: standard input: ")) << counted.err;
    EXPECT_FALSE(contains(counted.err, "warning: " + folder_.text("cache"))) << counted.err;
}

// Answers in a table are JSON lists: a reader gets every name back, whatever the answers are.
TEST_F(FirstUse, AnswersInATableAreLists) {
    const char* const names[] = {"plain", "a, \"b\"", "c;d", "e|f"};
    std::string lines, texts;
    for (int i = 0; i < 80; ++i) {
        lines += Json{{"text", text_of(i)}, {"labels", {names[i % 4]}}}.dump() + "\n";
        texts += text_of(i) + "\n";
    }
    const std::string run = folder_.text("run"), answers = folder_.text("answers.csv");
    expect_success(run_elmo({"train", folder_.write("rows.jsonl", lines), "--out", run, "--quiet"}));
    for (const char* top : {"1", "2"}) {
        expect_success(run_elmo({"predict", run, folder_.write("texts.txt", texts), "--top", top,
                                 "--with-text", "--out", answers, "--overwrite", "--quiet"}));
        std::ifstream file(answers);
        std::stringstream csv;
        csv << file.rdbuf();
        EXPECT_TRUE(contains(csv.str(), "1," + text_of(0) + ",\"[\"\"plain\"\"")) << csv.str();
        EXPECT_TRUE(contains(csv.str(), ",\"[\"\"a, \\\"\"b\\\"\"\"\"")) << csv.str();
        // They are data, too.
        EXPECT_EQ(scores({run, answers, "--split", "all"})["P@1"], 100) << csv.str();
    }
}

// Cells that hold lists without quotes, or what only looks like them.
TEST_F(FirstUse, ListsWithoutQuotesAndDictionaries) {
    std::string lists = "text,labels\n", dictionaries = lists;
    for (int i = 0; i < 40; ++i) {
        lists += fmt::format("{},\"[{}, {}]\"\n", text_of(i), kAnimals[i % 4], i % 2 == 0 ? "even" : "odd");
        dictionaries += fmt::format("{},\"{{'{}': 1, 'all': 1}}\"\n", text_of(i), kAnimals[i % 4]);
    }
    const Outcome read = run_elmo({"data", "inspect", folder_.write("lists.csv", lists), "--json"});
    expect_success(read);
    EXPECT_EQ(Json::parse(read.out)["labels"], 6) << read.out;
    EXPECT_TRUE(contains(read.err, "read with --label-separator list")) << read.err;
    const Outcome doubted = run_elmo({"train", folder_.write("dictionaries.csv", dictionaries), "--out",
                                      folder_.text("run"), "--test-share", "0"});
    expect_success(doubted);
    EXPECT_TRUE(contains(doubted.err, "look like pieces of a dictionary")) << doubted.err;
}

TEST_F(FirstUse, TrueLabelsDoNotDependOnWhoChoseTheRows) {
    // The run's data in another form: the rows that it held out, chosen by itself or asked for.
    const std::string file = folder_.write("copy.csv", csv_rows(0, 200) + "\n");
    const Json chosen = scores({run(), file}), asked = scores({run(), file, "--split", "test"});
    EXPECT_EQ(chosen["protocol"]["samples"], asked["protocol"]["samples"]);
    for (const char* score : {"R@1", "nDCG@3", "PSP@5"}) EXPECT_EQ(chosen[score], asked[score]) << score;
}

// Texts that differ only in case or blanks have the same tokens, and may be on both sides.
TEST_F(FirstUse, ACopyIsScoredOnTheRowsThatWereHeldOut) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 300; ++i) {
        const std::string words = fmt::format("alpha{} beta{}", i % 20, i);
        rows += fmt::format("{},{}\n", words, kAnimals[i % 4]);
        if (i % 2 == 0) rows += fmt::format("A{},odd one\n", words.substr(1));
    }
    const std::string file = folder_.write("twins.csv", rows), run = folder_.text("of_twins"),
                      copy = folder_.write("copy.csv", rows + "\n"), filter = folder_.text("filter.txt");
    expect_success(run_elmo({"train", file, "--out", run, "--quiet"}));
    expect_success(run_elmo({"data", "convert", file, "--to", "xmc", "--out", folder_.text("x"), "-q"}));
    const Json own = scores({run, file});
    for (const char* score : {"P@1", "P@3", "R@3", "PSP@3"})
        EXPECT_EQ(scores({run, copy})[score], own[score]) << score;
    // Pairs of a filter count the rows that are scored.
    std::string pairs;
    for (int row = 0; row < static_cast<int>(own["protocol"]["samples"]); ++row)
        pairs += fmt::format("{} 0\n", row);
    folder_.write("filter.txt", pairs);
    const Json filtered = scores({run, file, "--filter", filter});
    ASSERT_NE(filtered["P@1"], own["P@1"]);
    EXPECT_EQ(scores({run, copy, "--filter", filter})["P@1"], filtered["P@1"]);
}

TEST_F(FirstUse, OfAGrownFileTheRowsThatDidNotTrainAreScored) {
    const std::string file = folder_.write("grown.csv", csv_rows(0, 350));
    const std::int64_t trained = scores({run(), file, "--split", "all"})["protocol"]["trained_samples"];
    ASSERT_GT(trained, 175);
    const Outcome outcome = run_elmo({"eval", run(), file});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, fmt::format("{} of 350 texts trained this run: the other {} are scored",
                                                  trained, 350 - trained)))
        << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "those whose texts did not")) << outcome.out;
    const Json chosen = scores({run(), file});
    EXPECT_EQ(chosen["protocol"]["samples"], 350 - trained);
    EXPECT_FALSE(chosen["protocol"].contains("trained_samples")) << chosen;
}

TEST_F(FirstUse, OfATrainingFileWithAFewNewRowsAllAreScoredAndItIsSaid) {
    const std::string pair = folder_.text("pair"), run = folder_.text("of_pair");
    fs::create_directories(pair);
    folder_.write("pair/train.csv", csv_rows(0, 200));
    folder_.write("pair/test.csv", csv_rows(200, 230));
    expect_success(run_elmo({"train", pair, "--out", run, "--quiet"}));
    const Outcome outcome = run_elmo({"eval", run, folder_.write("few.csv", csv_rows(0, 201))});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, " of 201 scored texts trained this run")) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "rows chosen    nearly all of the data's rows trained")) << outcome.out;
}

// In the order of the file, whichever of its rows are held out.
TEST_F(FirstUse, StoredPredictionsOfAllRowsAreInTheOrderOfTheFile) {
    std::string right = "40 4\n", rows = "text,labels\n";
    const std::vector<std::string> sorted = {"cat", "cow", "dog", "hen"};
    for (int i = 0; i < 40; ++i) {
        rows += fmt::format("text number {},{}\n", i, sorted[static_cast<std::size_t>((i * 7 + i / 3) % 4)]);
        right += fmt::format("{}:1\n", (i * 7 + i / 3) % 4);
    }
    const std::string file = folder_.write("d.csv", rows), given = folder_.write("right.txt", right);
    const Json all = scores({"--predictions", given, file, "--split", "all"});
    EXPECT_EQ(all["P@1"], 100) << all;
    EXPECT_EQ(all["protocol"]["samples"], 40);
    EXPECT_TRUE(contains(all["protocol"]["propensity_counts"].get<std::string>(), "scored rows")) << all;
    // As a run stores its own.
    const std::string stored = folder_.text("stored.txt");
    const Json own = scores({run(), data(), "--split", "all", "--save-predictions", stored});
    EXPECT_EQ(scores({"--predictions", stored, data(), "--split", "all"})["P@1"], own["P@1"]);
}

// New rows keep their true labels, also those that the run does not have.
TEST_F(FirstUse, NewRowsOfAGrownFileKeepLabelsThatTheRunDoesNotHave) {
    std::string more;
    for (int i = 0; i < 60; ++i) more += fmt::format("a new text {},\"{},gadget\"\n", i, kAnimals[i % 4]);
    const Json alone = scores({run(), folder_.write("new.csv", "text,labels\n" + more), "--k", "1"}),
               grown = scores({run(), folder_.write("grown.csv", csv_rows(0, 200) + more), "--k", "1"});
    EXPECT_EQ(alone["protocol"]["samples"], 60);
    EXPECT_GT(grown["protocol"]["samples"], 60);
    EXPECT_EQ(grown["protocol"]["labels"], alone["protocol"]["labels"]) << grown;
    EXPECT_EQ(alone["protocol"]["labels"], 5) << alone;
}

// As each of the runs by itself.
TEST_F(FirstUse, AComparisonScoresTheRowsThatDidNotTrain) {
    const std::string other = folder_.text("other");
    expect_success(run_elmo({"train", data(), "--out", other, "--encoder", "linear", "--quiet"}));
    for (const int rows : {200, 350}) {
        const std::string file = folder_.write("copy.csv", csv_rows(0, rows) + "\n");
        const std::int64_t samples = scores({run(), file})["protocol"]["samples"];
        ASSERT_LT(samples, rows);
        const Json both = scores({run(), other, file});
        EXPECT_EQ(both["first"]["protocol"]["samples"], samples) << both;
        EXPECT_EQ(both["second"]["protocol"]["samples"], samples) << both;
    }
    // Rows that trained one of them only are scored with the others.
    const std::string fresh = folder_.write("fresh.csv", csv_rows(1000, 1200)), third = folder_.text("third");
    expect_success(run_elmo({"train", fresh, "--out", third, "--encoder", "linear", "--quiet"}));
    const Json all = scores({run(), third, folder_.write("copy.csv", csv_rows(0, 200) + "\n")});
    EXPECT_EQ(all["first"]["protocol"]["samples"], 200) << all;
}

// Texts that occur in both files of a pair are test rows like the others.
TEST_F(FirstUse, TheTestFileOfAPairIsScoredAlikeByItself) {
    const std::string pair = folder_.text("pair"), run = folder_.text("of_pair");
    fs::create_directories(pair);
    folder_.write("pair/train.csv", csv_rows(0, 100));
    const std::string file = folder_.write("pair/test.csv", csv_rows(40, 130)),
                      copy = folder_.write("copy.csv", csv_rows(40, 130));
    expect_success(run_elmo({"train", pair, "--out", run, "--quiet"}));
    const Json whole = scores({run, pair});
    EXPECT_EQ(whole["protocol"]["samples"], 90) << whole;
    for (const std::string& data : {file, copy}) {
        const Json alone = scores({run, data});
        EXPECT_EQ(alone["protocol"]["samples"], 90) << alone;
        EXPECT_EQ(alone["P@1"], whole["P@1"]);
    }
}

// Where one of them is calibrated, a threshold needs more labels of it.
TEST_F(FirstUse, EqualRunsAreEqualThoughOneIsCalibrated) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 6000; ++i) {
        const int label = i * 7 % 2503;
        rows += fmt::format("a{} b{} c{},\"l{},m{}\"\n", label % 50, label % 47, i % 53, label, label % 500);
    }
    const std::string file = folder_.write("many.csv", rows), one = folder_.text("one"),
                      copy = folder_.text("copy");
    expect_success(run_elmo({"train", file, "--out", one, "--encoder", "linear", "--quiet"}));
    fs::copy(one, copy, fs::copy_options::recursive);
    expect_success(run_elmo({"calibrate", one, "--quiet"}));
    const Json both = scores({one, copy, file});
    for (const char* score : {"P@1", "P@3", "P@5", "R@5"})
        EXPECT_EQ(both["first"][score], both["second"][score]) << score;
}

TEST_F(FirstUse, SavedPredictionsOfSomeRowsAreSaidToBeSo) {
    const std::string file = folder_.write("copy.csv", csv_rows(0, 200) + "\n");
    const Outcome some = run_elmo({"eval", run(), file, "--save-predictions", folder_.text("p.txt"), "-q"});
    expect_success(some);
    EXPECT_TRUE(contains(some.err, "p.txt holds the answers of ")) << some.err;
    EXPECT_TRUE(contains(some.err, " of 200 rows")) << some.err;
    // Not where they are refused: half of the rows, which lack a label.
    std::string half = "text,labels\n";
    for (int i = 0; i < 200; ++i)
        if (i % 4 < 2) half += text_of(i) + "," + kAnimals[i % 4] + "\n";
    const Outcome none = run_elmo(
        {"eval", run(), folder_.write("half.csv", half), "--save-predictions", folder_.text("none.txt")});
    EXPECT_NE(none.status, 0);
    EXPECT_TRUE(contains(none.err, "save_predictions: labels are stored by their number")) << none.err;
    EXPECT_FALSE(contains(none.err, "holds the answers")) << none.err;
}

TEST_F(FirstUse, ARenamedFileIsScoredAsTheRunsOwnWhereTextsAreNearlyEqual) {
    // Two blanks or one make different rows, but the same tokens: some test rows also trained the run.
    std::string rows = csv_rows(0, 200);
    for (int i = 0; i < 40; ++i)
        rows += fmt::format("number  {},{}\n", text_of(i).substr(7), kAnimals[i % 4]);
    const std::string run = folder_.text("run"), data = folder_.write("rows.csv", rows);
    expect_success(run_elmo({"train", data, "--out", run, "--quiet"}));
    const Json own = scores({run, data}), other = scores({run, folder_.write("other.csv", rows + "\n")});
    ASSERT_GT(own["protocol"].value("trained_samples", 0), 1);
    EXPECT_EQ(own["protocol"]["samples"], other["protocol"]["samples"]);
    EXPECT_EQ(own["P@1"], other["P@1"]);
}

TEST_F(FirstUse, ARunOfFlagsReadsAColumnOfLabels) {
    std::string flags = "text,cat,dog,cow,hen\n", plain = "text,labels\n";
    const std::vector<std::string> names = {"cat", "dog", "cow", "hen"};
    for (int i = 0; i < 200; ++i) {
        const std::size_t label = static_cast<std::size_t>(i) % 4;
        flags += fmt::format("about {} {}", names[label], i);
        for (std::size_t k = 0; k < 4; ++k) flags += k == label ? ",1" : ",0";
        flags += "\n";
        plain += fmt::format("about {0} {1},{0}\n", names[label], i + 1000);
    }
    const std::string run = folder_.text("run"), other = folder_.write("plain.csv", plain);
    expect_success(run_elmo({"train", folder_.write("flags.csv", flags), "--out", run, "--quiet"}));
    const Outcome outcome = run_elmo({"eval", run, other});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "read with --label-column labels")) << outcome.err;
    EXPECT_EQ(scores({run, other})["protocol"]["samples"], 200);
}

TEST_F(FirstUse, AnInterruptedLinearTrainingIsTrainedAgainWithItsOptions) {
    Outcome stopped;
    // Until the signal comes before the end, however fast the training is.
    for (int count = 30000; count == 30000 || fs::exists(folder_.path("run/last")); count *= 4) {
        std::string rows = "body,what,more\n";
        for (int i = 0; i < count; ++i)
            rows += fmt::format("{} word{} word{},label{},x\n", text_of(i), i % 977, i % 1009, i % 3001);
        folder_.write("rows.csv", rows);
        stopped = run_shell(
            "cd $0 && rm -rf run && { \"$ELMO\" train rows.csv --text-column body --label-column what --out "
            "run & "
            "child=$!; until grep -q start run/log.jsonl 2>/dev/null; do kill -0 $child || break; sleep "
            "0.01; "
            "done; kill -INT $child; wait $child; }",
            folder_.path());
    }
    ASSERT_TRUE(contains(stopped.err, "'elmo train --out run --resume' trains it")) << stopped.err;
    EXPECT_TRUE(contains(stopped.out, "--resume trains from the beginning")) << stopped.out;
    const Outcome again = run_shell("cd $0 && \"$ELMO\" train --out run --resume", folder_.path());
    expect_success(again);
    EXPECT_TRUE(contains(again.err, "with the options that the training was started with")) << again.err;
    EXPECT_TRUE(fs::exists(folder_.path("run/last")));
}

TEST_F(FirstUse, TrueLabelsThatAreLeftOutAreSaidAtEveryScore) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 200; ++i) rows += fmt::format("{},{};name{}\n", text_of(i), kAnimals[i % 4], i);
    const std::string data = folder_.write("rows.csv", rows), run = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", run, "--quiet", "--label-separator", ";"}));
    const std::string answers = folder_.text("answers.txt");
    for (const Words& words : {Words{run}, Words{run, data, "--save-predictions", answers},
                               Words{"--predictions", answers, data, "--label-separator", ";"}}) {
        const Outcome outcome = run_elmo(Words{"eval"} + words);
        expect_success(outcome);
        EXPECT_TRUE(contains(outcome.err, "of the test rows never seen in training, left out"))
            << outcome.err;
    }
    // Of two runs on the same rows once.
    const std::string said = run_elmo({"eval", run, run, data}).err;
    EXPECT_EQ(said.find("left out"), said.rfind("left out")) << said;
    // Rows without these labels are nobody's doubt.
    const Outcome trained = run_elmo({"eval", run, "--split", "train"});
    EXPECT_FALSE(contains(trained.err, "left out")) << trained.err;
}

TEST_F(FirstUse, ARenamedTrainingFileWithoutItsTestRowsIsScored) {
    std::string train = "40 8 4\n", test = "8 8 4\n";
    for (int i = 0; i < 40; ++i)
        train += fmt::format("{} {}:1 {}:0.{}\n", i % 4, i % 4, 4 + i % 4, 1 + i % 9);
    for (int i = 0; i < 8; ++i) test += fmt::format("{} {}:1\n", i % 4, i % 4);
    const std::string file = folder_.write("set/x_train.txt", train), run = folder_.text("run");
    folder_.write("set/x_test.txt", test);
    expect_success(run_elmo({"train", file, "--out", run, "--quiet"}));
    EXPECT_EQ(scores({run})["protocol"]["samples"], 8);
    const Outcome outcome = run_elmo({"eval", run, folder_.write("renamed.txt", train)});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "of 40 scored texts trained this run")) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "nothing of them was held out")) << outcome.out;
}

TEST_F(FirstUse, ASlipInLabelWeightsLeavesEverythingAsItWas) {
    const std::string weights = folder_.write("weights.tsv", "dogg\t2\n"), run = folder_.text("run");
    const Words train = {"train", data(), "--out", run, "--quiet"};
    const Words slip = train + Words{"--label-weights", weights};
    expect_failure(run_elmo(slip), 1, {"weights.tsv:1", "'dogg' (did you mean 'dog'?)"});
    EXPECT_FALSE(fs::exists(run));
    expect_success(run_elmo(train));
    expect_failure(run_elmo(slip + Words{"--overwrite"}), 1, {"weights.tsv:1"});
    EXPECT_TRUE(fs::exists(run + "/best"));
}

TEST_F(FirstUse, ValidationRowsThatAreNotAskedForNeedNotBeThere) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 100)), run = folder_.text("run"),
                      rows = folder_.write("valid.csv", csv_rows(100, 140));
    expect_success(run_elmo({"train", data, "--out", run, "--validation", rows, "--quiet"}));
    const Json own = scores({run});
    EXPECT_EQ(scores({run, folder_.write("copy/other.csv", csv_rows(0, 100))})["P@1"], own["P@1"]);
    fs::remove(rows);
    EXPECT_EQ(scores({run})["P@1"], own["P@1"]);
    expect_failure(run_elmo({"calibrate", run}), 2, {"valid.csv', which the run was trained with", "gone"});
}

TEST_F(FirstUse, ATableOfAnyNameIsAnsweredAsOne) {
    const auto first = [&](const std::string& file, const Words& flags) {
        const Outcome outcome =
            run_elmo(Words{"predict", run(), file, "--top", "1", "--json", "--with-text"} + flags);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return Json::parse(outcome.out.substr(0, outcome.out.find('\n')))["text"];
    };
    const std::string headed = folder_.write("headed.txt", "id;text;labels\n1;a cat;b|c\n2;a dog;b\n"),
                      named = folder_.write("named.data", "id\tmessage\n1\ta cat\n2\ta dog\n"),
                      bare = folder_.write("bare.txt", "b,c|a cat\nb|a dog\n");
    EXPECT_EQ(first(headed, {}), "a cat");
    EXPECT_EQ(first(named, {"--text-column", "message"}), "a cat");
    EXPECT_EQ(first(bare, {"--columns", "labels,text"}), "a cat");
    EXPECT_EQ(first(headed, {"--input", "text"}), "id;text;labels");
    // Lines with commas in them are no table.
    EXPECT_EQ(first(folder_.write("lines.txt", "text, too\na cat\n"), {}), "text, too");
    // A run keeps names for columns, but one comma in each line is no sign of two.
    std::string bars;
    for (int i = 0; i < 40; ++i) bars += fmt::format("{}|{}\n", kAnimals[i % 4], text_of(i));
    const std::string data = folder_.write("bars.txt", bars), kept = folder_.text("kept");
    expect_success(run_elmo({"train", data, "--columns", "labels,text", "--out", kept, "--quiet"}));
    const auto texts = [&](const std::string& file) {
        return run_elmo({"predict", kept, file, "--top", "1", "--quiet"}).out;
    };
    EXPECT_TRUE(texts(data).starts_with(text_of(0))) << texts(data);
    EXPECT_TRUE(texts(folder_.write("commas.txt", "one, two\n")).starts_with("one, two"));
}

TEST_F(FirstUse, ColumnsOfWhatHasNoneAreNotIgnored) {
    const std::string lines = folder_.write("lines.txt", "a cat\na dog\n"),
                      words = folder_.write("words.txt", "__label__cat a cat\n__label__dog a dog\n"),
                      json = folder_.write("rows.jsonl", "{\"Text\": \"a cat\", \"tags\": [\"cat\"]}\n");
    for (const char* flag : {"--text-column", "--id-column"})
        expect_failure(run_elmo({"predict", run(), lines, flag, "title", "--quiet"}), 1,
                       {"lines.txt:1: expected a table or JSON lines", std::string("leave ") + flag});
    expect_failure(run_elmo({"predict", run(), words, "--columns", "a,b", "--quiet"}), 1,
                   {"leave --columns"});
    for (const char* flag : {"--text-column", "--label-column"})
        expect_failure(run_elmo({"data", "inspect", words, flag, "title"}), 2,
                       {"of the format fasttext, which has no columns", std::string("leave ") + flag});
    expect_failure(run_elmo({"data", "inspect", json, "--columns", "Text,tags"}), 2,
                   {"of the format jsonl, which has no columns, but keys"});
}

TEST_F(FirstUse, ASlipInTheDataOfASearchLeavesTheFolderAsItWas) {
    expect_failure(run_elmo({"tune", folder_.text("none.csv"), "--out", folder_.text("tuned")}), 1,
                   {"none.csv: no such file"});
    EXPECT_FALSE(fs::exists(folder_.path("tuned")));
    const std::string trial = folder_.write("tuned/trials/0-0.json", "{}");
    expect_failure(
        run_elmo({"tune", folder_.text("none.csv"), "--out", folder_.text("tuned"), "--overwrite"}), 1,
        {"none.csv: no such file"});
    EXPECT_TRUE(fs::exists(trial));
}

TEST_F(FirstUse, AFileThatCannotBeWrittenIsNamedBeforeTheWork) {
    const std::string page = folder_.text("none/page.html"), table = folder_.text("none/labels.csv");
    for (const auto& [words, file] :
         {std::pair(Words{"report", run(), "--out", page}, page),
          std::pair(Words{"eval", run(), "--threshold", "0.3", "--per-label", table}, table)}) {
        const Outcome outcome = run_elmo(words);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, "elmo: error: " + file + ": cannot create: No such file or directory\n");
    }
}

TEST_F(FirstUse, ASlipInTheColumnOfIdsNamesTheOneThatIsThere) {
    const std::string table = folder_.write("rows.csv", "ident;text\n7;a cat\n"),
                      lines = folder_.write("rows.jsonl", "{\"ident\": 7, \"text\": \"a cat\"}\n");
    for (const std::string& file : {table, lines})
        expect_failure(run_elmo({"predict", run(), file, "--id-column", "idnt", "--quiet"}), 1,
                       {"'idnt'", "(did you mean 'ident'?)"});
}

TEST_F(FirstUse, AnswersOfACalibratedRunAreAnotherCheckpointsFirst) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 200)),
                      texts = folder_.write("texts.txt", "a dog in the rain\n");
    expect_success(
        run_elmo({"train", data, "--out", folder_.text("calibrated"), "--validation", "0.3", "--quiet"}));
    const Words predict = {texts, "--out", folder_.text("answers.jsonl"), "--quiet"};
    expect_success(run_elmo(Words{"predict", folder_.text("calibrated")} + predict));
    expect_success(run_elmo({"calibrate", folder_.text("calibrated"), "--quiet"}));
    const Words again = predict + Words{"--resume"};
    expect_failure(run_elmo(Words{"predict", folder_.text("calibrated")} + again), 2,
                   {"was made with another calibration (xxh64): expected \"none\", found "});
    // Run and calibration differ: the run is what to say.
    expect_success(run_elmo(Words{"predict", folder_.text("calibrated")} + predict + Words{"--overwrite"}));
    expect_failure(run_elmo(Words{"predict", run()} + again), 2,
                   {"was made by another checkpoint", "/calibrated/best", "/run/best"});
}

TEST_F(FirstUse, LabelsThatTheRunDoesNotHaveAreInItsTail) {
    std::string rows = csv_rows(300, 360);
    for (int i = 0; i < 200; ++i) rows += "number " + std::to_string(i) + " is about an otter,otter\n";
    const std::string more = folder_.write("more.csv", rows);
    const Json groups = scores({run(), more})["groups"];
    // Four labels with about 45 training rows each; the fifth has none, however many rows are scored.
    ASSERT_TRUE(groups.contains("tail")) << groups.dump();
    EXPECT_EQ(groups["tail"]["training_rows"][0], 0) << groups.dump();
    EXPECT_LT(groups["head"]["training_rows"][1], 60) << groups.dump();
}

TEST_F(FirstUse, ASearchSaysOnceWhatItsTestFileLacks) {
    const std::string data = folder_.write("rows_train.csv", csv_rows(0, 60));
    folder_.write("rows_test.csv", csv_rows(60, 70) + "an otter,otter\n");
    const Outcome tuned = run_elmo({"tune", data, "--out", folder_.text("tuned"), "--encoder", "bag",
                                    "--width", "16", "--epochs", "1", "--trials", "1"});
    expect_success(tuned);
    const std::string unseen = "rows_test.csv: 1 label of the test rows never seen in training";
    const std::size_t at = tuned.err.find(unseen);
    ASSERT_NE(at, std::string::npos) << tuned.err;
    EXPECT_EQ(tuned.err.find(unseen, at + 1), std::string::npos) << tuned.err;
}

TEST_F(FirstUse, FewRowsToCalibrateOnNameTheFlagThatGivesMore) {
    const std::string data = folder_.write("rows.csv", csv_rows(0, 100)), trained = folder_.text("run");
    expect_success(run_elmo({"train", data, "--out", trained, "--quiet"}));
    // Of a file that is the data, a share validates, as in training; a file of validation rows is taken
    // whole.
    const std::string fresh = folder_.write("fresh.csv", csv_rows(300, 800));
    for (const auto& [rows, found] : std::vector<std::pair<const char*, const char*>>{
             {"text,labels\na cat,cat\n", "found 1 validation text, so one half is empty"},
             {"text,labels\na cat,cat\nno animal,\n", "found 0 right and 4 wrong ones in a half of 1 text"}})
        expect_failure(run_elmo({"calibrate", trained, "--validation", folder_.write("few.csv", rows)}), 1,
                       {found, "give rows that did not train the run with --validation FILE"});
    const Outcome few = run_elmo({"calibrate", trained, fresh});
    expect_success(few);
    EXPECT_TRUE(contains(few.err, "give rows that did not train the run with --validation FILE")) << few.err;
    const Outcome all = run_elmo({"calibrate", trained, "--validation", fresh});
    expect_success(all);
    EXPECT_TRUE(contains(all.out, "500 validation texts")) << all.out;
    EXPECT_FALSE(contains(all.err, "do not trust")) << all.err;
}

TEST_F(FirstUse, ResumingWithOtherDataSaysWhatToDo) {
    const std::string run = folder_.text("run"), data = folder_.write("rows.csv", csv_rows(0, 60));
    expect_success(run_elmo({"train", data, "--out", run, "--quiet"}));
    const std::string columns = folder_.write("columns.csv", "title;tags\na cat;cat\na dog;dog\n"),
                      rows = folder_.write("other.csv", csv_rows(100, 160));
    for (const std::string& other : {columns, rows}) {
        const Outcome outcome = run_elmo({"train", other, "--out", run, "--resume", "--quiet"});
        expect_failure(outcome, 1, {"resume: " + other, "leave DATA out"});
        // The run has its columns: to name others is refused, too.
        EXPECT_FALSE(contains(outcome.err, "--text-column")) << outcome.err;
    }
    folder_.write("rows.csv", csv_rows(0, 59));
    expect_failure(run_elmo({"train", "--out", run, "--resume", "--quiet"}), 1,
                   {"resume: " + data, "has changed"});
}

}  // namespace
}  // namespace elmo
