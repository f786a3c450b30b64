// The linear model the whole way on tiny data: train, evaluate, predict; what must not change the result;
// what it refuses.
#include <gtest/gtest.h>

#include "config/resolve.h"
#include "elmo/elmo.h"
#include "quiet.h"
#include "train/label_weights.h"
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
    EXPECT_GT(result.best_score, 80);  // few texts validate, none of which is trained
    EXPECT_GT(evaluate(quiet(), config().out, config()).get("P@1"), 90);
    const auto facts = inspect(quiet(), config().out, config());
    const auto encoder =
        std::find_if(facts.begin(), facts.end(), [](const Fact& f) { return f.name == "encoder"; });
    ASSERT_NE(encoder, facts.end());
    EXPECT_EQ(encoder->text, "linear");
    const std::string log = read_text(config().out + "/log.jsonl");
    const auto start = nlohmann::json::parse(log.substr(0, log.find('\n')));
    EXPECT_EQ(start.at("config").at("encoder"), "linear");
    EXPECT_EQ(start.at("reasons").at("encoder"), "auto: the best and fastest on a CPU");
    EXPECT_EQ(start.at("reasons").size(), options().size());
}

TEST_F(Linear, AutoIsBagWhereAnOptionOfStepsIsGiven) {
    const Context& context = quiet();
    EXPECT_EQ(resolve_training(context, config()).encoder, "linear");
    for (const char* option : {"width=64", "epochs=3", "augment=labels", "precision=fp8", "save_every=5"}) {
        Config asked = config();
        const std::string text = option;
        set_option(asked, text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
        const Config resolved = resolve_training(context, asked);
        EXPECT_EQ(resolved.encoder, "bag") << option;
        EXPECT_NE(reason_of(resolved, "encoder").find(text.substr(0, text.find('='))), std::string::npos);
    }
    for (const char* key : {"seed", "max_length"}) {  // which linear has too
        Config same = config();
        set_option(same, key, "64");
        EXPECT_EQ(resolve_training(context, same).encoder, "linear") << key;
    }
}

TEST_F(Linear, LabelsOfOneLeafAreLikeOneAnotherUnlessThatHoldsAll) {
    train(quiet(), config());
    const auto nearest = Predictor(quiet(), config().out, config()).nearest_labels(5, 1000);
    EXPECT_FALSE(nearest.empty());
    EXPECT_LT(nearest.size(), 149u);
    for (const NearLabel& near : nearest) {
        EXPECT_NE(near.label, 5);
        EXPECT_GT(near.similarity, 0);
        EXPECT_LE(near.similarity, 1);
    }
    write_tiny_data(temp / "data", {.train_rows = 600, .test_rows = 40, .labels = 90});
    Config few = config();
    few.out = temp / "few";
    train(quiet(), few);
    EXPECT_TRUE(Predictor(quiet(), few.out, few).nearest_labels(5, 1000).empty());
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
    std::string last;
    sinks.message = [&](Severity, std::string_view message) {
        if (message.find(" training texts") != message.npos) stop = true;
        last = message;
    };
    EXPECT_TRUE(train(quiet().with_sinks(sinks).with_stop(stop), config()).interrupted);
    EXPECT_EQ(last,
              fmt::format("stopped before the model was complete: 'elmo train --out {} --resume' trains "
                          "it from the beginning with the same options",
                          config().out));
    EXPECT_FALSE(std::filesystem::exists(config().out + "/last"));
    // The folder knows the data and the options, until a checkpoint has them.
    Config again;
    again.out = config().out;
    again.resume = true;
    const TrainResult result = train(quiet(), again);
    EXPECT_FALSE(result.interrupted);
    EXPECT_GT(result.best_score, 80);  // few texts validate, none of which is trained
    EXPECT_FALSE(std::filesystem::exists(config().out + "/recipe.toml"));
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

TEST_F(Linear, NeighboursAreInTheRunWhereTheyAreAskedFor) {
    const auto model_of = [](const Config& c) { return read_text(c.out + "/best/linear.safetensors"); };
    train(quiet(), config());
    EXPECT_EQ(model_of(config()).find("text_rows"), std::string::npos);
    Config c = config();
    c.out = temp / "voted";
    set_option(c, "neighbours", "0.5");
    train(quiet(), c);
    EXPECT_NE(model_of(c).find("text_rows"), std::string::npos);
    EXPECT_GT(evaluate(quiet(), c.out, c).get("P@1"), 90);
    set_option(c, "neighbours", "1");
    EXPECT_THROW(train(quiet(), c), ConfigError);
}

// The label is a table of two words, and no sum of what each word says: only texts like it know. `words` of
// each kind; with `apart` every text has a word of its own, else it is repeated.
void write_table_data(const TempFolder& temp, int rows, int words, bool apart) {
    constexpr int kLabels = 12;
    for (const char* name : {"trn", "tst"}) {
        std::string texts, labels = fmt::format("{} {}\n", rows, kLabels);
        for (int i = 0; i < rows; ++i) {
            const int a = i * 7919 % 1009 % words, b = i * 10473 % 1013 % words;
            texts += fmt::format("{} beside {}{}\n", word_of(a), word_of(100 + b),
                                 apart ? fmt::format(" {}{}", name, i) : "");
            labels += fmt::format("{}:1\n", (a * 31 + b * 17 + a * b * 7) % kLabels);
        }
        write_text(temp / fmt::format("data/{}_X.txt", name), texts);
        write_text(temp / fmt::format("data/{}_X_Y.txt", name), labels);
    }
    std::filesystem::remove(temp / "data/Y.txt");
}

bool has_neighbours(const Config& config) {
    return read_text(config.out + "/best/linear.safetensors").find("text_rows") != std::string::npos;
}

TEST_F(Linear, NeighboursAreFittedOnTextsThatTheIndexDoesNotHold) {
    write_table_data(temp, 4000, 40, false);
    Config c = config();
    train(quiet(), c);
    EXPECT_FALSE(has_neighbours(c)) << "only an equal text knows, and new texts have none";
    set_option(c, "equal_texts", "apart");
    c.out = temp / "apart";
    train(quiet(), c);
    EXPECT_TRUE(has_neighbours(c));
}

// One word tells the label, the first labels have most texts, and every text has words of its own, which
// share no letters with others.
void write_own_words_data(const TempFolder& temp, int rows) {
    constexpr int kLabels = 12, kOwnWords = 30;
    const auto word = [](std::uint32_t i) {
        std::string letters;
        for (int at = 0; at < 28; at += 4)
            letters += static_cast<char>('a' + (static_cast<std::uint64_t>(i) * 2654435761u >> at & 15));
        return letters;
    };
    std::uint32_t next = 1000;
    for (const char* name : {"trn", "tst"}) {
        std::string texts, labels = fmt::format("{} {}\n", rows, kLabels);
        for (int i = 0; i < rows; ++i) {
            const double u = i * 7919 % 1009 / 1009.0;
            const int label = static_cast<int>(kLabels * u * u * u);
            texts += word(static_cast<std::uint32_t>(label + 1));
            for (int j = 0; j < kOwnWords; ++j) texts += " " + word(++next * 7919);
            texts += "\n";
            labels += fmt::format("{}:1\n", label);
        }
        write_text(temp / fmt::format("data/{}_X.txt", name), texts);
        write_text(temp / fmt::format("data/{}_X_Y.txt", name), labels);
    }
    std::filesystem::remove(temp / "data/Y.txt");
}

TEST_F(Linear, NeighboursAreNotFittedOnFeaturesThatNewTextsDoNotHave) {
    write_own_words_data(temp, 1500);
    Config c = config();
    train(quiet(), c);
    EXPECT_FALSE(has_neighbours(c)) << "the classifiers know the one word that tells";
    EXPECT_GT(evaluate(quiet(), c.out, c).get("P@1"), 99);
}

// A text is a word that no other text has; its last letter tells the label.
TEST_F(Linear, NewWordsAreKnownByAnyOfTheirLetters) {
    constexpr int kRows = 400, kLabels = 5;
    std::uint32_t next = 1;
    for (const char* name : {"trn", "tst"}) {
        std::string texts, labels = fmt::format("{} {}\n", kRows, kLabels);
        for (int i = 0; i < kRows; ++i) {
            const std::uint32_t word = ++next * 2654435761u;
            for (int at = 0; at < 28; at += 4) texts += static_cast<char>('a' + (word >> at & 15));
            texts += static_cast<char>('u' + i % kLabels);
            texts += "\n";
            labels += fmt::format("{}:1\n", i % kLabels);
        }
        write_text(temp / fmt::format("data/{}_X.txt", name), texts);
        write_text(temp / fmt::format("data/{}_X_Y.txt", name), labels);
    }
    std::filesystem::remove(temp / "data/Y.txt");
    const Config c = config();
    train(quiet(), c);
    EXPECT_GT(evaluate(quiet(), c.out, c).get("P@1"), 99);
}

TEST_F(Linear, NeighboursAreTakenWhereHeldOutRowsGainByThem) {
    write_table_data(temp, 1500, 16, true);
    Config c = config();
    train(quiet(), c);
    EXPECT_TRUE(has_neighbours(c));
    const double with = evaluate(quiet(), c.out, c).get("P@1");
    c.out = temp / "without";
    set_option(c, "neighbours", "0");
    train(quiet(), c);
    EXPECT_GT(with, evaluate(quiet(), c.out, c).get("P@1") + 5);
}

TEST_F(Linear, PositivesOfALabelCountAsOftenAsItsWeightSays) {
    std::vector<float> scores;
    for (const char* weight : {"0.01", "1", "100"}) {
        Config c = config();
        c.out = temp / fmt::format("run{}", scores.size());
        c.label_weights = temp / "weights.tsv";
        write_text(c.label_weights, fmt::format("kind 38\t{}\n", weight));
        train(quiet(), c);
        c.top = 150;
        const auto answers = Predictor(quiet(), c.out, c).predict({"the " + word_of(38)});
        for (const auto& answer : answers[0])
            if (answer.label == 38) scores.push_back(answer.score);
    }
    ASSERT_EQ(scores.size(), 3u);
    EXPECT_LT(scores[0], scores[1] - 1);
    EXPECT_LT(scores[1], scores[2]);
}

TEST_F(Linear, PositivesCountByTheRootOfTheirLabelsRowsAndOnceOnAverage) {
    Config c = config();
    c.label_weights = "root";
    const LabelTable labels{{1, 100, 0, 25}, {}};
    const std::vector<float> weights = label_weights(c, labels, 1000);
    ASSERT_EQ(weights.size(), 4u);
    EXPECT_FLOAT_EQ(weights[1], weights[0] / 10);
    EXPECT_FLOAT_EQ(weights[2], 1);
    EXPECT_FLOAT_EQ(weights[3], weights[0] / 5);
    EXPECT_FLOAT_EQ(weights[0] + 100 * weights[1] + 25 * weights[3], 126);
}

TEST_F(Linear, WeightsFollowFromPropensitiesAndFile) {
    Config c = config();
    const std::vector<std::string> names = {"a", "b", "7"};
    const LabelTable labels{{1, 100, 10}, {names.begin(), names.end()}};
    EXPECT_TRUE(label_weights(c, labels, 1000).empty());
    c.objective = "psp";
    const std::vector<float> rare = label_weights(c, labels, 1000);
    const std::vector<double> inverse = inverse_propensities(labels.counts, 1000, 0.55, 1.5);
    for (std::size_t l = 0; l < 3; ++l) EXPECT_NEAR(rare[l], 2 * inverse[l] - 1, 1e-5);
    c.label_weights = temp / "weights.tsv";
    write_text(c.label_weights, "b\t3\n\n7\t0.5\n0\t2\n");  // 7 is a name, 0 a number
    const std::vector<float> both = label_weights(c, labels, 1000);
    EXPECT_FLOAT_EQ(both[0], 2 * rare[0]);
    EXPECT_FLOAT_EQ(both[1], 3 * rare[1]);
    EXPECT_FLOAT_EQ(both[2], 0.5f * rare[2]);
    for (const char* bad :
         {"b 3\n", "b\t0\n", "b\t-1\n", "b\tnan\n", "b\t2x\n", "c\t1\n", "3\t1\n", "\t\n"}) {
        write_text(c.label_weights, bad);
        EXPECT_THROW(label_weights(c, labels, 1000), DataError) << bad;
    }
}

TEST_F(Linear, OtherEncodersRefuseWhatOnlyLinearHas) {
    Config c = config();
    set_option(c, "neighbours", "0.3");
    EXPECT_EQ(resolve_training(quiet(), c).encoder, "linear");
    c.encoder = "bag";
    try {
        resolve_training(quiet(), c);
        FAIL();
    } catch (const ConfigError& error) {
        EXPECT_EQ(std::string(error.what()).rfind("neighbours: ", 0), 0u) << error.what();
    }
}

TEST_F(Linear, ThePlanIsMarkedAsAnEstimate) {
    const MemoryReport plan = plan_memory(quiet(), config());
    EXPECT_GT(plan.total_bytes(), 0);
    for (const Segment& segment : plan.segments) EXPECT_NE(segment.name.find("estimate"), std::string::npos);
}

}  // namespace
}  // namespace elmo
