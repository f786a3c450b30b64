// A run that starts from another one: what it takes over, and what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "elmo/elmo.h"
#include "quiet.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

class Init : public ::testing::Test {
  protected:
    void SetUp() override { write_tiny_data(temp / "data"); }

    Config trained(const char* name, const char* precision = "bf16") {
        Config config = tiny_config(temp);
        config.precision = precision;
        config.steps = 200;
        config.out = temp / name;
        train(quiet(), config);
        return config;
    }
    // Of a run that starts from `from`, with nothing else given.
    Config started(const std::string& from, const char* name) {
        Config config;
        config.cache = temp / "cache";
        config.threads = 1;
        config.init = from;
        config.out = temp / name;
        return config;
    }
    // The event of the log that says what was taken over.
    static nlohmann::json event_of(const Config& config) {
        std::istringstream log(read_text(config.out + "/log.jsonl"));
        std::string line;
        while (std::getline(log, line))
            if (auto json = nlohmann::json::parse(line); json["event"] == "init") return json;
        return {};
    }

    TempFolder temp;
};

TEST_F(Init, TheFirstStepStartsFromTheWeightsOfTheRun) {
    for (const char* precision : {"bf16", "e2m5"}) {
        const Config first = trained(precision, precision);
        Config second = started(first.out, (std::string(precision) + "-second").c_str());
        second.steps = 1;
        second.head_lr = 1e-30;
        second.encoder_lr = 1e-30;
        train(quiet(), second);
        EXPECT_EQ(event_of(second)["taken_over"], 37) << precision;
        // Rows with exponents may hold the same numbers with another exponent: answers tell.
        Config ask = tiny_config(temp);
        ask.top = 37;
        Predictor before(quiet(), first.out, ask), after(quiet(), second.out, ask);
        const std::vector<std::string> text = {"the thing " + word_of(3) + " beside " + word_of(9)};
        const auto was = before.predict(text)[0], is = after.predict(text)[0];
        ASSERT_EQ(was.size(), is.size());
        for (std::size_t i = 0; i < was.size(); ++i) {
            EXPECT_EQ(was[i].label, is[i].label) << precision;
            EXPECT_EQ(was[i].score, is[i].score) << precision;
        }
        const std::string encoder = "/best/model.safetensors";
        EXPECT_EQ(read_text(first.out + encoder) == read_text(second.out + encoder), true) << precision;
    }
}

TEST_F(Init, LabelsAreFoundByNameAndNewOnesStartFresh) {
    const Config first = trained("first");
    // Other rows, ten labels of the run in another order, and three that it does not have.
    std::string rows = "text,labels\n";
    for (int i = 0; i < 130; ++i) {
        const int a = 12 - i % 13;
        rows += fmt::format("the thing {} number {},{}\n", word_of(a), i,
                            a < 10 ? fmt::format("kind {}", 36 - a) : fmt::format("new {}", a));
    }
    write_text(temp / "more/rows.csv", rows);
    Config second = started(first.out, "second");
    second.data = temp / "more/rows.csv";
    second.format = "csv";
    second.steps = 5;
    train(quiet(), second);
    const nlohmann::json event = event_of(second);
    EXPECT_EQ(event["labels"], 13);
    EXPECT_EQ(event["taken_over"], 10);
    EXPECT_EQ(event["left_behind"], 27);
    EXPECT_EQ(event["from"], first.out);

    // Untouched by training, "kind 30" is the row that the first run has for it.
    Config still = started(first.out, "still");
    still.data = second.data;
    still.format = "csv";
    still.steps = 1;
    still.head_lr = still.encoder_lr = 1e-30;
    train(quiet(), still);
    Config ask = tiny_config(temp);
    ask.top = 37;
    const auto score_of = [&](const std::string& run, const std::string& name) {
        Predictor predictor(quiet(), run, ask);
        const auto answers = predictor.predict({"the thing " + word_of(30) + " number 1"});
        for (const Prediction& answer : answers[0])
            if (answer.name == name) return answer.score;
        return -1000.0f;
    };
    EXPECT_EQ(score_of(still.out, "kind 30"), score_of(first.out, "kind 30"));
    EXPECT_GT(score_of(still.out, "kind 30"), score_of(still.out, "kind 31"));
    EXPECT_NEAR(score_of(still.out, "new 11"), 0, 1.5);  // a fresh row knows nothing
}

TEST_F(Init, RowsFromMemoryAreReadWithTheirOwnColumns) {
    std::string rows = "title,kinds\n";
    for (int i = 0; i < 60; ++i) rows += fmt::format("the thing {},kind {}\n", word_of(i % 5), i % 5);
    write_text(temp / "named/rows.csv", rows);
    Config first = tiny_config(temp);
    first.data = temp / "named/rows.csv";
    first.format = "csv";
    first.text_column = "title";
    first.label_column = "kinds";
    first.encoder = "bag";
    train(quiet(), first);
    RowFolder memory;
    for (int i = 0; i < 60; ++i) memory.add({"the thing " + word_of(i % 6), {fmt::format("kind {}", i % 6)}});
    Config second = started(first.out, "second");
    memory.finish(second);
    second.steps = 2;
    train(quiet(), second);
    EXPECT_EQ(event_of(second)["taken_over"], 5);
    EXPECT_EQ(event_of(second)["labels"], 6);
}

TEST_F(Init, OptionsThatAreNotGivenAreTheRuns) {
    const Config first = trained("first");
    Config second = started(first.out, "second");
    second.epochs = 2.0;
    const Config resolved = resolve_training(quiet(), second);
    EXPECT_EQ(resolved.data, first.data);
    EXPECT_EQ(resolved.encoder, first.out + "/best");
    EXPECT_EQ(resolved.batch_size, 16);
    EXPECT_EQ(resolved.head_lr, 0.02);
    EXPECT_EQ(resolved.validation, "0.1");
    EXPECT_EQ(resolved.epochs, 2.0);
    EXPECT_EQ(resolved.steps, 0);  // epochs were given: the run's steps do not hide them
    second.epochs = kAuto;
    EXPECT_EQ(resolve_training(quiet(), second).steps, 200);
    second.batch_size = 8;
    EXPECT_EQ(resolve_training(quiet(), second).batch_size, 8);
}

TEST_F(Init, ContinuesAfterAnInterruption) {
    const Config first = trained("first");
    Config whole = started(first.out, "whole");
    whole.steps = 12;
    train(quiet(), whole);
    Config cut = whole;
    cut.out = temp / "cut";
    train_no_step(cut);
    cut.resume = true;
    train(quiet(), cut);
    const std::string head = "/last/head-00001-of-00001.safetensors";
    EXPECT_EQ(read_text(whole.out + head) == read_text(cut.out + head), true);
}

TEST_F(Init, WhatCannotBeIsRefused) {
    const Config first = trained("first");
    const auto refusal = [&](const Config& config) {
        return message_of<Error>([&] { train(quiet(), config); });
    };
    const auto expect = [&](const Config& config, const std::string& part) {
        const std::string message = refusal(config);
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    Config config = started(first.out, "second");
    config.encoder = "bag";
    expect(config, "leave --encoder out");
    config = started(temp / "nothing", "second");
    expect(config, "nothing: expected the folder of a run");
    config = started(first.out, "first");
    config.overwrite = true;
    expect(config, "is the run that is read");
    EXPECT_TRUE(std::filesystem::exists(first.out + "/best"));
    write_text(temp / "other/rows.csv", "text,labels\na,x\nb,y\nc,x\nd,y\n");
    config = started(first.out, "second");
    config.data = temp / "other/rows.csv";
    config.format = "csv";
    expect(config, "none of the 2 labels");
    expect(config, "--encoder " + first.out);

    Config linear = tiny_config(temp);
    linear.encoder = "linear";
    linear.out = temp / "linear";
    train(quiet(), linear);
    expect(started(linear.out, "second"), "is a linear model");
    config = tiny_config(temp);
    config.encoder = linear.out;
    config.out = temp / "second";
    expect(config, "which has no encoder");
}

TEST_F(Init, TheFolderOfARunIsAnEncoder) {
    const Config first = trained("first");
    Config second = tiny_config(temp);
    second.out = temp / "second";
    set_encoder(second, first.out);
    second.vocab_size = Config().vocab_size;  // its tokenizer comes with it
    second.steps = 1;
    second.encoder_lr = 1e-30;
    train(quiet(), second);
    EXPECT_EQ(event_of(second), nlohmann::json());
    const std::string encoder = "/best/model.safetensors", head = "/best/head-00001-of-00001.safetensors";
    EXPECT_EQ(read_text(first.out + encoder) == read_text(second.out + encoder), true);
    EXPECT_NE(read_text(first.out + head) == read_text(second.out + head), true);
}

}  // namespace
}  // namespace elmo
