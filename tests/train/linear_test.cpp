// The linear model the whole way on tiny data: train, evaluate, predict; what must not change the result;
// what it refuses.
#include <gtest/gtest.h>

#include "config/resolve.h"
#include "elmo/elmo.h"
#include "quiet.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

class Linear : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data", {.train_rows = 600, .test_rows = 40, .labels = 150});
    }
    Config config() {
        Config config;
        config.data = temp / "data";
        config.cache = temp / "cache";
        config.out = temp / "run";
        config.validation = "0.1";
        return config;
    }
    TempFolder temp;
};

TEST_F(Linear, IsWhatABareTrainTakesAndLearns) {
    const TrainResult result = train(quiet(), config());
    EXPECT_EQ(result.steps, 1);
    EXPECT_GT(result.best_score, 90);
    EXPECT_GT(evaluate(quiet(), config().out, config()).get("P@1"), 90);
    const auto facts = inspect(quiet(), config().out, config());
    const auto encoder =
        std::find_if(facts.begin(), facts.end(), [](const Fact& f) { return f.name == "encoder"; });
    ASSERT_NE(encoder, facts.end());
    EXPECT_EQ(encoder->text, "linear");
}

TEST_F(Linear, AutoIsBagWhereAnOptionOfStepsIsGiven) {
    const Context& context = quiet();
    EXPECT_EQ(resolve_training(context, config()).encoder, "linear");
    for (const char* option :
         {"width=64", "epochs=3", "max_length=64", "augment=labels", "precision=fp8", "save_every=5"}) {
        Config asked = config();
        const std::string text = option;
        set_option(asked, text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
        const Config resolved = resolve_training(context, asked);
        EXPECT_EQ(resolved.encoder, "bag") << option;
        EXPECT_NE(reason_of(resolved, "encoder").find(text.substr(0, text.find('='))), std::string::npos);
    }
    Config seeded = config();
    set_option(seeded, "seed", "7");
    EXPECT_EQ(resolve_training(context, seeded).encoder, "linear");
}

TEST_F(Linear, DoesNotDependOnThreads) {
    std::vector<std::vector<std::pair<std::string, std::string>>> runs;
    for (const int threads : {1, 3}) {
        Config c = config();
        c.threads = threads;
        c.out = temp / fmt::format("run{}", threads);
        train(quiet(), c);
        runs.push_back(files_of(c.out + "/best"));
    }
    for (std::size_t i = 0; i < runs[0].size(); ++i)
        if (runs[0][i].first != "recipe.toml" && runs[0][i].first != "manifest.json") {
            EXPECT_EQ(runs[0][i].second, runs[1][i].second) << runs[0][i].first;
        }
}

TEST_F(Linear, PredictsAmongGivenLabelsAndCalibrates) {
    train(quiet(), config());
    const std::string text = fmt::format("the thing {} beside {} number 1", word_of(5), word_of(38));
    Config asked = config();
    asked.top = 2;
    auto answers = Predictor(quiet(), config().out, asked).predict({text, ""});
    ASSERT_EQ(answers[0].size(), 2u);
    EXPECT_TRUE(answers[0][0].label == 5 || answers[0][0].label == 38);
    EXPECT_GT(answers[0][0].probability, answers[0][1].probability - 1e-6f);
    write_text(temp / "among.txt", "kind 7\nkind 38\n");
    answers = Predictor(quiet(), config().out, asked, {.labels = temp / "among.txt"}).predict({text});
    ASSERT_EQ(answers[0].size(), 2u);
    EXPECT_EQ(answers[0][0].label, 38);
    EXPECT_EQ(answers[0][1].label, 7);
    answers = Predictor(quiet(), config().out, asked, {.without = temp / "among.txt"}).predict({text});
    EXPECT_EQ(answers[0][0].label, 5);
    EXPECT_GT(calibrate(quiet(), config().out, config()).rows, 0);
    EXPECT_THROW(Predictor(quiet(), config().out, asked).embed({text}), ConfigError);
}

TEST_F(Linear, TrainingHasOneBar) {
    std::vector<std::string> bars;
    Sinks sinks = silent();
    sinks.progress = [&](const ProgressReport& report) {
        if (report.title == "training" && report.state == ProgressReport::State::kEnded)
            bars.emplace_back(report.unit);
    };
    train(quiet().with_sinks(sinks), config());
    EXPECT_EQ(bars, std::vector<std::string>{"nodes of label trees"});
}

TEST_F(Linear, StoppedItSavesNothingAndIsTrainedAgain) {
    std::atomic<bool> stop{false};
    Sinks sinks = silent();  // stops once the data is read
    sinks.message = [&](Severity, std::string_view message) {
        if (message.find(" training texts") != message.npos) stop = true;
    };
    EXPECT_TRUE(train(quiet().with_sinks(sinks).with_stop(stop), config()).interrupted);
    EXPECT_FALSE(std::filesystem::exists(config().out + "/last"));
    Config again = config();
    again.resume = true;
    const TrainResult result = train(quiet(), again);
    EXPECT_FALSE(result.interrupted);
    EXPECT_GT(result.best_score, 90);
    const auto before = files_of(config().out + "/last");
    EXPECT_EQ(train(quiet(), again).steps, 1);  // complete: it stays
    EXPECT_EQ(files_of(config().out + "/last"), before);
}

TEST_F(Linear, RefusesWhatNeedsAnEncoder) {
    train(quiet(), config());
    Config asked = config();
    asked.out = temp / "other";
    EXPECT_THROW(refine(quiet(), config().out, asked), ConfigError);
    asked.device = "reference";
    EXPECT_THROW(evaluate(quiet(), config().out, asked), ConfigError);
    asked.encoder = "linear";
    EXPECT_THROW(train(quiet(), asked), ConfigError);
}

TEST_F(Linear, TakesBagsOfWords) {
    std::string rows = "200 20 10\n";
    for (int i = 0; i < 200; ++i) rows += fmt::format("{} {}:1 {}:1\n", i % 10, i % 10, 10 + i % 7);
    write_text(temp / "bow_train.txt", rows);
    write_text(temp / "bow_test.txt", rows);
    Config c = config();
    c.data = temp / "bow_train.txt";
    train(quiet(), c);
    EXPECT_EQ(evaluate(quiet(), c.out, c).get("P@1"), 100);
}

TEST_F(Linear, ThePlanIsMarkedAsAnEstimate) {
    const MemoryReport plan = plan_memory(quiet(), config());
    EXPECT_GT(plan.total_bytes(), 0);
    for (const Segment& segment : plan.segments) EXPECT_NE(segment.name.find("estimate"), std::string::npos);
}

}  // namespace
}  // namespace elmo
