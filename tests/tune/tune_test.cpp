// The search for better numbers: who the candidates are, who stays, that it goes on where it was stopped, and
// that it needs no test rows.
#include "elmo/tune.h"

#include <gtest/gtest.h>

#include <set>

#include "elmo/error.h"
#include "quiet.h"
#include "train/tiny_data.h"
#include "tune/budget.h"
#include "tune/candidates.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using namespace test;

TEST(Candidates, AreDistinctStartWithTheDefaultsAndKeepWhatWasGiven) {
    Config asked;
    asked.head_lr = 0.02;
    Config defaults = with_usual_numbers(asked);
    defaults.encoder_lr = 1e-3;
    const std::vector<Candidate> all = make_candidates(asked, defaults, false, 20);
    ASSERT_EQ(all.size(), 20u);
    EXPECT_EQ(all[0].name(), "the defaults");
    std::set<std::string> names;
    for (const Candidate& candidate : all) {
        names.insert(candidate.name());
        const Config config = with_changes(defaults, candidate);
        EXPECT_EQ(config.head_lr, 0.02);
        EXPECT_EQ(config.augment, "none");  // without label texts
        validate(config);
    }
    EXPECT_EQ(names.size(), all.size());
    EXPECT_EQ(make_candidates(asked, defaults, false, 20)[7].name(), all[7].name());
    Config other = defaults;
    other.seed = 1;
    EXPECT_NE(make_candidates(asked, other, false, 20)[7].name(), all[7].name());
}

TEST(Candidates, TheBetterThirdStaysAndTheDefaults) {
    EXPECT_EQ(survivors({1, 5, 3, 5, 0, 2}), (std::vector<std::size_t>{0, 1, 3}));
    EXPECT_EQ(survivors({9, 5, 3}), (std::vector<std::size_t>{0}));
    EXPECT_EQ(survivors({7}), (std::vector<std::size_t>{0}));
}

TEST(Budget, EndsWorkByItsProgress) {
    Budget none(quiet(), 0), short_one(quiet(), 1e-9);
    const Context context = short_one.context();
    EXPECT_FALSE(none.spent());
    EXPECT_FALSE(context.stop_requested());
    context.sinks().progress({});
    EXPECT_TRUE(context.stop_requested());
    EXPECT_TRUE(short_one.spent());
    const std::atomic<bool> stopped = true;
    Budget asked(quiet().with_stop(stopped), 0);
    EXPECT_TRUE(asked.spent());
}

class Tune : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        for (const char* file : {"tst_X.txt", "tst_X_Y.txt"}) fs::remove(fs::path(temp / "data") / file);
        request.config = tiny_config(temp);
        request.config.steps = 12;
        request.config.dropout = kAuto;
        request.config.batch_size = kAuto;
        request.trials = 4;
    }
    TempFolder temp;
    TuneRequest request;
};

TEST_F(Tune, WritesARecipeAndSaysTheGain) {
    std::string said;
    Sinks sinks = silent();
    sinks.message = [&](Severity, std::string_view message) { said += std::string(message) + "\n"; };
    const TuneResult result = tune(quiet().with_sinks(sinks), request);
    EXPECT_NE(said.find("it takes bag. On a CPU 'elmo train' takes the linear model"), std::string::npos)
        << said;  // nothing was said about the encoder
    EXPECT_FALSE(result.interrupted);
    EXPECT_GE(result.trials, 4 + 2 + 1);
    EXPECT_GE(result.best_score, result.default_score);
    EXPECT_TRUE(result.whole);
    EXPECT_NE(result.verdict.find("a gain of"), std::string::npos) << result.verdict;
    EXPECT_TRUE(fs::exists(result.html));
    EXPECT_NE(result.tables.find(" 1.5000 "), std::string::npos)
        << result.tables;  // by steps, which may be few
    Config tuned;
    load_recipe(tuned, result.recipe);
    EXPECT_EQ(tuned.head_lr, 0.02);  // as given
    EXPECT_FALSE(tuned.batch_size.is_auto());
    EXPECT_THROW(tune(quiet(), request), ConfigError);  // the folder holds a search
}

TEST_F(Tune, TheRecipeHoldsWhatWasSearchedWith) {
    request.trials = 1;
    request.config.width = 24;
    request.config.steps = 8;
    request.config.equal_texts = "apart";
    Config tuned;
    load_recipe(tuned, tune(quiet(), request).recipe);
    EXPECT_EQ(tuned.encoder, "bag");  // what auto was; on a CPU it is linear for 'elmo train'
    EXPECT_EQ(tuned.width, 24);
    EXPECT_EQ(tuned.steps, 8);
    EXPECT_EQ(tuned.equal_texts, "apart");
    // Where files are is said by the call that trains, and more rows validate in a search than elsewhere.
    EXPECT_EQ(tuned.data, "");
    EXPECT_EQ(tuned.out, "");
    EXPECT_EQ(tuned.validation, Config().validation);
}

// Data and validation rows are those of the run that the search starts from.
TEST_F(Tune, WithInitTakesDataAndValidationOfTheRun) {
    Config first = tiny_config(temp);
    first.validation = "0.3";
    train(quiet(), first);
    TuneRequest from;
    from.config.init = first.out;
    from.config.cache = first.cache;
    from.config.out = temp / "search";
    from.trials = 1;
    std::vector<std::string> warnings;
    Sinks sinks;
    sinks.message = [&](Severity severity, std::string_view line) {
        if (severity == Severity::kWarning) warnings.emplace_back(line);
    };
    EXPECT_GE(tune(quiet().with_sinks(sinks), from).trials, 1);
    for (const std::string& line : warnings) EXPECT_EQ(line.find("trained"), line.npos) << line;
    const auto validation_rows = [&](const std::string& data, const std::string& name) {
        from.config.data = data;
        from.config.out = temp / name;
        std::string said;
        sinks.message = [&](Severity, std::string_view line) { said += std::string(line) + "\n"; };
        tune(quiet().with_sinks(sinks), from);
        const std::size_t at = said.find(" on ", said.find("P@5"));
        return std::stoi(said.substr(at + 4));
    };
    // Of other data, and of a run without validation rows, a tenth.
    write_tiny_data(temp / "other", {.train_rows = 400});
    const int of_other = validation_rows(temp / "other", "search-other"),
              of_own = validation_rows(first.data, "search-own");
    EXPECT_GT(of_other, 20);  // of 400
    EXPECT_LT(of_other, 70);
    EXPECT_GT(of_own, 30);  // of 150
}

TEST_F(Tune, WithoutValidationRowsThereIsNothingToCompare) {
    request.config.validation = "0";
    EXPECT_THROW(tune(quiet(), request), ConfigError);
    EXPECT_FALSE(fs::exists(request.config.out));
}

// A candidate with twice the epochs has trained twice as long in the first round: its score is no gain.
TEST_F(Tune, StoppedInItsFirstRoundComparesEqualLengthsAndTellsNoGain) {
    request.config.steps = 0;
    request.config.epochs = kAuto;
    request.config.batch_size = 16;
    request.trials = 6;  // epochs and dropout are varied
    request.config.eval_every = 1000;
    const Config defaults = [&] {
        Config config = request.config;
        config.encoder = "bag";
        return with_usual_numbers(config);
    }();
    const std::vector<Candidate> candidates = make_candidates(request.config, defaults, false, 6);
    tune(quiet(), request);
    // As if the search had ended with its first round, where those with other epochs were better.
    const fs::path trials = fs::path(request.config.out) / "trials";
    std::size_t others = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const bool other = candidates[i].name().find("epochs") != std::string::npos;
        others += other;
        const fs::path file = trials / fmt::format("{}-0.json", i);
        std::string json = read_text(file);
        const std::size_t at = json.find("\"score\": ") + 9, end = json.find(',', at);
        write_text(file, json.replace(at, end - at, fmt::format("{}.5", (other ? 70 : 60) + i)));
        for (const char* round : {"1", "2"}) fs::remove(trials / fmt::format("{}-{}.json", i, round));
    }
    ASSERT_GT(others, 0u);
    ASSERT_LT(others + 1, candidates.size());
    request.config.resume = true;
    const std::atomic<bool> stopped = true;
    const TuneResult result = tune(quiet().with_stop(stopped), request);
    EXPECT_EQ(result.trials, 6);
    EXPECT_EQ(result.best.find("epochs"), std::string::npos) << result.best;
    EXPECT_LT(result.best_score, 70);
    EXPECT_EQ(result.default_score, 60.5);
    EXPECT_FALSE(result.whole);
    for (const std::string& said : {result.verdict, read_text(result.recipe), read_text(result.html)}) {
        EXPECT_EQ(said.find("a gain of"), std::string::npos) << said;
        EXPECT_NE(said.find(fmt::format("the defaults 60.50, after {:.4g} of {:.4g} epochs ({} candidate",
                                        0.25 * defaults.epochs, double(defaults.epochs), others)),
                  std::string::npos)
            << said;
    }
}

TEST_F(Tune, GoesOnWhereItWasStopped) {
    TuneRequest whole = request;
    whole.config.out = temp / "whole";
    const TuneResult unbroken = tune(quiet(), whole);
    const std::atomic<bool> stopped = true;
    const TuneResult none = tune(quiet().with_stop(stopped), request);
    EXPECT_TRUE(none.interrupted);
    EXPECT_EQ(none.trials, 0);
    // A trial that is there is not trained again.
    fs::create_directories(fs::path(request.config.out) / "trials");
    fs::copy(fs::path(whole.config.out) / "trials/0-0.json",
             fs::path(request.config.out) / "trials/0-0.json");
    request.config.resume = true;
    const TuneResult rest = tune(quiet(), request);
    EXPECT_FALSE(fs::exists(fs::path(request.config.out) / "runs/0-0"));
    EXPECT_EQ(rest.trials, unbroken.trials);
    EXPECT_EQ(rest.best, unbroken.best);
    EXPECT_EQ(rest.best_score, unbroken.best_score);
    // Nothing need be given again.
    TuneRequest bare;
    bare.config.out = request.config.out;
    bare.config.resume = true;
    const TuneResult again = tune(quiet(), bare);
    EXPECT_EQ(again.best_score, unbroken.best_score);
    EXPECT_EQ(again.trials, unbroken.trials);
    EXPECT_EQ(read_text(again.recipe), read_text(rest.recipe));
    // Nor what changes no result.
    request.config.threads = 2;
    request.config.log_every = 1;
    EXPECT_EQ(tune(quiet(), request).best_score, unbroken.best_score);
    request.config.seed = 9;  // another search than the one in the folder
    EXPECT_NE(
        message_of<ConfigError>([&] { tune(quiet(), request); }).find("0-0.json has seed = 42, found 9"),
        std::string::npos)
        << message_of<ConfigError>([&] { tune(quiet(), request); });
}

}  // namespace
}  // namespace elmo
