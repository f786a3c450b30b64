// Runs whose texts are longer than the encoder's positions, and frozen encoders whose vectors are kept.
#include <gtest/gtest.h>

#include "elmo/elmo.h"
#include "quiet.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

class TransformerRun : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        write_tiny_bert(temp / "bert", 1);  // of 8 positions
        config = tiny_config(temp);
        set_encoder(config, temp / "bert");
        config.device = "cpu";
        config.max_length = 8;
    }
    TrainResult train_run(const std::string& name) {
        config.out = temp / name;
        return train(quiet().with_stop(stop), config);
    }
    TempFolder temp;
    Config config;
    std::atomic<bool> stop{false};
};

// The best labels of texts that differ only behind the first window.
TEST_F(TransformerRun, WindowsReadTheWholeText) {
    std::string start;
    for (int i = 0; i < 12; ++i) start += "thing ";
    const std::vector<std::string> texts = {start + word_of(3), start + word_of(20)};
    for (const std::int64_t windows : {1, 4}) {
        config.windows = windows;
        const std::string name = "run" + std::to_string(windows);
        train_run(name);
        const auto answers = Predictor(quiet(), temp / name, config).predict(texts);
        EXPECT_EQ(answers[0][0].score == answers[1][0].score, windows == 1) << windows;
    }
}

// What is scored from the data set's cache and what is answered from texts are the same windows.
TEST_F(TransformerRun, PredictionReadsTheWindowsOfTraining) {
    config.windows = 3;
    config.max_length = 6;
    config.steps = 60;
    config.validation = "0";
    train_run("run");
    Config scoring;
    scoring.threads = 1;
    scoring.data = temp / "data";
    scoring.cache = temp / "cache";
    scoring.split = "test";
    const Evaluation scored = evaluate(quiet(), temp / "run", scoring);
    std::vector<std::string> texts;
    for (int i = 0; i < 40; ++i)
        texts.push_back(fmt::format("the thing {} beside {} number {}", word_of((i + 11) % 37),
                                    word_of((7 * (i + 11) + 3) % 37), i % 5));
    const auto answers = Predictor(quiet(), temp / "run", config).predict(texts);
    int right = 0;
    for (int i = 0; i < 40; ++i) {
        const std::int64_t best = answers[static_cast<std::size_t>(i)][0].label;
        right += best == (i + 11) % 37 || best == (7 * (i + 11) + 3) % 37;
    }
    EXPECT_NEAR(scored.get("P@1"), 100.0 * right / 40, 1e-9);
}

TEST_F(TransformerRun, KeptVectorsChangeNoBit) {
    config.freeze_encoder = true;
    config.steps = 40;  // more than four epochs
    config.max_length = 8;
    for (const double dropout : {0.0, 0.5}) {
        config.dropout = dropout;
        config.keep_vectors = "no";
        const TrainResult plain = train_run(fmt::format("plain{}", dropout));
        config.keep_vectors = "auto";
        const TrainResult kept = train_run(fmt::format("kept{}", dropout));
        EXPECT_EQ(kept.planned.total_bytes(), plain.planned.total_bytes() + 150 * 16 * 2);
        EXPECT_EQ(kept.last_loss, plain.last_loss);
        for (const char* file : {"last/head-00001-of-00001.safetensors", "last/model.safetensors"})
            EXPECT_EQ(read_text(temp.path() / fmt::format("kept{}", dropout) / file),
                      read_text(temp.path() / fmt::format("plain{}", dropout) / file))
                << file;
    }
    // Other dropouts would round otherwise, and memory may not suffice.
    config.dropout = 0.3;
    config.keep_vectors = "no";
    const std::int64_t bytes = train_run("none").planned.total_bytes();
    config.keep_vectors = "auto";
    EXPECT_EQ(train_run("inexact").planned.total_bytes(), bytes);
    config.dropout = 0.5;
    config.max_memory = std::to_string(bytes + 4000);
    EXPECT_LE(train_run("tight").planned.total_bytes(), bytes + 4000);
}

}  // namespace
}  // namespace elmo
