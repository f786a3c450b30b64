// Which rows are scored, in which order, and under which numbers: stored predictions, filters, comparisons,
// and what a changed run still knows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace elmo {
namespace {

using Json = nlohmann::json;

const char* const kColours[] = {"red", "blue", "green"};

// Rows [first, last); every third has a label of its own too.
std::string rows_of(int first, int last, bool own = true) {
    std::string rows = "text,labels\n";
    for (int i = first; i < last; ++i) {
        const std::string colour = kColours[i % 3];
        rows += fmt::format("thing {} is {} and old,\"{}{}\"\n", i, colour, colour,
                            own && i % 3 == 0 ? fmt::format(",only{}", i) : std::string());
    }
    return rows;
}

class ScoredRowsOf : public testing::Test {
  protected:
    Json scores(const Words& words) const {
        const Outcome outcome = run_elmo(Words{"eval"} + words + Words{"--json", "--quiet"});
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    std::string trained(const std::string& name, const Words& words) const {
        expect_success(run_elmo(Words{"train"} + words + Words{"--out", folder_.text(name), "--quiet"}));
        return folder_.text(name);
    }

    TempFolder folder_;
};

// As the run is scored: intervals too, though labels are in rows that it held out only, and though it
// validated on a file.
TEST_F(ScoredRowsOf, StoredPredictionsOfAllRows) {
    const std::string data = folder_.write("d.csv", rows_of(0, 90)),
                      other = folder_.write("v.csv", rows_of(90, 120, false)),
                      copy = folder_.text("d.csv.gz"), stored = folder_.text("stored.txt");
    ASSERT_EQ(run_shell("gzip -c $0/d.csv > $0/d.csv.gz", folder_.path()).status, 0);
    for (const Words& validation : {Words{}, Words{"--validation", other}}) {
        const std::string run = trained("run", Words{data, "--overwrite"} + validation);
        for (const std::string& file : {data, copy}) {
            const Json own = scores({run, file, "--split", "all", "--save-predictions", stored});
            const Json again = scores({"--predictions", stored, file, "--split", "all"});
            EXPECT_EQ(own["protocol"]["samples"], 90);
            for (const char* score : {"P@1", "P@3", "P@5"}) EXPECT_EQ(own[score], again[score]) << score;
            // Propensities are of other counts.
            for (const char* score : {"P@3", "R@1", "nDCG@3"})
                EXPECT_EQ(own["intervals"].at(score), again["intervals"].at(score)) << score;
            EXPECT_EQ(scores({run, run, file, "--split", "all"})["first"]["intervals"], own["intervals"]);
        }
    }
}

// A training half of a file that was divided before: the hash holds none of its rows out.
TEST_F(ScoredRowsOf, ARunOfATrainingHalfIsScoredOnAllOfIt) {
    const std::string whole = folder_.write("d.csv", rows_of(0, 400, false));
    expect_success(
        run_elmo({"data", "convert", whole, "--to", "csv", "--out", folder_.text("halves"), "--quiet"}));
    const std::string half = folder_.text("half.csv");
    std::filesystem::copy(folder_.path("halves/train.csv"), half);
    const Outcome trained = run_elmo({"train", half, "--out", folder_.text("run")});
    expect_success(trained);
    EXPECT_TRUE(contains(trained.err, "is held out for testing")) << trained.err;
    for (const Words& words :
         {Words{"eval", folder_.text("run")}, Words{"eval", folder_.text("run"), half}}) {
        const Outcome scored = run_elmo(words);
        expect_success(scored);
        EXPECT_TRUE(contains(scored.err, " scored texts trained this run")) << scored.err;
    }
}

// The recipe of a run has what the run chose, which nobody gave.
TEST_F(ScoredRowsOf, RecipesOfRunsTrainAgain) {
    std::string lines;
    for (int i = 0; i < 90; ++i)
        lines += fmt::format("thing {} is {}\t{}\n", i, kColours[i % 3], kColours[i % 3]);
    const std::string data = folder_.write("d.tsv", lines);
    const std::string run = trained("run", Words{data, "--encoder", "bag"} + small_model());
    EXPECT_EQ(slurp(trained("again", {"--recipe", run + "/best/recipe.toml"}) + "/best/model.safetensors"),
              slurp(run + "/best/model.safetensors"));
    const std::string more = trained("more", {data, "--init", run, "--steps", "3"});
    EXPECT_EQ(
        slurp(trained("more again", {"--recipe", more + "/best/recipe.toml"}) + "/best/model.safetensors"),
        slurp(more + "/best/model.safetensors"));
    trained("recipe and init", {"--recipe", run + "/best/recipe.toml", "--init", run, "--steps", "3"});
    expect_failure(run_elmo({"train", data, "--init", run, "--width", "8", "--out", folder_.text("no")}), 2,
                   {"encoder and tokenizer come from"});
}

// Rows to score are asked for, not those that validated.
TEST_F(ScoredRowsOf, OtherFilesAreScoredWhereTheValidationFileIsGone) {
    const std::string data = folder_.write("d_train.csv", rows_of(0, 90, false)),
                      other = folder_.write("v.csv", rows_of(90, 120, false));
    folder_.write("d_test.csv", rows_of(120, 150, false));
    const std::string run = trained("run", {data, "--validation", other});
    const std::string copy = folder_.write("copy.csv", rows_of(0, 90, false) + "\n");
    std::filesystem::remove(other);
    EXPECT_EQ(scores({run, copy})["protocol"]["samples"], 90);
    EXPECT_EQ(scores({run, copy, "--split", "all"})["protocol"]["samples"], 90);
}

// A run knows the rows that validated it: where the data is of another format, they are not read as what they
// are not, and what does not ask for them goes on.
TEST_F(ScoredRowsOf, TheRunsValidationFileHasAnotherFormatThanTheData) {
    const std::string data = folder_.write("d.csv", rows_of(0, 90, false)),
                      other = folder_.write("v.csv", rows_of(90, 120, false));
    std::string lines;
    for (int i = 0; i < 30; ++i)
        lines += fmt::format("{{\"text\": \"a thing {}\", \"labels\": [\"{}\"]}}\n", kColours[i % 3],
                             kColours[i % 3]);
    const std::string json = folder_.write("d.jsonl", lines);
    const std::string run =
        trained("run", Words{data, "--encoder", "bag"} + small_model() + Words{"--validation", other});
    EXPECT_EQ(scores({run, json})["protocol"]["samples"], 30);
    for (const Words& words :
         {Words{"calibrate", run, json}, Words{"eval", run, json, "--split", "validation"},
          Words{"train", json, "--init", run, "--out", folder_.text("next")}})
        expect_failure(run_elmo(words), 1,
                       {"v.csv, which validated the run: expected validation rows in the format"});
}

// Runs of two seeds hold other rows out, whatever their columns are.
TEST_F(ScoredRowsOf, ValidationRowsOfTwoRunsAreToldApart) {
    const std::string data = folder_.write("d.csv", rows_of(0, 200, false));
    const std::string first = trained("first", {data, "--validation", "0.1"}),
                      second = trained("second", {data, "--validation", "0.1", "--seed", "7"});
    expect_failure(run_elmo({"eval", first, second, data, "--split", "validation"}), 1,
                   {"each run has validation rows of its own", "--validation FILE"});
    const std::string other = folder_.write("v.csv", rows_of(200, 230, false));
    EXPECT_EQ(scores({first, second, data, "--split", "validation", "--validation",
                      other})["first"]["protocol"]["samples"],
              30);
}

// Of a training file whose test rows were elsewhere, a share trained the run as the rest did.
TEST_F(ScoredRowsOf, AShareOfAFileThatTrainedAsAWhole) {
    folder_.write("d_train.csv", rows_of(0, 400, false));
    folder_.write("d_test.csv", rows_of(400, 430, false));
    const std::string run = trained("run", {folder_.text("d_train.csv")});
    const std::string copy = folder_.write("copy.csv", rows_of(0, 400, false));
    const Outcome scored = run_elmo({"eval", run, copy, "--test-share", "0.1"});
    expect_success(scored);
    EXPECT_TRUE(contains(scored.out, "test_share is given")) << scored.out;
    EXPECT_TRUE(contains(scored.err, "and so did the other rows")) << scored.err;
}

// What a linear model does not have, a recipe of its run does not set, and a format that was given was not
// found.
TEST_F(ScoredRowsOf, LinearRunsHaveNoLossAndNoIdleOptions) {
    const std::string data = folder_.write("d.csv", rows_of(0, 60, false));
    const Outcome linear = run_elmo({"train", data, "--out", folder_.text("linear"), "--json"});
    expect_success(linear);
    EXPECT_TRUE(Json::parse(linear.out)["last_loss"].is_null());
    const Outcome again = run_elmo(
        {"train", "--recipe", folder_.text("linear/best/recipe.toml"), "--out", folder_.text("again")});
    expect_success(again);
    EXPECT_FALSE(contains(again.err, "has no effect")) << again.err;
    expect_failure(run_elmo({"train", data, "--format", "fasttext", "--text-column", "text", "--out",
                             folder_.text("no")}),
                   2, {"is read in the format fasttext", "leave --text-column out, or --format"});
}

// They are no rows from memory, which nothing leads to.
TEST_F(ScoredRowsOf, FilesMayBeCalledAsTemporaryFoldersBegin) {
    const std::string data = folder_.write("elmo-rows-a.csv", rows_of(0, 90, false));
    EXPECT_GT(scores({trained("run", {data})})["protocol"]["samples"], 0);
}

// A pair 'row label' is about a row of what is scored.
TEST_F(ScoredRowsOf, FiltersOfAllRowsAndOfValidationRows) {
    const std::string data = folder_.write("d.csv", rows_of(0, 90, false));
    const std::string run = trained("run", {data, "--validation", "0.2"});
    std::string pairs;
    for (int row = 0; row < 45; ++row)
        for (int label = 0; label < 3; ++label) pairs += fmt::format("{} {}\n", row, label);
    const std::string half = folder_.write("half.txt", pairs), stored = folder_.text("stored.txt");
    const Json whole = scores({run, data, "--split", "all", "--save-predictions", stored, "--k", "1"}),
               of_run = scores({run, data, "--split", "all", "--filter", half, "--k", "1"}),
               of_file =
                   scores({"--predictions", stored, data, "--split", "all", "--filter", half, "--k", "1"});
    EXPECT_EQ(of_run["P@1"], of_file["P@1"]);
    EXPECT_LT(of_run["P@1"], 0.6 * whole["P@1"].get<double>());
    // Numbered as the training rows, among which the validation rows are.
    std::string all;
    for (int row = 0; row < 60; ++row)
        for (int label = 0; label < 3; ++label) all += fmt::format("{} {}\n", row, label);
    const Json validation =
        scores({run, data, "--split", "validation", "--filter", folder_.write("all.txt", all), "--k", "1"});
    EXPECT_LT(validation["P@1"], 50);
}

TEST_F(ScoredRowsOf, AComparisonWhereEachRunTrainedOnAsManyOtherRows) {
    const std::string data = folder_.write("d.csv", rows_of(0, 150, false));
    const std::string common = rows_of(0, 120, false);
    const auto without_header = [](const std::string& rows) { return rows.substr(rows.find('\n') + 1); };
    const Words whole = {"--validation", "0", "--test-share", "0"};
    const std::string one = trained("one", Words{folder_.write(
                                               "a.csv", common + without_header(rows_of(120, 135, false)))} +
                                               whole),
                      two = trained("two", Words{folder_.write(
                                               "b.csv", common + without_header(rows_of(135, 150, false)))} +
                                               whole);
    EXPECT_EQ(scores({one, two, data})["first"]["protocol"]["samples"], 150);
}

TEST_F(ScoredRowsOf, ARefinedRunKnowsTheTextsThatItWasRefinedOn) {
    const std::string data = folder_.write("d.csv", rows_of(0, 90, false)),
                      more = folder_.write("more.csv", rows_of(90, 180, false));
    const std::string run = trained("run", Words{data, "--encoder", "bag"} + small_model());
    expect_success(run_elmo({"refine", run, more, "--out", folder_.text("refined"), "--quiet"}));
    const Json known = scores({folder_.text("refined"),
                               folder_.write("again.csv", rows_of(90, 180, false) + "\n"), "--split", "all"});
    EXPECT_GT(known["protocol"]["trained_samples"], 70);  // a tenth was held out
    const Outcome shown = run_elmo({"inspect", folder_.text("refined"), "--json"});
    expect_success(shown);
    EXPECT_EQ(Json::parse(shown.out)["resumable"], false);
    EXPECT_TRUE(Json::parse(shown.out)["last_loss"].is_null());
    // A finished refinement says nothing that it does not know.
    const Outcome again =
        run_elmo({"refine", run, more, "--out", folder_.text("refined"), "--resume", "--quiet"});
    expect_success(again);
    EXPECT_FALSE(contains(again.out, "loss")) << again.out;
}

// Rows validate by their place: in front of the old ones, new rows move it.
TEST_F(ScoredRowsOf, ValidationRowsThatTrainedTheFirstRunAreToldOf) {
    const std::string old = rows_of(0, 200, false);
    const std::string run =
        trained("run", Words{folder_.write("old.csv", old), "--encoder", "bag", "--validation", "0.2"} +
                           small_model());
    const auto continued = [&](const std::string& rows) {
        const Outcome outcome = run_elmo({"train", folder_.write("rows.csv", rows), "--init", run, "--steps",
                                          "2", "--out", folder_.text("more"), "--overwrite", "--quiet"});
        expect_success(outcome);
        return outcome.err;
    };
    const std::string header = "text,labels\n";
    EXPECT_TRUE(contains(continued(rows_of(200, 203, false) + old.substr(header.size())),
                         "validation texts trained"));
    EXPECT_FALSE(contains(continued(old + rows_of(200, 203, false).substr(header.size())), "trained"));
}

// The first labels of the answer that has no limit.
TEST_F(ScoredRowsOf, ALimitOfAnswersComesAfterTheThresholdsOfLabels) {
    std::string rows = "text,labels\n";
    for (int i = 0; i < 300; ++i)
        rows += fmt::format("w{} x{} y{},\"a{},b{}\"\n", i % 7, i % 5, i % 3, i % 7, i % 5 == 0 ? i % 3 : 0);
    const std::string data = folder_.write("d.csv", rows);
    const std::string run = trained("run", {data, "--validation", "0.3"});
    expect_success(run_elmo({"calibrate", run, "--label-thresholds", "--quiet"}));
    const auto answers = [&](const Words& top) {
        std::vector<std::vector<Json>> all;
        const Outcome outcome =
            run_elmo(Words{"predict", run, data, "--label-thresholds", "--json", "--quiet"} + top);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        std::istringstream lines(outcome.out);
        for (std::string line; std::getline(lines, line);) {
            all.emplace_back();
            const Json answer = Json::parse(line);
            for (const Json& label : answer["labels"]) all.back().push_back(label["name"]);
        }
        return all;
    };
    const auto whole = answers({}), first = answers({"--top", "1"});
    ASSERT_EQ(whole.size(), first.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
        ASSERT_EQ(first[i].empty(), whole[i].empty()) << i;
        if (whole[i].empty()) continue;
        EXPECT_EQ(first[i], std::vector<Json>{whole[i].front()}) << i;
    }
    expect_failure(run_elmo({"predict", run, data, "--label-thresholds", "--threshold", "0"}), 2,
                   {"expected no threshold beside them"});
    expect_failure(run_elmo({"predict", run, data, "--threshold", "-1", "--checkpoint", "last"}), 2,
                   {"elmo calibrate RUN --checkpoint last"});
}

TEST_F(ScoredRowsOf, AContinuedPredictionSearchesAsItBegan) {
    const std::string data = folder_.write("d.csv", rows_of(0, 900, false));
    const std::string run = trained("run", Words{data, "--encoder", "bag"} + small_model());
    expect_success(run_elmo({"index", run, "--quiet"}));
    const Words predict = {"predict", run, data, "--out", folder_.text("a.jsonl"), "--quiet"};
    expect_success(run_elmo(predict));
    expect_failure(run_elmo(predict + Words{"--resume", "--search", "approximate"}), 2, {"search"});
}

// A server that would refuse each request does not start.
TEST_F(ScoredRowsOf, AServerNeedsTheCalibrationThatItIsToAnswerBy) {
    const std::string run = trained("run", {folder_.write("d.csv", rows_of(0, 90, false))});
    expect_failure(run_elmo({"serve", run, "--port", "0", "--threshold", "-1"}), 2,
                   {"needs a calibrated run"});
}

// Also of a grown file, of which only the rows that did not train the run are scored.
TEST_F(ScoredRowsOf, ColumnsOfLabelsThatAreMissingAreSaid) {
    const auto table = [&](const std::string& name, int last, bool green) {
        std::string rows = green ? "text,red,blue,green\n" : "text,red,blue\n";
        for (int i = 0; i < last; ++i) {
            rows +=
                fmt::format("thing {} is {} and old,{:d},{:d}", i, kColours[i % 3], i % 3 == 0, i % 3 == 1);
            rows += green ? fmt::format(",{:d}\n", i % 3 == 2) : "\n";
        }
        return folder_.write(name, rows);
    };
    const std::string run = trained("run", {table("all.csv", 180, true)});
    for (const std::string& file : {table("part.csv", 180, false), table("grown.csv", 210, false)}) {
        const Outcome outcome = run_elmo({"eval", run, file});
        expect_success(outcome);
        EXPECT_TRUE(contains(outcome.err, "1 of 3 labels have no column ('green')")) << outcome.err;
    }
}

}  // namespace
}  // namespace elmo
