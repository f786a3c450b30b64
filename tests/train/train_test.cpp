// The whole way on tiny data: train, evaluate, predict; and what must not change the result.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "train/killed_run.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

class Train : public ::testing::Test {
  protected:
    void SetUp() override { write_tiny_data(temp / "data"); }
    TrainResult run(const Config& config) { return train(quiet().with_stop(stop), config); }

    TempFolder temp;
    std::atomic<bool> stop{false};
};

TEST_F(Train, LearnsWhatTheTextSaysInEveryPrecision) {
    for (const char* precision : {"fp32", "bf16", "fp8", "e3m4"}) {
        Config config = tiny_config(temp);
        config.precision = precision;
        config.steps = 300;
        config.out = temp / precision;
        const TrainResult result = run(config);
        EXPECT_EQ(result.steps, 300);
        EXPECT_FALSE(result.interrupted);
        EXPECT_GT(result.best_score, 80) << precision;
        const Evaluation scores = evaluate(quiet(), config.out, config);
        EXPECT_GT(scores.get("P@1"), 80) << precision;
        EXPECT_EQ(scores.num_samples, 40);
        EXPECT_EQ(scores.filter, "none");
        EXPECT_THROW(scores.get("P@2"), ConfigError);
    }
}

TEST_F(Train, WarnsOfOptionsWithoutEffect) {
    std::vector<std::string> warnings;
    Sinks sinks = silent();
    sinks.message = [&](Severity severity, std::string_view text) {
        if (severity == Severity::kWarning) warnings.emplace_back(text);
    };
    Config config = tiny_config(temp);
    config.encoder = "bag";
    config.precision = "fp32";
    config.head_noise = "shared";
    config.pooling = "cls";
    config.validation = "0";
    config.patience = 2;
    train(quiet().with_sinks(sinks), config);
    EXPECT_EQ(warnings, (std::vector<std::string>{
                            "pooling has no effect with encoder bag",
                            "head_noise has no effect with precision fp32, which rounds no weights",
                            "patience has no effect with validation 0, which holds out no rows"}));
}

TEST_F(Train, TheLogHasTheTrueLossAndOneLineEveryLogEverySteps) {
    const Config config = tiny_config(temp);
    run(config);
    std::istringstream log(read_text(config.out + "/log.jsonl"));
    std::string line;
    std::vector<std::int64_t> steps;
    double first_loss = 0, last_loss = 0;
    while (std::getline(log, line)) {
        const auto json = nlohmann::json::parse(line);
        if (json["event"] != "step") continue;
        steps.push_back(json["step"]);
        last_loss = json["loss"];
        EXPECT_EQ(json["loss_per_label"].get<double>(), last_loss / 37);
        if (steps.size() == 1) first_loss = last_loss;
        EXPECT_GT(json["lr_head"].get<double>(), 0);
        EXPECT_GT(json["texts_per_second"].get<double>(), 0);
    }
    EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 5, 10, 15, 20}));
    // Weights start near 0: each of the 37 labels costs about ln 2.
    EXPECT_NEAR(first_loss, 37 * std::log(2.0), 0.05 * 37);
    EXPECT_LT(last_loss, 0.5 * first_loss);
    EXPECT_FALSE(std::filesystem::is_empty(config.out + "/tensorboard"));
}

TEST_F(Train, TheSinkOfLogLinesGetsTheLog) {
    const Config config = tiny_config(temp);
    std::string lines;
    Sinks sinks = silent();
    sinks.log_line = [&](std::string_view line) { lines.append(line).append("\n"); };
    train(quiet().with_sinks(sinks), config);
    EXPECT_NE(lines.find("\"event\":\"validation\""), std::string::npos);
    EXPECT_EQ(lines, read_text(config.out + "/log.jsonl"));
}

// People see the mean per text and label: near ln 2 at the start, whatever the number of labels.
TEST_F(Train, ProgressShowsTheLossPerLabel) {
    Config config = tiny_config(temp);
    config.steps = 1;
    std::string shown;
    Sinks sinks = silent();
    sinks.progress = [&](const ProgressReport& line) { shown += std::string(line.note) + "\n"; };
    const TrainResult result = train(quiet().with_sinks(sinks), config);
    EXPECT_NEAR(result.last_loss_per_label, std::log(2.0), 0.05);
    EXPECT_EQ(result.last_loss_per_label, result.last_loss / 37);
    EXPECT_NE(shown.find(fmt::format("loss {:.3g} per label", result.last_loss_per_label)), std::string::npos)
        << shown;
}

TEST_F(Train, StoredPredictionsScoreAsTheModelDid) {
    Config config = tiny_config(temp);
    config.steps = 60;
    run(config);
    config.save_predictions = temp / "predictions.txt";
    const Evaluation of_model = evaluate(quiet(), config.out, config);
    config.predictions = config.save_predictions;
    const Evaluation of_file = evaluate(quiet(), "", config);
    ASSERT_EQ(of_file.scores.size(), of_model.scores.size());
    for (std::size_t i = 0; i < of_model.scores.size(); ++i)
        EXPECT_EQ(of_file.scores[i].percent, of_model.scores[i].percent) << of_model.scores[i].name;
}

TEST_F(Train, FilterPairsAreRemovedBeforeTheTopK) {
    write_tiny_data(temp / "data", {.with_filter = true});
    Config config = tiny_config(temp);
    config.steps = 300;
    run(config);
    config.save_predictions = temp / "predictions.txt";
    const Evaluation filtered = evaluate(quiet(), config.out, config);
    EXPECT_NE(filtered.filter.find("tst_filter_labels.txt"), std::string::npos) << filtered.filter;
    std::istringstream rows(read_text(config.save_predictions));
    std::string line;
    std::getline(rows, line);
    for (int row = 0; std::getline(rows, line); ++row) {
        EXPECT_EQ((" " + line).find(fmt::format(" {}:", (row + 11) % 37)), std::string::npos) << line;
        EXPECT_EQ(std::count(line.begin(), line.end(), ':'), 5);  // still k of them
    }
    config.filter = "none";
    const Evaluation plain = evaluate(quiet(), config.out, config);
    EXPECT_GT(plain.get("P@3"), filtered.get("P@3"));
}

TEST_F(Train, PredictsNamesAndProbabilities) {
    Config config = tiny_config(temp);
    config.steps = 300;
    run(config);
    config.top = 2;
    Predictor predictor(quiet(), config.out, config);
    EXPECT_EQ(predictor.num_labels(), 37);
    const auto answers =
        predictor.predict({"the thing " + word_of(5) + " beside " + word_of(1) + " number 0", ""});
    ASSERT_EQ(answers.size(), 2u);
    ASSERT_EQ(answers[0].size(), 2u);
    std::vector<std::string> names = {std::string(answers[0][0].name), std::string(answers[0][1].name)};
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"kind 1", "kind 5"}));
    for (const Prediction& p : answers[0]) EXPECT_FLOAT_EQ(p.probability, 1 / (1 + std::exp(-p.score)));
    EXPECT_GE(answers[0][0].score, answers[0][1].score);
    config.threshold = 0.999999;
    Predictor strict(quiet(), config.out, config);
    EXPECT_TRUE(strict.predict({"the"})[0].empty());
    EXPECT_TRUE(strict.predict({}).empty());
    EXPECT_EQ(strict.predict(std::vector<std::string>(config.batch_size + 1)).size(),
              static_cast<std::size_t>(config.batch_size + 1));
}

TEST_F(Train, ThreadsAndChunksDoNotChangeABit) {
    std::vector<std::pair<std::string, std::string>> expected;
    for (const auto& [threads, chunks] : std::vector<std::pair<int, int>>{{1, 1}, {2, 3}, {2, 8}}) {
        Config config = tiny_config(temp);
        config.threads = threads;
        config.chunks = chunks;
        config.precision = "fp8";
        config.out = temp / fmt::format("run-{}-{}", threads, chunks);
        run(config);
        for (auto& [name, content] : files_of(config.out + "/last")) {
            if (name.find("safetensors") == std::string::npos) continue;
            if (threads == 1)
                expected.emplace_back(name, content);
            else
                EXPECT_TRUE(std::find(expected.begin(), expected.end(), std::pair(name, content)) !=
                            expected.end())
                    << name << " differs with " << threads << " threads, " << chunks << " chunks";
        }
    }
    EXPECT_EQ(expected.size(), 5u);
}

TEST_F(Train, RecomputationDoesNotChangeABit) {
    write_tiny_bert(temp / "bert", 3);
    for (const int accumulate : {1, 3}) {
        std::vector<std::pair<std::string, std::string>> expected;
        for (const char* recompute : {"none", "cheap", "wide", "wider", "layers"}) {
            Config config = tiny_config(temp);
            set_encoder(config, temp / "bert");
            config.encoder_lr = 1e-3;
            config.accumulate = accumulate;
            config.recompute = recompute;
            config.out = temp / fmt::format("run-{}-{}", recompute, accumulate);
            config.steps = 10;
            EXPECT_EQ(run(config).planned.recompute, recompute);
            std::vector<std::pair<std::string, std::string>> found;
            for (auto& file : files_of(config.out + "/last"))
                if (file.first.find("safetensors") != std::string::npos) found.push_back(std::move(file));
            EXPECT_EQ(found.size(), 5u);
            if (expected.empty()) expected = found;
            EXPECT_TRUE(found == expected) << recompute;
        }
    }
}

// Activations kept in 8 bits change the gradients, and a continued run has them too.
TEST_F(Train, KilledRunWithCompressedActivationsEndsWithTheSameBytes) {
    write_tiny_bert(temp / "bert", 3);
    Config config = tiny_config(temp);
    set_encoder(config, temp / "bert");
    config.encoder_lr = 1e-3;
    config.steps = 120;
    config.save_every = 10;
    const auto trained = [&](const char* name, const char* recompute) {
        config.recompute = recompute;
        config.out = temp / name;
        EXPECT_EQ(run(config).planned.recompute, recompute);
        return files_of(config.out + "/last");
    };
    const auto exact = trained("exact", "cheap"), compressed = trained("compressed", "compressed"),
               whole = trained("whole", "compact");
    const auto head_of = [](const auto& files) {
        return std::find_if(files.begin(), files.end(),
                            [](const auto& file) { return file.first.starts_with("head"); })
            ->second;
    };
    EXPECT_NE(head_of(compressed), head_of(exact));
    EXPECT_NE(head_of(whole), head_of(compressed));
    config.out = temp / "killed";
    EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
    config.resume = true;
    run(config);
    expect_same_files(temp / "whole/last", temp / "killed/last");
}

// The optimiser's state in bytes, of a bag's table and of a transformer, learns and continues exactly.
TEST_F(Train, KilledRunWithStateIn8BitsEndsWithTheSameBytes) {
    write_tiny_bert(temp / "bert", 2);
    for (const bool bert : {false, true}) {
        Config config = tiny_config(temp);
        if (bert) {
            set_encoder(config, temp / "bert");
            config.encoder_lr = 1e-3;
        }
        config.steps = 300;
        config.eval_every = 50;
        config.save_every = 20;
        config.encoder_state = "8bit";
        config.out = temp / fmt::format("whole{}", bert);
        run(config);
        EXPECT_GT(evaluate(quiet(), config.out, config).get("P@1"), 80) << bert;
        EXPECT_NE(read_text(config.out + "/last/recipe.toml").find("encoder_state = \"8bit\""),
                  std::string::npos);
        const std::string whole = config.out;
        config.out = temp / fmt::format("killed{}", bert);
        EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
        config.resume = true;
        run(config);
        expect_same_files(whole + "/last", config.out + "/last");
        // Another start has the weights, and a state of its own.
        Config next;
        next.data = temp / "data";
        next.cache = temp / "cache";
        next.init = whole;
        next.out = temp / fmt::format("next{}", bert);
        next.steps = 5;
        EXPECT_EQ(run(next).steps, 5);
    }
}

TEST_F(Train, RowsWithoutLabelsTrainAsNegatives) {
    write_tiny_data(temp / "data", {.with_labels = false});
    const Config config = tiny_config(temp);
    const TrainResult result = run(config);
    EXPECT_EQ(result.steps, 20);
    EXPECT_LT(result.last_loss, 37 * std::log(2.0));
}

TEST_F(Train, WorksWithoutValidationAndWithAFrozenEncoder) {
    Config config = tiny_config(temp);
    config.validation = "0";
    config.freeze_encoder = true;
    const TrainResult result = run(config);
    EXPECT_EQ(result.select, "last");
    EXPECT_EQ(result.best_step, 20);
    EXPECT_GT(evaluate(quiet(), config.out, config).num_samples, 0);
    config.checkpoint = "last";
    EXPECT_GT(evaluate(quiet(), config.out, config).num_samples, 0);
}

// The highest of many scores on few texts is one by luck: where rates fall, the last one within its standard
// error is the best. Where they do not, it is the highest.
// Labels that no text tells: scores are luck.
void write_luck(const TempFolder& temp) {
    std::string texts, labels = "150 37\n";
    for (int i = 0; i < 150; ++i) {
        texts += fmt::format("the thing {}\n", word_of(i % 36));
        labels += fmt::format("{}:1\n", (i * i * 7 + i / 5) % 4);
    }
    write_text(temp / "data/trn_X.txt", texts);
    write_text(temp / "data/trn_X_Y.txt", labels);
}

// Not after every validation, but always in the end, also where patience ends the training.
TEST_F(Train, LastHoldsTheStepThatTrainingEndedAt) {
    write_luck(temp);
    int early = 0;
    for (const int patience : {0, 1}) {
        Config config = tiny_config(temp);
        config.out = temp / fmt::format("patience{}", patience);
        config.steps = 60;
        config.eval_every = 0.5;
        config.validation = "0.3";
        config.equal_texts = "apart";
        config.on_collapse = "ignore";
        config.schedule = "constant";
        config.patience = patience;
        const TrainResult result = run(config);
        early += result.steps < 60 ? 1 : 0;
        std::ifstream state(config.out + "/last/state.json");
        EXPECT_EQ(nlohmann::json::parse(state)["step"], result.steps);
    }
    EXPECT_EQ(early, 1);  // else this test shows nothing about patience
}

TEST_F(Train, TheBestIsTheLastOneNearTheHighest) {
    write_luck(temp);
    int later = 0;  // runs whose best comes after the highest
    for (const auto& [schedule, seed] :
         {std::pair("cosine", 3), {"cosine", 4}, {"constant", 3}, {"constant", 4}}) {
        Config config = tiny_config(temp);
        config.out = temp / fmt::format("{}-{}", schedule, seed);
        config.seed = seed;
        config.steps = 40;
        config.eval_every = 0.5;
        config.validation = "0.3";
        config.equal_texts = "apart";
        config.on_collapse = "ignore";
        config.patience = 0;
        config.schedule = schedule;
        const bool falls = config.schedule == "cosine";
        const TrainResult result = run(config);
        double top = -1, of_best = -1, rows = 0;
        std::int64_t best = 0, highest = 0;
        std::ifstream lines(config.out + "/log.jsonl");
        for (std::string line; std::getline(lines, line);) {
            const auto json = nlohmann::json::parse(line);
            if (json.value("event", "") == "start") rows = json["validation_rows"];
            if (json.value("event", "") != "validation") continue;
            const double score = json["P@1"], share = std::max(top, 0.0) / 100;
            const double near = falls ? 100 * std::sqrt(share * (1 - share) / rows) : 0;
            if (score >= top) highest = json["step"];
            if (score >= top - near) best = json["step"], of_best = score;
            top = std::max(top, score);
        }
        EXPECT_EQ(result.best_step, best) << config.out;
        EXPECT_DOUBLE_EQ(result.best_score, of_best) << config.out;
        later += highest < best ? 1 : 0;
        config.resume = true;
        EXPECT_EQ(run(config).best_step, best);  // of the stored state
    }
    EXPECT_GT(later, 0);  // else this test shows nothing
}

TEST_F(Train, AValidationFileIsUsedAsItStands) {
    std::filesystem::copy(temp / "data/tst_X.txt", temp / "data/val_X.txt");
    std::filesystem::copy(temp / "data/tst_X_Y.txt", temp / "data/val_X_Y.txt");
    Config config = tiny_config(temp);
    config.validation = temp / "data/val_X.txt";
    config.steps = 60;
    const TrainResult result = run(config);
    EXPECT_DOUBLE_EQ(result.best_score, evaluate(quiet(), config.out, config).get("P@1"));
}

TEST_F(Train, ATransformerFromItsConfigCutsTextsAtItsPositions) {
    write_tiny_bert(temp / "bert", 2);
    Config config = tiny_config(temp);
    set_encoder(config, temp / "bert");
    config.max_length = 64;
    config.encoder_lr = 1e-3;
    const TrainResult result = run(config);
    EXPECT_EQ(result.steps, 20);
    EXPECT_GT(evaluate(quiet(), config.out, config).num_samples, 0);
    Predictor predictor(quiet(), config.out, config);
    EXPECT_EQ(predictor.predict({"one text of many more than eight tokens in all"})[0].size(), 5u);
}

TEST_F(Train, EveryDeviceAndPrecisionOfTheEncoderRuns) {
    for (const auto& [device, precision] :
         std::vector<std::pair<std::string, std::string>>{{"reference", "bf16"},
                                                          {"reference", "fp32"},
                                                          {"reference", "fp8"},
                                                          {"cpu", "fp32"},
                                                          {"cpu", "fp8"}}) {
        Config config = tiny_config(temp);
        config.device = device;
        config.encoder_precision = precision;
        config.tokenizer_kind = "bpe";
        config.out = temp / (device + precision);
        config.steps = 5;
        const TrainResult result = run(config);
        EXPECT_EQ(result.steps, 5);
        EXPECT_TRUE(std::isfinite(result.last_loss));
        EXPECT_EQ(evaluate(quiet(), config.out, config).num_samples, 40);
        // And on.
        config.resume = true;
        EXPECT_EQ(run(config).steps, 5);
    }
}

// FP8 products learn what BF16 products learn, and evaluation and prediction need not know of them.
TEST_F(Train, Fp8ProductsLearnAsBf16OnesDo) {
    write_tiny_bert(temp / "bert", 2);
    for (const bool bert : {false, true}) {
        std::vector<double> losses, scores;
        for (const char* precision : {"bf16", "fp8"}) {
            Config config = tiny_config(temp);
            config.encoder_precision = precision;
            config.steps = 300;
            config.eval_every = 50;
            config.out = temp / fmt::format("{}{}", precision, bert);
            if (bert) {
                set_encoder(config, temp / "bert");
                config.encoder_lr = 1e-3;
            }
            losses.push_back(run(config).last_loss);
            scores.push_back(evaluate(quiet(), config.out, config).get("P@1"));
        }
        EXPECT_GT(scores[1], 80);
        EXPECT_LT(losses[1], 1.5 * losses[0]);
    }
}

TEST_F(Train, ThePlainValidationScoreIsFoundAgain) {
    Config config = tiny_config(temp);
    config.steps = 60;
    const TrainResult result = run(config);
    config.split = "validation";
    EXPECT_DOUBLE_EQ(evaluate(quiet(), config.out, config).get("P@1"), result.best_score);
    config.split = "train";
    EXPECT_EQ(evaluate(quiet(), config.out, config).num_samples, 150);
}

TEST_F(Train, OnePlainFileIsSplitAndItsLabelNamesSurvive) {
    std::string rows;
    for (int i = 0; i < 200; ++i)
        rows += fmt::format("a {} thing {}\tkind of {}\n", word_of(i % 10), i, word_of(i % 10));
    write_text(temp / "plain.tsv", rows);
    Config config = tiny_config(temp);
    config.data = temp / "plain.tsv";
    config.test_share = 0.2;
    config.steps = 200;
    run(config);
    Config later = config;
    later.test_share = Config().test_share;  // the run knows how its data was read
    const Evaluation scores = evaluate(quiet(), config.out, later);
    EXPECT_GT(scores.num_samples, 20);
    EXPECT_LT(scores.num_samples, 60);
    EXPECT_GT(scores.get("P@1"), 90);
    Predictor predictor(quiet(), config.out, config);
    EXPECT_EQ(predictor.predict({"a " + word_of(3) + " thing"})[0][0].name, "kind of " + word_of(3));
}

TEST_F(Train, InspectTellsRunsFromData) {
    const Config config = tiny_config(temp);
    run(config);
    const auto find = [](const auto& facts, const std::string& name) {
        for (const Fact& fact : facts)
            if (fact.name == name) return fact.json;
        return std::string("absent");
    };
    const auto of_run = inspect(quiet(), config.out, config);
    EXPECT_EQ(find(of_run, "kind"), "\"run\"");
    EXPECT_EQ(find(of_run, "labels"), "37");
    EXPECT_EQ(find(of_run, "encoder"), "\"bag\"");
    const auto of_data = inspect(quiet(), config.data, config);
    EXPECT_EQ(find(of_data, "kind"), "\"data\"");
    EXPECT_EQ(find(of_data, "train_rows"), "150");
}

// Scores of a stored prediction file as two public implementations compute them.
TEST(Evaluate, AgreesWithTheConformanceFile) {
    const char* set = std::getenv("ELMO_SHARED");
    const std::filesystem::path shared =
        set != nullptr ? set : std::filesystem::path(ELMO_SOURCE_DIR) / "../shared";
    const auto predictions = shared / "conformance/metrics/tate-subjects_pred_top10.txt";
    if (!std::filesystem::exists(predictions)) GTEST_SKIP() << "no " << predictions;
    TempFolder temp;
    Config config;
    config.data = (shared / "data/tate-subjects").string();
    config.cache = temp / "cache";
    config.predictions = predictions.string();
    const Evaluation scores = evaluate(quiet(), "", config);
    const auto expected = nlohmann::json::parse(read_text(shared / "conformance/metrics/expected.json"));
    const auto& protocol = expected["tate-subjects"]["A=0.55,B=1.5"];
    ASSERT_EQ(scores.scores.size(), 15u);
    for (const Score& score : scores.scores) {
        const std::size_t at = score.name.find('@');
        const auto k = static_cast<std::size_t>(std::stoi(score.name.substr(at + 1)));
        const std::string metric = score.name.substr(0, at);
        const double want = protocol[metric]["napkinxc"][k - 1].get<double>();
        // xclib counts recall of rows without labels otherwise than napkinXC: those agree to 4 digits.
        EXPECT_NEAR(score.percent / 100, want, metric == "R" ? 5e-5 : 5e-7) << score.name;
    }
}

}  // namespace
}  // namespace elmo
