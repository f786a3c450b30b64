// The verbs in the order in which a user meets them, on a data set of six kinds of animal.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"

namespace elmo {
namespace {

using Json = nlohmann::json;

// One trained run for all tests of this file.
class Workflow : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        write_small_data(*folder_, "data");
        trained_ = run_elmo(Words{"train", data(), "--out", run()} + small_model());
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }
    void SetUp() override { ASSERT_EQ(trained_.status, 0) << trained_.err; }
    static std::string data() { return folder_->text("data"); }
    static std::string run() { return folder_->text("run"); }

    static TempFolder* folder_;
    static Outcome trained_;
};
TempFolder* Workflow::folder_ = nullptr;
Outcome Workflow::trained_;

std::vector<Json> json_lines(const std::string& text) {
    std::vector<Json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
    return lines;
}

TEST_F(Workflow, TrainSaysHowItWentOnStandardOutputAlone) {
    for (const char* part : {"steps", "training time", "texts/s", "P@1 of best/ on validation",
                             "peak memory, planned", "peak memory, measured"})
        EXPECT_TRUE(contains(trained_.out, part)) << part << "\n" << trained_.out;
    EXPECT_EQ(trained_.err, "");  // --quiet
}

TEST_F(Workflow, EvalPrintsScoresInPercentAndTheProtocol) {
    const Outcome outcome = run_elmo({"eval", run(), data(), "--json"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    for (const char* metric : {"P", "nDCG", "PSP", "PSnDCG", "R"})
        for (const char* k : {"@1", "@3", "@5"}) {
            ASSERT_TRUE(json.contains(std::string(metric) + k)) << outcome.out;
            EXPECT_GE(json[std::string(metric) + k].get<double>(), 0);
        }
    EXPECT_GE(json["P@1"].get<double>(), 90);  // the words give the labels away
    EXPECT_EQ(json["protocol"]["samples"], 20);
    EXPECT_EQ(json["protocol"]["labels"], 6);
    EXPECT_EQ(json["protocol"]["split"], "test");
    EXPECT_EQ(json["protocol"]["propensity_a"], 0.55);
    EXPECT_EQ(json["protocol"]["ties"], "lower label number first");
    const Outcome people = run_elmo({"eval", run(), data()});
    EXPECT_TRUE(contains(people.out, "\nP ")) << people.out;
    EXPECT_TRUE(contains(people.out, "\nPSP ")) << people.out;
    for (const char* part :
         {"ties", "R head", "by the data set's name 'data'", "bootstrap", "manifest xxh64"})
        EXPECT_TRUE(contains(people.out, part)) << part << "\n" << people.out;
    EXPECT_FALSE(contains(people.out, "R tail")) << people.out;  // all labels are equally frequent
}

TEST_F(Workflow, EvalTakesOthersConventionsAndKeepsEveryScore) {
    const Outcome outcome = run_elmo({"eval", run(), "--json", "--like", "elmo", "--bootstrap", "0"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["protocol"]["like"], "elmo");
    EXPECT_EQ(json["protocol"]["propensity_a"], 0.6);  // what the paper's code has for unknown sets
    EXPECT_FALSE(json.contains("intervals"));
    std::ifstream kept(run() + "/scores.jsonl");
    std::string line, last;
    while (std::getline(kept, line)) last = line;
    Json stored = json;
    stored.erase("texts_per_second");
    EXPECT_EQ(Json::parse(last), stored);
    expect_failure(run_elmo({"eval", run(), "--like", "xclib"}), 2, {"like", "pyxclib"});
    // A run with its own propensities: they hold unless another project's are given.
    const std::string own = folder_->text("own_propensities");
    expect_success(run_elmo(Words{"train", data(), "--out", own} + small_model() +
                            Words{"--propensity-a", "0.7", "--propensity-b", "2"}));
    const auto a_of = [&](const Words& more) {
        return Json::parse(run_elmo(Words{"eval", own, "--json"} + more).out)["protocol"]["propensity_a"];
    };
    EXPECT_EQ(a_of({}), 0.7);
    EXPECT_EQ(a_of({"--like", "renee"}), 0.55);
    EXPECT_EQ(a_of({"--set", "like=renee"}), 0.55);
    EXPECT_EQ(a_of({"--like", "renee", "--propensity-a", "0.65", "--propensity-b", "1"}), 0.65);
}

TEST_F(Workflow, RefineStartsFromTheRunsRecipe) {
    const std::string small = folder_->text("eight_bits"), refined = folder_->text("refined");
    expect_success(
        run_elmo(Words{"train", data(), "--out", small, "--precision", "auto", "--max-memory", "10GiB"} +
                 small_model()));
    const Outcome outcome =
        run_elmo({"refine", small, "--out", refined, "--precision", "fp32", "--json", "--quiet"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["from_precision"], "bf16");  // what auto was
    EXPECT_EQ(json["precision"], "fp32");
    EXPECT_EQ(json["labels_done"], 6);
    EXPECT_GE(Json::parse(run_elmo({"eval", refined, "--json"}).out)["P@1"].get<double>(), 90);
    const Json inspected = Json::parse(run_elmo({"inspect", refined, "--json"}).out);
    EXPECT_EQ(inspected["precision"], "fp32");
    // Other data may be read otherwise: nothing is continued.
    const std::string twice = folder_->write("twice.csv", "text,labels\nthe cat,\"a,a\"\n");
    const Outcome unread = run_elmo({"refine", small, twice, "--out", folder_->text("other")});
    expect_failure(unread, 1, {"twice.csv:2", "--allow-repeated-labels"});
    EXPECT_FALSE(contains(unread.err, "resume")) << unread.err;
    expect_failure(run_elmo({"refine", small, "--out", refined}), 2, {"not empty"});
    expect_failure(run_elmo({"refine", small}), 2, {"--out"});
    expect_failure(run_elmo({"refine", small, "--out", refined, "--seed", "3"}), 2, {"--seed"});
    expect_failure(run_elmo({"refine", folder_->text("nothing"), "--out", refined}), 1, {"nothing"});
    expect_failure(run_elmo({"train", data(), "--out", refined, "--resume"}), 2, {"is finished"});
}

TEST_F(Workflow, EvalFindsTheRunsOwnDataAndTakesOtherK) {
    const Outcome outcome = run_elmo({"eval", run(), "--json", "--k", "2", "--split", "train"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    EXPECT_TRUE(json.contains("P@2"));
    EXPECT_FALSE(json.contains("P@1"));
    EXPECT_EQ(json["protocol"]["samples"], 60);
}

TEST_F(Workflow, StoredPredictionsScoreTheSame) {
    const std::string stored = folder_->text("stored.txt");
    const Json direct =
        Json::parse(run_elmo({"eval", run(), data(), "--json", "--save-predictions", stored}).out);
    const Outcome outcome = run_elmo({"eval", "--predictions", stored, data(), "--json"});
    expect_success(outcome);
    const Json scored = Json::parse(outcome.out);
    for (const auto& [name, value] : direct.items()) {
        if (contains(name, "@")) {
            EXPECT_EQ(scored[name], value) << name;
        }
    }
}

TEST_F(Workflow, PredictAnswersLinesWithNames) {
    const Outcome outcome =
        run_elmo({"predict", run(), "--top", "2", "--json"}, "the trout runs\n\nthe cat eats\n");
    expect_success(outcome);
    const auto lines = json_lines(outcome.out);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["line"], 1);
    ASSERT_EQ(lines[0]["labels"].size(), 2u);
    EXPECT_EQ(lines[0]["labels"][0]["name"], "kind of trout");
    EXPECT_EQ(lines[0]["labels"][0]["label"], 4);
    EXPECT_EQ(lines[2]["labels"][0]["name"], "kind of cat");
    const double best = lines[0]["labels"][0]["probability"], second = lines[0]["labels"][1]["probability"];
    EXPECT_GT(best, second);
    EXPECT_LE(best, 1);

    const Outcome people = run_elmo({"predict", run(), "--top", "1"}, "the trout runs\n");
    EXPECT_EQ(people.out.rfind("the trout runs\n  ", 0), 0u) << people.out;
    EXPECT_TRUE(contains(people.out, "\t4\tkind of trout\n")) << people.out;
    EXPECT_EQ(run_elmo({"predict", run()}, "").out, "");
}

TEST_F(Workflow, PredictReadsFilesJsonLinesAndHonoursTheThreshold) {
    const std::string file = folder_->write("in.jsonl", "{\"title\": \"the dog\", \"content\": \"hides\"}\n");
    const Outcome outcome =
        run_elmo({"predict", run(), file, "--json", "--text-column", "title+content", "--top", "6"});
    expect_success(outcome);
    EXPECT_EQ(json_lines(outcome.out)[0]["labels"][0]["name"], "kind of dog");
    EXPECT_EQ(json_lines(outcome.out)[0]["labels"].size(), 6u);
    const Outcome strict = run_elmo({"predict", run(), "--json", "--threshold", "1"}, "the dog hides\n");
    expect_success(strict);
    const auto rows = json_lines(strict.out);
    for (const Json& label : rows[0]["labels"]) EXPECT_EQ(label["probability"], 1.0);
}

TEST_F(Workflow, PredictDoesNotDependOnTheBatch) {
    std::string texts;
    for (int i = 0; i < 50; ++i) texts += "the horse eats near house number " + std::to_string(i) + "\n";
    const Outcome whole = run_elmo({"predict", run(), "--json"}, texts);
    const Outcome small = run_elmo({"predict", run(), "--json", "--batch-size", "7"}, texts);
    expect_success(whole);
    EXPECT_EQ(json_lines(whole.out).size(), 50u);
    EXPECT_EQ(whole.out, small.out);
}

TEST_F(Workflow, PredictTakesTextsOfTheCommandLine) {
    const Outcome outcome = run_elmo(
        {"predict", run(), "--text", "the trout runs", "--text", "the cat eats", "--top", "1", "--json"});
    expect_success(outcome);
    const auto lines = json_lines(outcome.out);
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0]["labels"][0]["name"], "kind of trout");
    EXPECT_EQ(lines[1]["labels"][0]["name"], "kind of cat");
    EXPECT_EQ(lines[1]["line"], 2);
    EXPECT_TRUE(run_elmo({"predict", run(), "--text=the dog hides"}).out.starts_with("the dog hides\n"));
    expect_failure(run_elmo({"predict", run(), "in.txt", "--text", "x"}), 2, {"--text", "FILE"});
}

TEST_F(Workflow, PredictCarriesIdsAndTextsThrough) {
    const std::string json = folder_->write("ids.jsonl",
                                            "{\"id\": 17, \"text\": \"the dog\"}\n{\"id\": \"x,1\", "
                                            "\"text\": \"the cat\"}\n{\"text\": \"the trout\"}\n");
    const auto lines =
        json_lines(run_elmo({"predict", run(), json, "--json", "--with-text", "--top", "1"}).out);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["id"], 17);
    EXPECT_EQ(lines[0]["text"], "the dog");
    EXPECT_EQ(lines[1]["id"], "x,1");
    EXPECT_FALSE(lines[2].contains("id"));
    // An id that is none is left out, and one line says so.
    const std::string kept = "{\"id\": 17, \"text\": \"the dog\"}\n";
    const std::string odd = folder_->write(
        "odd.jsonl",
        kept + "{\"id\": {\"a\": 1}, \"text\": \"the dog\"}\n{\"id\": [2], \"text\": \"the cat\"}\n");
    const std::string said = "2 ids that are objects or lists are left out of the answers";
    for (const Words& words : {Words{"predict", run(), odd, "--json"},
                               Words{"predict", run(), odd, "--out", folder_->text("odd_answers.jsonl")}}) {
        const Outcome left_out = run_elmo(words);
        expect_success(left_out);
        EXPECT_TRUE(contains(left_out.err, said)) << left_out.err;
    }
    EXPECT_FALSE(contains(run_elmo({"predict", run(), json}).err, "left out"));
    const std::string table = folder_->write("ids.csv", "key,text\n0042,\"the, \"\"dog\"\"\"\nb,the cat\n");
    const auto rows =
        json_lines(run_elmo({"predict", run(), table, "--json", "--id-column", "key", "--top", "1"}).out);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["id"], "0042");
    EXPECT_FALSE(rows[0].contains("text"));
    expect_failure(run_elmo({"predict", run(), table, "--id-column", "number"}), 1, {"number", "ids.csv"});
    expect_failure(run_elmo({"predict", run(), json, "--id-column", "key"}), 1, {"key", "ids.jsonl:1"});
    // A file named .csv is one. A slip leaves nothing beside it.
    const std::string out = folder_->text("answers.csv");
    expect_failure(run_elmo({"predict", run(), table, "--id-column", "number", "--out", out}), 1, {"number"});
    for (const char* file : {"", ".partial", ".partial.json", ".partial.texts"})
        EXPECT_FALSE(std::filesystem::exists(out + file)) << file;
    expect_success(
        run_elmo({"predict", run(), table, "--id-column", "key", "--with-text", "--top", "2", "--out", out}));
    std::ifstream file(out);
    const std::string csv{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(csv.starts_with(
        "line,id,text,labels,probabilities\n1,0042,\"the, \"\"dog\"\"\",\"[\"\"kind of dog\"\",\"\""))
        << csv;
    EXPECT_TRUE(contains(csv, "\n2,b,the cat,\"[\"\"kind of cat\"\",\"\"")) << csv;
    EXPECT_FALSE(std::filesystem::exists(out + ".partial"));
    const Outcome again = run_elmo({"predict", run(), table, "--id-column", "key", "--with-text", "--top",
                                    "2", "--out", out, "--resume", "--json"});
    expect_success(again);
    EXPECT_EQ(Json::parse(again.out)["texts"], 2);
}

TEST_F(Workflow, EvalScoresOtherFilesWholeAndShowsMistakes) {
    const std::string table =
        folder_->write("new.csv",
                       "text,labels\nthe trout runs,kind of trout\nthe cat eats,kind of cat\n"
                       "the dog hides,kind of horse\n");
    const Outcome outcome =
        run_elmo({"eval", run(), table, "--threshold", "0.5", "--errors", "2", "--json", "--quiet"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["protocol"]["samples"], 3);
    EXPECT_EQ(json["protocol"]["split"], "all");
    ASSERT_GE(json["wrong_texts"].size(), 1u);
    EXPECT_EQ(json["wrong_texts"][0]["text"], "the dog hides");
    EXPECT_EQ(json["wrong_texts"][0]["split"], "all");
    EXPECT_EQ(json["wrong_texts"][0]["row"], 3);
    EXPECT_EQ(json["wrong_texts"][0]["expected"][0], "kind of horse");
    const std::string labels = folder_->text("labels.csv");
    const Outcome people =
        run_elmo({"eval", run(), table, "--threshold", "0.5", "--errors", "2", "--per-label", labels});
    expect_success(people);
    for (const char* part : {"all: 3 texts", "rows chosen", "not the run's own", "samples (mean of texts)",
                             "labels of lowest F1", "worst answers", "the dog hides"})
        EXPECT_TRUE(contains(people.out, part)) << part << "\n" << people.out;
    EXPECT_TRUE(std::filesystem::exists(labels));
    expect_failure(run_elmo({"eval", run(), table, "--errors", "2"}), 2, {"errors", "--threshold"});
}

TEST_F(Workflow, EvalComparesTwoRuns) {
    const std::string weak = folder_->text("weak");
    expect_success(run_elmo(Words{"train", data(), "--out", weak} + small_model() + Words{"--steps", "1"}));
    const Outcome outcome = run_elmo({"eval", weak, run(), data()});
    expect_success(outcome);
    for (const char* part : {"difference", "95 % interval", "P@1", "test: 20 texts"})
        EXPECT_TRUE(contains(outcome.out, part)) << part << "\n" << outcome.out;
    const Json json = Json::parse(run_elmo({"eval", weak, run(), "--json"}).out);
    EXPECT_GE(json["difference"]["P@1"].get<double>(), 0);
    expect_failure(run_elmo({"eval", weak, folder_->text("nothing"), data()}), 1, {"nothing"});
}

TEST_F(Workflow, PredictAmongAndWithoutLabels) {
    const std::string birds = folder_->write("birds.txt", "kind of sparrow\n2\n");
    const Outcome among = run_elmo({"predict", run(), "--labels", birds, "--json"}, "the trout runs\n");
    expect_success(among);
    const auto labels = json_lines(among.out)[0]["labels"];
    ASSERT_EQ(labels.size(), 2u);
    EXPECT_EQ(labels[0]["label"].get<int>() + labels[1]["label"].get<int>(), 5);
    const std::string fish = folder_->write("fish.txt", "kind of trout\n");
    const Outcome without =
        run_elmo({"predict", run(), "--without", fish, "--top", "6", "--json"}, "the trout runs\n");
    expect_success(without);
    EXPECT_EQ(json_lines(without.out)[0]["labels"].size(), 5u);
    EXPECT_FALSE(contains(without.out, "trout"));
    const std::string wrong = folder_->write("wrong.txt", "kind of sparrow\nkind of whale\n");
    expect_failure(run_elmo({"predict", run(), "--labels", wrong}, "x\n"), 1,
                   {"wrong.txt:2", "kind of whale"});
}

TEST_F(Workflow, PredictWritesFilesAndCanGoOn) {
    const std::string texts = folder_->write("many.txt", "the trout runs\nthe cat eats\nthe dog hides\n");
    const std::string out = folder_->text("answers.jsonl");
    const Outcome outcome = run_elmo({"predict", run(), texts, "--out", out});
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.out, "texts/s")) << outcome.out;
    std::ifstream file(out);
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(kept, run_elmo({"predict", run(), texts, "--json"}).out);
    expect_failure(run_elmo({"predict", run(), texts, "--out", out}), 2, {out, "--resume"});
    const Outcome again = run_elmo({"predict", run(), texts, "--out", out, "--resume", "--json"});
    expect_success(again);
    EXPECT_EQ(Json::parse(again.out)["resumed"], 3);
    const std::string deep = folder_->text("not/there/yet/answers.jsonl");
    expect_success(run_elmo({"predict", run(), texts, "--out", deep}));
    EXPECT_TRUE(std::filesystem::exists(deep));
    // The text column of a table, unless lines are given.
    const std::string table = folder_->write("many.csv", "text,labels\n\"the, trout\",kind of trout\n");
    const Outcome rows = run_elmo({"predict", run(), table}),
                  lines = run_elmo({"predict", run(), table, "--input", "text"});
    expect_success(rows);
    EXPECT_TRUE(rows.out.starts_with("the, trout\n")) << rows.out;
    expect_success(lines);
    EXPECT_TRUE(lines.out.starts_with("text,labels\n")) << lines.out;
    expect_failure(run_elmo({"predict", run(), texts, texts}), 2, {"--out"});
    expect_failure(run_elmo({"predict", run(), "--out", out}), 2, {"FILE"});
    expect_failure(run_elmo({"predict", run(), texts, "--resume"}), 2, {"--out"});
    expect_failure(run_elmo({"predict", run(), "the cat eats"}), 2,
                   {"the cat eats: no such file", "give --text before it"});
}

// The labels to leave out come through a pipe, and are read before the first text: the signal comes while the
// program waits for them, however fast it is. A file takes the pipe's place, since they are read again.
TEST_F(Workflow, AStoppedPredictionSaysHowToContinue) {
    std::string texts;
    for (int i = 0; i < 1000; ++i) texts += "the cat eats " + std::to_string(i) + "\n";
    folder_->write("many.txt", texts);
    const std::string out = folder_->text("stopped.jsonl");
    const Outcome outcome = run_shell(
        "mkfifo $0/pipe; \"$ELMO\" predict " + run() + " $0/many.txt --without $0/pipe --out " + out +
            " & child=$!; exec 3> $0/pipe; kill -TERM $child; echo 0 > $0/labels; mv $0/labels "
            "$0/pipe; echo 0 >&3; exec 3>&-; wait $child",
        folder_->path());
    EXPECT_EQ(outcome.status, 130);
    EXPECT_TRUE(
        contains(outcome.err, "answers are in " + out + ".partial: the same call with --resume continues"))
        << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(out));
}

// timeout(1) signals a program and its group: both signals are one wish to stop, and nothing is lost.
TEST_F(Workflow, TwoSignalsAtOnceAreOneWishToStop) {
    const std::string flags =
        " --encoder bag --width 16 --vocab-size 200 --steps 100000 --eval-every 100000 --log-every 1 "
        "--threads 1";
    const Outcome outcome = run_shell("$ELMO train " + data() + " --out $0/twice" + flags +
                                          " 2> $0/err & pid=$!; while ! grep -q '\"event\":\"step\"' "
                                          "$0/twice/log.jsonl 2> /dev/null; do sleep 0.05; "
                                          "done; kill -INT $pid; kill -INT $pid; wait $pid",
                                      folder_->path());
    EXPECT_EQ(outcome.status, 0);
    EXPECT_TRUE(std::filesystem::exists(folder_->path("twice") / "last" / "manifest.json"));
}

TEST_F(Workflow, CalibrateIsKeptAndUsedByPredict) {
    const std::string out = folder_->text("to_calibrate");
    expect_success(
        run_elmo(Words{"train", data(), "--out", out} + small_model() + Words{"--validation", "0.4"}));
    const Outcome outcome = run_elmo({"calibrate", out, "--json"});
    expect_success(outcome);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["method"], "platt");
    EXPECT_GT(json["a"], 0);
    EXPECT_TRUE(contains(run_elmo({"calibrate", out}).out, "threshold of best F1"));
    EXPECT_EQ(Json::parse(run_elmo({"inspect", out, "--json"}).out)["calibrated"], true);
    const Json at = Json::parse(run_elmo({"eval", out, "--json", "--quiet"}).out)["at_threshold"];
    EXPECT_EQ(at["threshold"], json["f1_threshold"]);
    EXPECT_GT(at["micro"]["F1"].get<double>(), 50);
    const Outcome sure = run_elmo({"predict", out, "--threshold", "-1", "--json"}, "the cat eats\n");
    expect_success(sure);
    EXPECT_EQ(json_lines(sure.out)[0]["labels"].size(), 1u) << sure.out;
    expect_failure(run_elmo({"predict", run(), "--threshold", "-1"}, "x\n"), 2, {"calibrate"});
    // Said before the data are read.
    const std::string broken = folder_->write("broken.csv", "text,labels\na,\"b\n");
    for (const Words& words : {Words{"eval", run(), broken}, Words{"eval", out, run(), broken},
                               Words{"report", run(), broken, "--out", folder_->text("page.html")}})
        expect_failure(run_elmo(words + Words{"--threshold", "-1"}), 2,
                       {"threshold: -1 needs a calibrated run"});
    const Words stored = {"eval", "--predictions", folder_->write("p.txt", "1 1\n0:1\n"), broken};
    expect_failure(run_elmo(stored + Words{"--threshold", "-1"}), 2,
                   {"threshold: -1 needs a calibrated run, and stored predictions have none; give a number"});
    expect_failure(run_elmo(stored + Words{"--errors", "2"}), 2, {"give --threshold"});

    // 0 is a threshold where it is given, as of predict.
    for (const std::string& name : {run(), out}) {
        const Outcome all =
            run_elmo({"eval", name, "--threshold", "0", "--errors", "1", "--json", "--quiet"});
        expect_success(all);
        const Json scores = Json::parse(all.out)["at_threshold"];
        ASSERT_TRUE(scores.is_object()) << all.out;
        EXPECT_EQ(scores["threshold"], 0);
        EXPECT_EQ(scores["micro"]["recall"], 100);
        EXPECT_TRUE(contains(run_elmo({"eval", name, "--threshold", "0"}).out, "at threshold 0.0000"));
        const std::string page = folder_->text("all.html");
        expect_success(run_elmo({"report", name, "--threshold", "0", "--out", page, "--overwrite"}));
        EXPECT_TRUE(contains(slurp(page), "given, of")) << name;
    }
    expect_failure(run_elmo(stored + Words{"--errors", "2", "--threshold", "0"}), 1, {"broken.csv"});
    EXPECT_FALSE(contains(run_elmo({"eval", run()}).out, "at threshold"));

    // A threshold per label.
    const std::string advice = "run 'elmo calibrate RUN --label-thresholds' first";
    expect_failure(run_elmo({"predict", out, "--label-thresholds"}, "x\n"), 2, {advice});
    expect_failure(run_elmo({"eval", out, "--label-thresholds"}), 2, {advice});
    const Outcome fitted = run_elmo({"calibrate", out, "--label-thresholds"});
    expect_success(fitted);
    EXPECT_TRUE(contains(fitted.out, "macro F1")) << fitted.out;
    expect_success(run_elmo({"predict", out, "--label-thresholds"}, "the cat eats\n"));
    const Outcome scored = run_elmo({"eval", out, "--label-thresholds"});
    expect_success(scored);
    EXPECT_TRUE(contains(scored.out, "its own, the others the common one") ||
                contains(scored.out, "labels have their own, the others the common one"))
        << scored.out;
    // How many have depends on the machine: one is left.
    for (const auto& file : std::filesystem::recursive_directory_iterator(out)) {
        if (!file.path().filename().string().starts_with("calibration")) continue;
        Json one = Json::parse(slurp(file.path()));
        one.erase("xxh64");
        for (const char* key : {"labels", "thresholds"})
            one["label_thresholds"][key] = Json::array({one["label_thresholds"][key][0]});
        std::ofstream(file.path()) << one;
    }
    const Outcome single = run_elmo({"eval", out, "--label-thresholds"});
    EXPECT_TRUE(contains(single.out, "calibrated: 1 label has its own, the others the common one"))
        << single.out << single.err;
    expect_failure(run_elmo({"predict", out, "--label-thresholds", "--threshold", "0.2"}, "x\n"), 2,
                   {"leave --threshold out"});
    // Raw probabilities have neither.
    const Words raw = {"--probabilities", "raw"};
    for (const char* verb : {"predict", "eval"}) {
        expect_failure(run_elmo(Words{verb, out, "--label-thresholds"} + raw, "x\n"), 2,
                       {"label_thresholds: thresholds per label are of calibrated probabilities, found "
                        "--probabilities raw; leave one of the two out"});
        expect_failure(run_elmo(Words{verb, out, "--threshold", "-1"} + raw, "x\n"), 2,
                       {"threshold: -1 is the best one of calibrated probabilities, found --probabilities "
                        "raw; leave it out, or give another threshold"});
    }
    // They go with the calibration that had them, not in silence.
    const std::string dropped =
        "the thresholds per label of the last calibration are dropped; give "
        "--label-thresholds to fit them again";
    EXPECT_FALSE(contains(run_elmo({"calibrate", out, "--label-thresholds"}).err, "dropped"));
    EXPECT_TRUE(contains(run_elmo({"calibrate", out, "--quiet"}).err, dropped));
    EXPECT_FALSE(contains(run_elmo({"calibrate", out}).err, "dropped"));
}

TEST_F(Workflow, LabelsAreAddedAndRemoved) {
    const std::string more = folder_->text("more"), less = folder_->text("less");
    const std::string names = folder_->write("names.txt", "kind of whale\nkind of ant\n");
    const Outcome added = run_elmo({"labels", "add", run(), names, "--out", more, "--json", "--quiet"});
    expect_success(added);
    EXPECT_EQ(Json::parse(added.out)["labels"], 8);
    EXPECT_EQ(Json::parse(run_elmo({"inspect", more, "--json"}).out)["labels"], 8);
    const Outcome best = run_elmo({"predict", more, "--top", "8", "--json"}, "the trout runs\n");
    EXPECT_EQ(json_lines(best.out)[0]["labels"][0]["name"], "kind of trout");
    EXPECT_TRUE(contains(best.out, "kind of whale"));
    const Outcome removed = run_elmo({"labels", "remove", more, names, "--out", less, "--quiet"});
    expect_success(removed);
    EXPECT_TRUE(contains(removed.out, "6, were 8")) << removed.out;
    // There and back again: the same answers to the last digit.
    const Words ask = {"--top", "6", "--json"};
    EXPECT_EQ(run_elmo(Words{"predict", less} + ask, "the dog eats\n").out,
              run_elmo(Words{"predict", run()} + ask, "the dog eats\n").out);
    // Of a few examples none is held out.
    const std::string few = folder_->write(
        "few.tsv",
        "the whale swims\tkind of whale\na whale dives\tkind of whale\nwhale song\tkind of whale\n"
        "the whale eats\tkind of whale\nwhales at sea\tkind of whale\n");
    const Outcome trained =
        run_elmo({"labels", "add", run(), "--data", few, "--out", folder_->text("few"), "--steps", "2"});
    expect_success(trained);
    EXPECT_TRUE(contains(trained.err, "5/5")) << trained.err;
    expect_failure(run_elmo({"labels", "add", run(), names, "--out", more}), 2, {more});
    expect_failure(run_elmo({"labels", "add", run(), names}), 2, {"--out"});
    expect_failure(run_elmo({"labels", "ad", run(), names, "--out", more}), 2, {"add or remove"});
    expect_failure(run_elmo({"labels", "remove", run(), "--out", folder_->text("x")}), 2, {"FILE"});
    expect_failure(run_elmo({"labels", "remove", run(), names, "--out", folder_->text("x")}), 1,
                   {"names.txt:1"});
}

TEST_F(Workflow, TokenizeUsesTheRunsTokenizer) {
    const Outcome outcome =
        run_elmo({"tokenize", "--tokenizer", run() + "/best"}, "the cat\nthe cat sleeps\n");
    expect_success(outcome);
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2);
    const auto arrays =
        json_lines(run_elmo({"tokenize", "--tokenizer", run() + "/best", "--json"}, "the cat\n").out);
    ASSERT_EQ(arrays.size(), 1u);
    std::string joined;
    for (const Json& id : arrays[0]) joined += (joined.empty() ? "" : " ") + id.dump();
    EXPECT_EQ(outcome.out.substr(0, outcome.out.find('\n')), joined);
}

TEST_F(Workflow, InspectAndDataSayWhatIsThere) {
    const Outcome of_run = run_elmo({"inspect", run(), "--json"});
    expect_success(of_run);
    EXPECT_EQ(Json::parse(of_run.out)["labels"], 6);
    const Outcome of_data = run_elmo({"inspect", data(), "--json"});
    expect_success(of_data);
    EXPECT_EQ(Json::parse(of_data.out)["train_rows"], 60);
    const Outcome summary = run_elmo({"data", data(), "--vocab-size", "100", "--json"});
    expect_success(summary);
    const Json json = Json::parse(summary.out);
    EXPECT_EQ(json["train_rows"], 60);
    EXPECT_EQ(json["test_rows"], 20);
    EXPECT_EQ(json["labels"], 6);
    EXPECT_EQ(json["labels_per_row"], 1.0);
    EXPECT_EQ(json["has_label_names"], true);
    // People see units and words, programs see keys and all digits.
    const std::string shown = run_elmo({"inspect", run()}).out;
    EXPECT_TRUE(contains(shown, "per text and label")) << shown;
    EXPECT_TRUE(contains(shown, "576 B\n")) << shown;
    EXPECT_TRUE(contains(shown, "label names")) << shown;
    EXPECT_FALSE(contains(shown, "_bytes")) << shown;
    EXPECT_FALSE(contains(shown, "true")) << shown;
    EXPECT_TRUE(Json::parse(of_run.out).contains("head_bytes"));
}

TEST_F(Workflow, PlanNamesSegmentsAndGrowsWithLabels) {
    const auto plan = [](const char* labels) {
        const Outcome outcome =
            run_elmo({"plan", "--labels", labels, "--width", "64", "--batch-size", "8", "--json"});
        expect_success(outcome);
        return Json::parse(outcome.out);
    };
    const Json small = plan("1000"), large = plan("100000");
    EXPECT_GT(small["segments"].size(), 2u);
    EXPECT_GE(large["arena_bytes"].get<std::int64_t>() - small["arena_bytes"].get<std::int64_t>(),
              99000 * 64 * 2);
    EXPECT_NE(run_elmo({"plan", "--labels", "1000"}).out.find("head"), std::string::npos);
}

TEST_F(Workflow, AShapePlansARecipeWithoutItsEncoder) {
    const Outcome outcome = run_elmo({"plan", "--recipe", "lf-amazontitles-131k-fp8", "--shape",
                                      "lf-amazontitles-131k", "--device", "cpu", "--json"});
    expect_success(outcome);
    EXPECT_GT(Json::parse(outcome.out).at("total_bytes"), 1 << 30);
}

TEST_F(Workflow, APlanThatDoesNotFitSaysSo) {
    const Words plan = {"plan", "--labels", "1000000", "--width", "64", "--batch-size", "8", "--json"};
    const Outcome tight = run_elmo(plan + Words{"--max-memory", "100MiB"});
    EXPECT_EQ(tight.status, 1);
    EXPECT_GT(Json::parse(tight.out)["total_bytes"], 100 << 20);  // the smallest plan is shown all the same
    EXPECT_TRUE(contains(tight.err, "max_memory of 100.0 MiB")) << tight.err;
    expect_success(run_elmo(plan + Words{"--max-memory", "100GiB"}));
    // A linear training does not keep to it, but people want to know.
    const Outcome linear = run_elmo({"plan", data(), "--encoder", "linear", "--max-memory", "1MiB"});
    EXPECT_EQ(linear.status, 1);
    EXPECT_TRUE(contains(linear.err, "to which a linear training does not keep")) << linear.err;
    // What fits by the table does.
    const Words large = {"plan", "--labels", "1000", "--width", "64"};
    const auto bytes = [&](const char* batch) {
        const Outcome outcome = run_elmo(large + Words{"--batch-size", batch, "--json"});
        return outcome.status == 0 ? Json::parse(outcome.out).at("total_bytes").get<std::int64_t>() : 0;
    };
    const std::string between = std::to_string((bytes("2048") + bytes("4096")) / 2);
    const Outcome said = run_elmo(large + Words{"--batch-size", "4096", "--max-memory", between});
    EXPECT_EQ(said.status, 1);
    EXPECT_TRUE(contains(said.err, "training would stop; --batch-size 2048 fits")) << said.err;
    expect_success(run_elmo(large + Words{"--batch-size", "2048", "--max-memory", between}));
}

TEST_F(Workflow, TrainingIsNotOverwrittenUnlessAsked) {
    const Words again = Words{"train", data(), "--out", run()} + small_model();
    expect_failure(run_elmo(again), 2, {run(), "--resume", "--overwrite"});
    const Words elsewhere = Words{"train", data(), "--out", folder_->text("other")} + small_model();
    folder_->write("other/precious.txt", "mine");
    expect_failure(run_elmo(elsewhere + Words{"--overwrite"}), 2, {"precious.txt"});
    EXPECT_TRUE(std::filesystem::exists(folder_->path("other/precious.txt")));
    const Outcome resumed = run_elmo(again + Words{"--resume", "--json"});  // already complete
    expect_success(resumed);
    EXPECT_EQ(Json::parse(resumed.out)["steps"],
              Json::parse(run_elmo({"inspect", run(), "--json", "--checkpoint", "last"}).out)["step"]);
}

// Of a run that is not at its end before a test has stopped it, and does not validate. (More steps would be
// slow to plan, so they are wide.)
const std::string kEndless =
    " --width 512 --vocab-size 100 --batch-size 6 --threads 1 --steps 1000000 --eval-every 1000000";

// `elmo train words`, stopped by a signal when the log of the run `out` holds a step after an `event`.
// `timeout` ends what hangs; no step is that slow.
Outcome train_until_stopped(const std::string& words, const std::string& out, const std::string& event,
                            const std::string& stop = "kill -TERM $child") {
    const std::string steps = "sed '0,/\"event\":\"" + event + "\"/d' " + out + "/log.jsonl 2>/dev/null";
    return run_shell("timeout --foreground -s KILL 1800 \"$ELMO\" train " + words + " --out " + out +
                     " & child=$!; until " + steps + " | grep -q '\"event\":\"step\"'; do " +
                     "kill -0 $child || break; sleep 0.1; done; " + stop + "; wait $child");
}

TEST_F(Workflow, ASignalSavesAndEndsWell) {
    const std::string out = folder_->text("stopped");
    const Outcome outcome = train_until_stopped(data() + kEndless + " --json --quiet", out, "start");
    expect_success(outcome);
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["interrupted"], true);
    EXPECT_GT(result["steps"], 0);
    EXPECT_EQ(Json::parse(run_elmo({"inspect", out, "--checkpoint", "last", "--json"}).out)["step"],
              result["steps"]);
    EXPECT_EQ(result["select"], "last");  // nothing was validated
}

// A terminal that is closed, which its shell and the kernel may both say.
TEST_F(Workflow, AHangupSavesToo) {
    const std::string out = folder_->text("hung_up");
    const Outcome outcome = train_until_stopped(data() + kEndless + " --json --quiet", out, "start",
                                                "kill -HUP $child; kill -HUP $child");
    expect_success(outcome);
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["interrupted"], true);
    EXPECT_EQ(Json::parse(run_elmo({"inspect", out, "--checkpoint", "last", "--json"}).out)["step"],
              result["steps"]);
}

TEST_F(Workflow, AStoppedRunSaysHowFarItCame) {
    const std::string out = folder_->text("stopped_loudly");
    const Outcome outcome = train_until_stopped(data() + kEndless, out, "start");
    expect_success(outcome);
    EXPECT_TRUE(contains(outcome.err, "/1,000,000 steps")) << outcome.err;
    EXPECT_FALSE(contains(outcome.err, "1,000,000/1,000,000")) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "stopped early")) << outcome.out;
    EXPECT_FALSE(contains(outcome.out, "best P@1")) << outcome.out;
    const auto last_step = [&] {
        return Json::parse(run_elmo({"inspect", out, "--checkpoint", "last", "--json"}).out)["step"]
            .get<int>();
    };
    const int stopped_at = last_step();
    expect_success(train_until_stopped("--resume --quiet", out, "resume"));  // it knows its data
    EXPECT_GT(last_step(), stopped_at);
    // What is made of it has nothing to continue from, and must not be trained over from the beginning.
    const std::string more = folder_->text("more_of_stopped");
    const std::string names = folder_->write("name.txt", "kind of whale\n");
    expect_success(run_elmo({"labels", "add", out, names, "--out", more, "--quiet"}));
    expect_failure(run_elmo(Words{"train", data(), "--out", more, "--resume"} + small_model()), 2,
                   {more, "elmo labels"});
}

}  // namespace
}  // namespace elmo
