// Training on a GPU, on tiny data: what must not change a bit, what another device must agree with, and what
// is refused. Widths that are multiples of 64 meet the tiled kernels, others the plain ones.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "engine/engine.h"
#include "engine/full_length.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "train/killed_run.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

struct TinyModel {
    const char* name;
    bool bert;
    int width, layers, heads;
};
const TinyModel kModels[] = {{"bag64", false, 64, 0, 0},
                             {"bag33", false, 33, 0, 0},
                             {"bert64", true, 64, 2, 2},
                             {"bert20", true, 20, 1, 2}};

class GpuTrain : public ::testing::Test {
  protected:
    void SetUp() override { write_tiny_data(temp / "data"); }
    Config config_of(const TinyModel& model, const std::string& out) {
        Config config = tiny_config(temp);
        config.device = "cuda";
        config.out = temp / out;
        config.width = model.width;
        config.encoder = "bag";
        if (!model.bert) return config;
        const std::string folder = temp / model.name;
        write_text(folder + "/config.json",
                   fmt::format(
                       R"({{"model_type":"bert","vocab_size":400,"hidden_size":{},"num_hidden_layers":{},
                          "num_attention_heads":{},"intermediate_size":{},"max_position_embeddings":32,
                          "type_vocab_size":2,"layer_norm_eps":1e-12,"hidden_dropout_prob":0.1,
                          "attention_probs_dropout_prob":0.1,"hidden_act":"gelu"}})",
                       model.width, model.layers, model.heads, 2 * model.width));
        set_encoder(config, folder);
        config.encoder_lr = 1e-3;
        return config;
    }
    TrainResult run(const Config& config) { return train(quiet().with_stop(stop), config); }

    TempFolder temp;
    const std::atomic<bool> stop{false};
};

TEST_F(GpuTrain, LearnsWhatTheTextSaysInEveryPrecision) {
    for (const char* precision : {"fp32", "bf16", "fp8", "e3m4"})
        for (const TinyModel& model : {kModels[0], kModels[1]}) {
            Config config = config_of(model, std::string(precision) + model.name);
            config.precision = precision;
            config.steps = 300;
            const TrainResult result = run(config);
            EXPECT_EQ(result.steps, 300);
            EXPECT_GT(result.best_score, 80) << precision << ", " << model.name;
            EXPECT_GT(evaluate(quiet(), config.out, config).get("P@1"), 80)
                << precision << ", " << model.name;
        }
}

TEST_F(GpuTrain, LearnsWithFp8Products) {
    for (const TinyModel& model : {kModels[0], kModels[1]}) {
        Config config = config_of(model, std::string("fp8") + model.name);
        config.encoder_precision = "fp8";
        config.steps = 300;
        EXPECT_GT(run(config).best_score, 80) << model.name;
        EXPECT_GT(evaluate(quiet(), config.out, config).get("P@1"), 80) << model.name;
    }
}

// What the optimiser keeps of a bag is full unless the run says otherwise; both learn.
TEST_F(GpuTrain, LearnsWithEveryKindOfState) {
    for (const TinyModel& model : {kModels[0], kModels[1]})
        for (const char* state : {"auto", "full", "8bit"}) {
            Config config = config_of(model, std::string(state) + model.name);
            config.encoder_state = state;
            config.steps = 300;
            EXPECT_GT(run(config).best_score, 80) << state << ", " << model.name;
            const Checkpoint last(config.out, "last");
            EXPECT_EQ(last.config().encoder_state, std::string(state) == "8bit" ? "8bit" : "full");
        }
}

TEST_F(GpuTrain, TwoRunsWithOneSeedGiveTheSameBytes) {
    for (const TinyModel& model : kModels)
        for (const auto& [precision, encoder] :
             std::vector<std::pair<std::string, std::string>>{{"fp32", "fp32"},
                                                              {"bf16", "bf16"},
                                                              {"fp8", "bf16"},
                                                              {"e3m4", "bf16"},
                                                              {"fp8", "fp8"},
                                                              {"renee", "bf16"},
                                                              {"renee", "fp16"}}) {
            SCOPED_TRACE(std::string(model.name) + ", " + precision + ", encoder " + encoder);
            for (const char* out : {"first", "second"}) {
                Config config = config_of(model, out);
                config.precision = precision;
                config.encoder_precision = encoder;
                config.overwrite = true;
                run(config);
            }
            for (const char* which : {"/last", "/best"})
                expect_same_files((temp / "first") + which, (temp / "second") + which);
        }
}

// Enough labels for every chunk to have some; one step, and several.
TEST_F(GpuTrain, ChunksDoNotChangeABit) {
    write_tiny_data(temp / "data", {.train_rows = 200, .labels = 2500});
    for (const TinyModel& model : {kModels[0], kModels[1]})
        for (const char* precision : {"fp32", "bf16", "fp8", "e3m4"})
            for (const int steps : {1, 12}) {
                std::map<std::string, std::string> expected;
                for (const int chunks : {1, 3, 8}) {
                    Config config = config_of(model, "run");
                    config.chunks = chunks;
                    config.precision = precision;
                    config.steps = steps;
                    config.overwrite = true;
                    EXPECT_EQ(run(config).planned.chunks, chunks);
                    std::map<std::string, std::string> found;
                    for (auto& [name, content] : files_of(config.out + "/last"))
                        if (name.find("safetensors") != std::string::npos) found[name] = content;
                    EXPECT_GE(found.size(), 3u);
                    if (chunks == 1) expected = found;
                    EXPECT_TRUE(found == expected) << model.name << ", " << precision << ", " << steps
                                                   << " steps, " << chunks << " chunks";
                }
            }
}

// Weights that pass through the card from the host's memory: one slot for all labels, and many; kernels of
// all kinds, rows with exponents, codes that share bytes, a compensation, label groups.
TEST_F(GpuTrain, AHeadInHostMemoryDoesNotChangeABit) {
    write_tiny_data(temp / "data", {.train_rows = 200, .labels = 2500});
    const TinyModel wide = {"bag128", false, 128, 0, 0};
    struct Case {
        TinyModel model;
        const char *precision, *kahan;
        int chunks, groups;
    };
    for (const auto& [model, precision, kahan, chunks, groups] :
         {Case{kModels[0], "bf16", "0", 0, 1}, Case{kModels[0], "bf16", "30%", 9, 1},
          Case{kModels[1], "fp32", "0", 9, 1}, Case{kModels[1], "e3m4", "100%", 7, 1},
          Case{wide, "fp8", "0", 9, 1}, Case{wide, "fp8", "20%", 9, 4}, Case{wide, "e2m5", "auto", 9, 1},
          Case{wide, "e2m5", "50%", 8, 1}, Case{wide, "e2m3", "0", 9, 1}, Case{wide, "e2m1", "10%", 3, 4},
          Case{wide, "bf16", "0", 20, 5}}) {
        const std::string name =
            fmt::format("{}, {}, {}, {} chunks, {} groups", model.name, precision, kahan, chunks, groups);
        SCOPED_TRACE(name);
        std::map<std::string, std::string> files[2];
        std::vector<double> scores[2];
        for (const bool in_host : {false, true}) {
            Config config = config_of(model, "run");
            config.precision = precision;
            config.head_kahan = kahan;
            config.chunks = chunks;
            config.label_groups = groups;
            config.eval_every = 1;
            config.steps = 30;
            config.overwrite = true;
            config.head_memory = in_host ? "host" : "device";
            const MemoryReport planned = run(config).planned;
            EXPECT_EQ(planned.host_bytes > 0, in_host);
            for (const Segment& segment : planned.segments)
                if (in_host) {
                    EXPECT_NE(segment.name, "head/weights");
                }
            for (auto& [file, content] : files_of(config.out + "/last"))
                if (file.find("safetensors") != std::string::npos) files[in_host][file] = content;
            for (const char* score : {"P@1", "P@3", "nDCG@5"})
                scores[in_host].push_back(evaluate(quiet(), config.out, config).get(score));
        }
        EXPECT_GE(files[0].size(), 3u);
        EXPECT_TRUE(files[0] == files[1]);
        EXPECT_EQ(scores[0], scores[1]);
    }
}

// The log may be waited for or not: reading the loss at every step changes nothing.
TEST_F(GpuTrain, WaitingDoesNotChangeABit) {
    for (const TinyModel& model : kModels) {
        for (const int log_every : {1, 20}) {
            Config config = config_of(model, fmt::format("{}-{}", model.name, log_every));
            config.log_every = log_every;
            config.eval_every = 100;
            run(config);
        }
        for (const auto& [name, content] : files_of(temp / fmt::format("{}-1/last", model.name)))
            if (name.find("safetensors") != std::string::npos) {
                EXPECT_TRUE(read_text(temp / fmt::format("{}-20/last/{}", model.name, name)) == content)
                    << model.name << ", " << name;
            }
    }
}

// Plain, and with compensated rows and weight dropout.
TEST_F(GpuTrain, KilledRunEndsWithTheSameBytes) {
    for (const auto& [model, extras] : {std::pair(kModels[1], false), std::pair(kModels[2], false),
                                        std::pair(kModels[1], true), std::pair(kModels[2], true)}) {
        SCOPED_TRACE(model.name);
        const std::string name = std::string(model.name) + (extras ? "-extras" : "-plain");
        Config config = config_of(model, name + "-whole");
        if (extras) {
            config.head_kahan = "20%";
            config.weight_dropout = 0.2;
        }
        config.precision = "e3m4";
        config.steps = 400;
        config.save_every = 20;
        config.accumulate = 3;
        config.eval_every = 7;
        run(config);
        const std::string whole = config.out;
        config.out = temp / (name + "-killed");
        EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
        EXPECT_GT(Checkpoint(config.out, "last").state().step, 0);
        EXPECT_LT(Checkpoint(config.out, "last").state().step, config.steps);
        config.resume = true;
        EXPECT_EQ(run(config).steps, config.steps);
        for (const char* which : {"/last", "/best"}) expect_same_files(whole + which, config.out + which);
    }
}

// Where a new run takes codes by itself, its recipe names them, and a continued one has them too.
TEST_F(GpuTrain, KilledRunThatChoseCodesEndsWithTheSameBytes) {
    constexpr int kRows = 2200;  // enough for 1 GiB of activations
    write_tiny_data(temp / "data", {.train_rows = kRows});
    write_text(temp / "bert/config.json",
               R"({"model_type":"bert","vocab_size":400,"hidden_size":64,"num_hidden_layers":8,
                   "num_attention_heads":2,"intermediate_size":2048,"max_position_embeddings":32,
                   "type_vocab_size":2,"layer_norm_eps":1e-12,"hidden_dropout_prob":0.1,
                   "attention_probs_dropout_prob":0.1,"hidden_act":"gelu"})");
    Config config = tiny_config(temp);
    config.device = "cuda";
    set_encoder(config, temp / "bert");
    config.encoder_lr = 1e-3;
    config.batch_size = kRows;
    config.steps = 40;
    config.save_every = 4;
    config.out = temp / "whole";
    EXPECT_EQ(run(config).planned.recompute, "compact");
    EXPECT_EQ(Checkpoint(config.out, "last").config().recompute, "compact");
    config.out = temp / "killed";
    EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
    config.resume = true;
    EXPECT_EQ(run(config).planned.recompute, "compact");
    expect_same_files(temp / "whole/last", temp / "killed/last");
}

// Every label's score of every text, as a device computes it.
std::map<std::int64_t, float> scores_of(const std::vector<Prediction>& predictions) {
    std::map<std::int64_t, float> scores;
    for (const Prediction& p : predictions) scores[p.label] = p.score;
    return scores;
}

// Trained on either device, a model gives the same scores on both. What they may differ by is the rule of the
// golden step (tests/model/golden_test.cpp): a roundoff of BF16 for each view written on the way, independent
// of one another, magnified by norms and softmax by up to 4; as a share of the largest score.
TEST_F(GpuTrain, DevicesPredictAlike) {
    for (const TinyModel& model : kModels)
        for (const char* trained_on : {"cuda", "cpu"}) {
            SCOPED_TRACE(std::string(model.name) + " trained on " + trained_on);
            Config config = config_of(model, std::string(model.name) + trained_on);
            config.device = trained_on;
            config.steps = model.bert ? 60 : 300;
            config.precision = "fp8";
            run(config);
            config.top = 37;
            std::vector<std::string> texts = {"", "the thing"};
            for (int i = 0; i < 12; ++i)
                texts.push_back(
                    fmt::format("the thing {} beside {} number {}", word_of(i), word_of(3 * i), i));
            std::vector<std::vector<std::vector<Prediction>>> answers;
            std::vector<double> precision_at_1;
            for (const char* device : {"cuda", "cpu"}) {
                config.device = device;
                answers.push_back(Predictor(quiet(), config.out, config).predict(texts));
                precision_at_1.push_back(evaluate(quiet(), config.out, config).get("P@1"));
            }
            const double views = 6 + 9.0 * model.layers;
            for (std::size_t t = 0; t < texts.size(); ++t) {
                const auto a = scores_of(answers[0][t]), b = scores_of(answers[1][t]);
                ASSERT_EQ(a.size(), 37u);
                ASSERT_EQ(b.size(), 37u);
                double largest = 0;
                for (const auto& [label, score] : b) largest = std::max(largest, std::abs(double{score}));
                for (const auto& [label, score] : b)
                    EXPECT_NEAR(a.at(label), score, 4 * std::sqrt(views) * 0x1p-8 * largest)
                        << "text " << t << ", label " << label;
            }
            EXPECT_NEAR(precision_at_1[0], precision_at_1[1], 100.0 / 40 * 2);  // two of the 40 test texts
            if (!model.bert) {
                EXPECT_GT(precision_at_1[0], 80);
            }
        }
}

TEST_F(GpuTrain, ThePlanIsWhatIsTaken) {
    for (const TinyModel& model : kModels) {
        SCOPED_TRACE(model.name);
        Config config = config_of(model, std::string(model.name) + "-run");
        const MemoryReport plan = plan_memory(quiet(), config);
        const TrainResult result = run(config);
        EXPECT_EQ(result.planned.arena_bytes, plan.arena_bytes);
        ASSERT_EQ(result.planned.segments.size(), plan.segments.size());
        for (std::size_t i = 0; i < plan.segments.size(); ++i) {
            EXPECT_EQ(result.planned.segments[i].name, plan.segments[i].name);
            EXPECT_EQ(result.planned.segments[i].bytes, plan.segments[i].bytes);
        }
    }
    // And the device has that much less, to a few of its pages.
    Config config = config_of(kModels[0], "large");
    config.data = "";
    config.labels = 3000000;
    const EncoderSpec spec = spec_without_data(config);
    Engine engine(quiet(), config, training_parts(config, spec, config.labels),
                  full_length_shape(quiet(), config, spec));
    engine.backend().wait();
    const std::int64_t before = engine.backend().free_bytes();
    engine.allocate();
    engine.backend().wait();
    const std::int64_t taken = before - engine.backend().free_bytes(), page = std::int64_t{2} << 20;
    EXPECT_GT(engine.plan().arena_bytes, std::int64_t{3000000} * 64 * 2);
    EXPECT_GE(taken, engine.plan().arena_bytes);
    EXPECT_LE(taken, engine.plan().arena_bytes + 2 * page);
}

TEST_F(GpuTrain, WhatDoesNotFitIsNamedWithThePlan) {
    Config config = config_of(kModels[0], "run");
    config.max_memory = "8KiB";
    const std::string small = message_of<OutOfMemory>([&] { train(quiet().with_stop(stop), config); });
    EXPECT_NE(small.find("encoder/weights/"), std::string::npos) << small;
    EXPECT_NE(small.find("max_memory"), std::string::npos) << small;
    EXPECT_FALSE(std::filesystem::exists(config.out));

    config.max_memory = "";
    config.data = "";
    config.labels = 2000000000;
    config.width = 65536;
    config.precision = "fp32";
    const EncoderSpec spec = spec_without_data(config);
    Engine engine(quiet(), config, training_parts(config, spec, config.labels),
                  full_length_shape(quiet(), config, spec));
    const std::string large = message_of<OutOfMemory>([&] { engine.allocate(); });
    EXPECT_NE(large.find("head/weights"), std::string::npos) << large;
    EXPECT_NE(large.find("the GPU has"), std::string::npos) << large;
}

// Steps whose loss nobody reads keep what they found for the next one that is read.
TEST_F(GpuTrain, ANanStopsTheRunAndLeavesTheCheckpoint) {
    for (const TinyModel& model : {kModels[0], kModels[3]})
        for (const int log_every : {1, 7}) {
            Config config = config_of(model, fmt::format("{}-{}", model.name, log_every));
            config.encoder_lr = 1e6;
            config.encoder_weight_decay = 1e6;
            config.log_every = log_every;
            EXPECT_TRUE(train_no_step(config).interrupted);
            const auto before = files_of(config.out + "/last");
            config.resume = true;
            const std::string message =
                message_of<NumericError>([&] { train(quiet().with_stop(stop), config); });
            EXPECT_NE(message.find("step "), std::string::npos) << message;
            EXPECT_NE(message.find("NaN or Inf"), std::string::npos) << message;
            EXPECT_TRUE(files_of(config.out + "/last") == before);
        }
}

}  // namespace
}  // namespace elmo
