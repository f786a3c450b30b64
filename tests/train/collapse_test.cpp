// Collapse: each way of noticing it, by itself and in a run; and what a run does then.
#include "train/collapse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "elmo/elmo.h"
#include "quiet.h"
#include "run/resolve.h"
#include "train/tiny_data.h"
#include "train/trainer.h"

namespace elmo {
namespace {

using namespace test;

std::vector<float> rows_of(int rows, int width, float common, float own) {
    std::vector<float> x(static_cast<std::size_t>(rows * width), common);
    for (int row = 0; row < rows; ++row) x[static_cast<std::size_t>(row * width + row % width)] += own;
    return x;
}

TEST(Collapse, VectorsThatDoNotDiffer) {
    EXPECT_FALSE(judge_vectors(rows_of(16, 16, 0, 1), 16));
    EXPECT_NEAR(mean_cosine(rows_of(16, 16, 0, 1), 16), 0, 1e-6);
    EXPECT_FALSE(judge_vectors(rows_of(16, 16, 1, 0.5f), 16));
    EXPECT_TRUE(judge_vectors(rows_of(16, 16, 1, 0.01f), 16));
    EXPECT_TRUE(judge_vectors(rows_of(16, 16, 0, 0), 16));
    EXPECT_FALSE(judge_vectors(rows_of(7, 16, 1, 0), 7)) << "too few to judge";
}

TEST(Collapse, AProbeHoldsDifferentTextsOnly) {
    const std::vector<std::int32_t> tokens = {5, 6, 5, 6, 7, 8}, offsets = {0, 2, 4, 4, 5, 6};
    const ProbeTexts probe = choose_probe(tokens, offsets);
    EXPECT_EQ(probe.tokens, (std::vector<std::int32_t>{5, 6, 7, 8}));
    EXPECT_EQ(probe.offsets, (std::vector<std::int32_t>{0, 2, 3, 4}));
    EXPECT_EQ(choose_probe(tokens, offsets, 1).size(), 1);
}

// Rows whose best label is one of `labels`; the first `right` of them have it, and the most frequent label of
// training. Their scores tell nothing.
TopLabels rows_with(int rows, int labels, int right) {
    TopLabels top;
    for (int row = 0; row < rows; ++row)
        top.add(row % labels, static_cast<float>(row % 2), row < right, row < right);
    return top;
}

TEST(Collapse, RankingsThatAreAllTheSame) {
    EXPECT_TRUE(rows_with(200, 1, 24).judge(12));
    EXPECT_FALSE(rows_with(200, 1, 24).judge(40)) << "better than the most frequent label";
    EXPECT_FALSE(rows_with(200, 1, 190).judge(95)) << "one label is nearly always right";
    EXPECT_FALSE(rows_with(200, 7, 24).judge(12)) << "different labels";
    EXPECT_FALSE(rows_with(20, 1, 2).judge(10)) << "too few to judge";
}

// One label, or one that all others are inside: it is the best one of every text of a good run too.
TEST(Collapse, OneBestLabelWhoseScoresTellTheTextsApart) {
    TopLabels top;
    for (int row = 0; row < 300; ++row) top.add(7, row % 3 == 0 ? 2 : -2, row % 3 == 0, row % 3 == 0);
    EXPECT_FALSE(top.judge(33.3));
    EXPECT_EQ(ordered_share({{1, true}, {0, false}, {2, true}}), 1);
    EXPECT_EQ(ordered_share({{1, true}, {1, false}, {1, true}}), 0.5);
    EXPECT_EQ(ordered_share({{0, true}, {1, false}}), 0);
    EXPECT_EQ(ordered_share({{0, true}, {1, false}, {2, true}, {1, true}}), (0 + 1 + 0.5) / 3);
    EXPECT_EQ(ordered_share({{0, true}, {1, true}}), 0.5);
}

TEST(Collapse, ALossThatHasLeftItsCourse) {
    const double blind = 20;
    const auto verdicts = [&](std::vector<double> losses) {
        RunState state;
        std::vector<bool> wrong;
        for (const double loss : losses) {
            state.step = 300;
            wrong.push_back(judge_loss(state, loss, blind).has_value());
        }
        return wrong;
    };
    const auto none = [&](std::vector<double> losses) {
        return std::ranges::count(verdicts(std::move(losses)), true) == 0;
    };
    EXPECT_EQ(verdicts({700, 3, 2, 2.5, 2, 19, 25, 22}),
              std::vector<bool>({false, false, false, false, false, false, false, true}));
    EXPECT_TRUE(none({700, 2, 25, 2, 25, 25, 2})) << "spikes";
    EXPECT_TRUE(none({700, 90, 80, 85, 80, 90, 95, 100})) << "not yet learnt";
    EXPECT_TRUE(none({2, 2, 2, 2, 2, 0.05, 0.05, 0.05, 0.05, 0.5, 0.6, 0.5, 0.6, 0.5})) << "little is lost";
}

// A checkpoint holds what the verdict needs.
TEST(Collapse, AResumedRunJudgesLossesAlike) {
    RunState whole, parts;
    parts.labels = whole.labels = 1;
    for (const double loss : {30.0, 3.0, 2.0, 2.5, 2.0, 1.75, 21.0, 19.0, 23.125}) {
        whole.step = parts.step = whole.total_steps = parts.total_steps = whole.step + 50;
        const auto expected = judge_loss(whole, loss, 20);
        parts = read_state(nlohmann::json::parse(state_text(parts)), "state.json");
        EXPECT_EQ(judge_loss(parts, loss, 20), expected);
        EXPECT_EQ(expected.has_value(), loss == 23.125);
        EXPECT_EQ(state_text(parts), state_text(whole));
    }
}

TEST(Collapse, ABlindLossIsThatOfTheFrequencies) {
    const std::vector<std::int64_t> counts = {50, 100, 0, 25};
    const auto entropy = [](double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); };
    EXPECT_DOUBLE_EQ(blind_loss(counts, 100, {}), entropy(0.5) + entropy(0.25));
    const std::vector<float> weights = {1, 1, 1, 3};  // 0.75 of yes, 0.75 of no
    EXPECT_DOUBLE_EQ(blind_loss(counts, 100, weights), entropy(0.5) + 1.5 * std::log(2));
}

// A small transformer whose learning rate destroys it: detected, reported with its cause, and repaired or
// stopped.
class CollapsingRun : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data", {.train_rows = 600});
        write_text(temp / "bert/config.json",
                   R"({"model_type": "bert", "vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2,
                       "num_attention_heads": 1, "intermediate_size": 64, "max_position_embeddings": 32,
                       "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
                       "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "pad_token_id": 0})");
        config = tiny_config(temp);
        set_encoder(config, temp / "bert");
        config.vocab_size = 400;
        config.max_length = 16;
        config.steps = 400;
        config.encoder_lr = 0.5;
    }
    Context listening() {
        Sinks sinks;
        sinks.message = [this](Severity severity, std::string_view text) {
            if (severity == Severity::kWarning) warnings.emplace_back(text);
        };
        return quiet().with_sinks(sinks);
    }

    TempFolder temp;
    Config config;
    std::vector<std::string> warnings;
};

TEST_F(CollapsingRun, StopsWhereItIsToldTo) {
    config.on_collapse = "stop";
    try {
        train(listening(), config);
        FAIL() << "expected a collapse";
    } catch (const NumericError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("training has collapsed: the vectors of"), std::string::npos) << message;
        EXPECT_NE(message.find("encoder_lr is 0.5: lower it"), std::string::npos) << message;
    }
}

// What is looked at before a save is not the last batch of an epoch.
TEST_F(CollapsingRun, IsSeenWhereEpochsEndInASmallBatch) {
    config.on_collapse = "stop";
    config.encoder_lr = 5;
    config.validation = "0";
    config.batch_size = 119;  // 600 rows: five batches, and one of five texts
    config.save_every = 6;
    try {
        train(listening(), config);
        FAIL() << "expected a collapse";
    } catch (const NumericError& error) {
        const std::string message = error.what();
        const int step = std::stoi(message.substr(message.find("step ") + 5));
        EXPECT_LT(step, kFirstLook) << message;
        EXPECT_EQ(step % 6, 0) << message;
        EXPECT_NE(message.find("the vectors of 32 different texts"), std::string::npos) << message;
    }
}

TEST_F(CollapsingRun, GoesBackWithALowerRateUntilItLearns) {
    const TrainResult result = train(listening(), config);
    EXPECT_EQ(result.steps, 400);
    ASSERT_FALSE(warnings.empty());
    EXPECT_NE(warnings[0].find("with encoder_lr 0.1 instead of 0.5"), std::string::npos) << warnings[0];
    EXPECT_NE(read_text(config.out + "/log.jsonl").find("\"event\":\"collapse\""), std::string::npos);
    EXPECT_EQ(read_text(config.out + "/last/recipe.toml").find("encoder_lr = 0.5"), std::string::npos);
}

TEST_F(CollapsingRun, WhatWasTheBestBeforeStaysTheBest) {
    config.encoder_lr = 1e-3;
    config.steps = 60;
    const Config resolved = resolve_before_data(quiet(), config, nullptr);
    RunFolder folder(quiet(), resolved);
    Trainer trainer(quiet(), folder, resolved);
    RunState further;
    further.best_step = 50;
    further.best_score = 98;
    further.top_score = 1000;  // nothing reaches it
    trainer.keep_best(further);
    EXPECT_EQ(trainer.run().best_score, 98);
    EXPECT_FALSE(fs::exists(folder.best()));  // no other was saved over it
    EXPECT_EQ(Checkpoint(config.out, "last").state().best_step, 50);
}

TEST_F(CollapsingRun, IsLeftAloneWhereItIsToldTo) {
    config.on_collapse = "ignore";
    EXPECT_EQ(train(listening(), config).steps, 400);
    EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace elmo
