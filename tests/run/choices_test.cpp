// What every `auto` becomes by encoder and data, that a run stores it, and that training ends when the score
// no longer rises.
#include "run/choices.h"

#include <gtest/gtest.h>

#include "config/resolve.h"
#include "data/dataset.h"
#include "elmo/elmo.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

DataFacts facts_of(std::int64_t rows) {
    DataFacts facts;
    facts.rows = rows;
    facts.labels = 100;
    return facts;
}

TEST(Choices, FewRowsTakeMoreEpochs) {
    const auto epochs = [](EncoderStart start, std::int64_t rows) -> double {
        return with_data_numbers(Config(), start, facts_of(rows)).epochs;
    };
    EXPECT_EQ(epochs(EncoderStart::kPretrained, 36'000), 25);
    EXPECT_EQ(epochs(EncoderStart::kPretrained, 3'000), 100);
    EXPECT_EQ(epochs(EncoderStart::kScratch, 1'000'000), 10);
    EXPECT_EQ(epochs(EncoderStart::kBag, 3'000), 10);
    Config given;
    given.epochs = 3;
    EXPECT_EQ(with_data_numbers(given, EncoderStart::kPretrained, facts_of(100)).epochs, 3.0);
}

TEST(Choices, RatesFollowTheEncoder) {
    const auto head_lr = [](EncoderStart start) -> double {
        return with_data_numbers(Config(), start, facts_of(1000)).head_lr;
    };
    EXPECT_EQ(head_lr(EncoderStart::kPretrained), 0.04);
    EXPECT_EQ(head_lr(EncoderStart::kScratch), 0.05);
    EXPECT_EQ(head_lr(EncoderStart::kBag), 0.05);
}

TEST(Choices, LabelTextsWhereTheyAreTextsOfTheirOwn) {
    const auto augment = [](double words, double rows) {
        DataFacts facts = facts_of(1000);
        facts.label_texts = {words, rows};
        return with_data_numbers(Config(), EncoderStart::kPretrained, facts).augment;
    };
    EXPECT_EQ(augment(1, 0), "labels");
    EXPECT_EQ(augment(1, 0.8), "none");
    EXPECT_EQ(augment(0.1, 0), "none");
}

TEST(Choices, PatienceIsForRatesThatDoNotFall) {
    Config config;
    EXPECT_EQ(with_data_numbers(config, EncoderStart::kBag, facts_of(10)).patience, std::int64_t{0});
    config.schedule = "constant";
    EXPECT_EQ(with_data_numbers(config, EncoderStart::kBag, facts_of(10)).patience, std::int64_t{5});
}

TEST(Choices, LongTrainingsValidateAboutAsOftenAsOthers) {
    const auto every = [](Config config, std::int64_t rows) {
        return double(with_data_numbers(config, EncoderStart::kPretrained, facts_of(rows)).eval_every);
    };
    EXPECT_EQ(every(Config(), 1000), 4);  // of 100 epochs
    EXPECT_EQ(every(Config(), 20'000), 2);
    EXPECT_EQ(every(Config(), 100'000), 1);
    Config steps;
    steps.steps = 500;
    EXPECT_EQ(every(steps, 1000), 3);  // of 64 epochs
    EXPECT_EQ(every(steps, 100'000), 1);
    Config thirty;  // which half as many as 25 would be further from
    thirty.epochs = 30;
    EXPECT_EQ(every(thirty, 1000), 1);
    Config patient;
    patient.patience = 3;
    EXPECT_EQ(every(patient, 1000), 1);
    Config given;
    given.eval_every = 0.5;
    EXPECT_EQ(every(given, 1000), 0.5);
}

class ChosenRun : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        config.data = temp / "data";
        config.cache = temp / "cache";
        config.out = temp / "run";
        config.width = 16;
        config.vocab_size = 300;
        config.threads = 1;
        config.steps = 3;
    }
    TempFolder temp;
    Config config;
};

TEST_F(ChosenRun, StoresNumbersAndResumesWithThem) {
    EXPECT_TRUE(train_no_step(config).interrupted);
    const Config stored = read_run_recipe(temp / "run/last/recipe.toml");
    EXPECT_EQ(stored.epochs, 10.0);
    EXPECT_EQ(stored.batch_size, std::int64_t{128});
    EXPECT_EQ(stored.max_length, std::int64_t{128});
    EXPECT_EQ(stored.augment, "labels");  // "kind 7" is no training text
    EXPECT_EQ(stored.precision, "bf16");
    EXPECT_NE(stored.device, "auto");
    const Config shown = resolve_training(quiet(), config);
    EXPECT_EQ(get_option(shown, "augment"), stored.augment);
    EXPECT_EQ(reason_of(shown, "augment"), "auto: the labels have texts, other ones than the rows");
    config.resume = true;
    config.batch_size = kAuto;
    EXPECT_FALSE(train(quiet(), config).interrupted);
}

TEST_F(ChosenRun, LongTextsAreReadFurther) {
    std::string texts;
    for (int i = 0; i < 150; ++i) {
        for (int word = 0; word < 300; ++word) texts += word_of((i + word) % 37) + " ";
        texts += "\n";
    }
    write_text(temp / "data/trn_X.txt", texts);
    EXPECT_EQ(resolve_training(quiet(), config).max_length, std::int64_t{512});
    config.max_length = 8;
    train(quiet(), config);
    config.max_length = kAuto;
    set_encoder(config, temp / "run");  // a bag with weights is still one
    config.out = temp / "next";
    config.vocab_size = Config().vocab_size;
    EXPECT_EQ(resolve_training(quiet(), config).max_length, std::int64_t{512});
    write_tiny_bert(temp / "bert", 1);  // which has 8 positions
    config.vocab_size = 300;
    config.encoder = temp / "bert";
    EXPECT_EQ(resolve_training(quiet(), config).max_length, std::int64_t{8});
}

TEST_F(ChosenRun, LabelTextsThatAreRowsAreSeen) {
    std::string names;
    for (int i = 0; i < 37; ++i)
        names +=
            fmt::format("the thing {} beside {} number {}\n", word_of(i), word_of((7 * i + 3) % 37), i % 5);
    write_text(temp / "data/Y.txt", names);
    EXPECT_EQ(resolve_training(quiet(), config).augment, "none");
    names.clear();
    for (int i = 0; i < 37; ++i) names += fmt::format("L{:05}\n", i);
    write_text(temp / "data/Y.txt", names);
    EXPECT_EQ(resolve_training(quiet(), config).augment, "none");
}

// Rows name one of 36 kinds. Most rows that train carry the last label too, rows that validate carry nothing
// else: a model that has learnt little answers it, one that has learnt its rows does not.
TEST_F(ChosenRun, EndsWhenTheScoreNoLongerRises) {
    config = tiny_config(temp);
    config.validation = "0.3";
    config.steps = 400;
    config.eval_every = 1;
    config.patience = 2;
    config.schedule = "constant";
    const int rows = 150;
    std::vector<bool> validates(rows);
    config.equal_texts = "apart";
    for (const std::int64_t row : split_validation(config, rows, {}).validation)
        validates[static_cast<std::size_t>(row)] = true;
    std::string texts, labels = fmt::format("{} 37\n", rows);
    for (int i = 0; i < rows; ++i) {
        texts += fmt::format("the thing {}\n", word_of(i % 36));
        labels += validates[static_cast<std::size_t>(i)] ? "36:1\n"
                  : i % 5 < 3                            ? fmt::format("{}:1 36:1\n", i % 36)
                                                         : fmt::format("{}:1\n", i % 36);
    }
    write_text(temp / "data/trn_X.txt", texts);
    write_text(temp / "data/trn_X_Y.txt", labels);
    const TrainResult result = train(quiet(), config);
    EXPECT_FALSE(result.interrupted);
    EXPECT_LT(result.steps, 400);
    EXPECT_LT(result.best_step, result.steps);
    config.resume = true;
    EXPECT_EQ(train(quiet(), config).steps, result.steps);  // it stays ended
    config.patience = 0;
    config.resume = false;
    config.overwrite = true;
    EXPECT_EQ(train(quiet(), config).steps, 400);
}

}  // namespace
}  // namespace elmo
