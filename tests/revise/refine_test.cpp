// A refined head: equal to plain training with a frozen encoder, for any subsets, killed or not.
#include "elmo/refine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "batches/batcher.h"
#include "elmo/elmo.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "engine/engine.h"
#include "model/streams.h"
#include "quiet.h"
#include "run/run_data.h"
#include "tested_device.h"
#include "train/killed_run.h"
#include "train/schedule.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

// The budget in which three subsets are needed: the program itself counts in it, so each process finds its
// own.
std::string budget_of_three(const std::string& run, Config config) {
    const std::atomic<bool> stop{false};
    config.out += "-probe";
    config.overwrite = true;
    for (int smaller = 0; smaller < 2; ++smaller)
        config.max_memory =
            std::to_string(refine(quiet().with_stop(stop), run, config).head_plan.total_bytes() - 1);
    return config.max_memory;
}

// With ELMO_TEST_REFINE set the program refines by that recipe, in three subsets, and runs no test.
class RefineWorker : public ::testing::Environment {
    void SetUp() override {
        const char* recipe = std::getenv("ELMO_TEST_REFINE");
        if (recipe == nullptr) return;
        Config config;
        load_recipe(config, recipe);
        const std::atomic<bool> stop{false};
        const std::string run = std::getenv("ELMO_TEST_RUN");
        config.max_memory = budget_of_three(run, config);
        refine(quiet().with_stop(stop), run, config);
        std::_Exit(0);
    }
};
const auto* const kRefineWorker = ::testing::AddGlobalTestEnvironment(new RefineWorker);

std::vector<float> head_of(const std::string& run, std::int64_t labels) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(labels));
    std::iota(rows.begin(), rows.end(), 0);
    return read_head_rows(std::filesystem::path(run + "/best"), rows);
}

class Refine : public ::testing::Test {
  protected:
    static constexpr int kLabels = 700;  // three times 256 and less

    void SetUp() override {
        write_tiny_data(temp / "data", {.train_rows = 210, .labels = kLabels});
        train_run();
    }
    void train_run() {
        Config config = tiny_config(temp);
        config.device = kTestedDevice;
        config.precision = "fp8";
        config.steps = 40;
        train(quiet().with_stop(stop), config);
        run = config.out;
    }
    Config refine_config(const std::string& out) const {
        Config config = refinement_defaults(run);
        config.device = kTestedDevice;
        config.threads = 1;
        config.out = temp / out;
        config.head_lr = 0.02;
        config.steps = 30;
        return config;
    }
    template <class E>
    std::string refusal(const Config& config) const {
        return message_of<E>([&] { refine(quiet().with_stop(stop), run, config); });
    }

    TempFolder temp;
    std::string run;
    const std::atomic<bool> stop{false};
};

// Plain training with a frozen encoder: the training forward of each batch, dropout, then a step over all
// labels at once.
std::vector<float> emulate(const std::string& run, const Config& given) {
    const Checkpoint from(run, "best");
    Config config = from.config();
    for (const char* key : {"precision", "steps", "head_lr", "dropout", "device", "threads"})
        set_option(config, key, get_option(given, key));
    config.freeze_encoder = true;
    for (const char* key : {"head_kahan", "weight_dropout", "head_rounding", "head_noise"})
        set_option(config, key, get_option(Config(), key));
    const RunData data(quiet(), config, &from);
    EncoderSpec spec = read_encoder_spec(from.folder());
    spec.frozen = true;
    spec.pooled_dropout = 0;  // refinement has separate noise
    Engine engine(quiet(), config, training_parts(config, spec, data.dataset().num_labels()),
                  data.shape(quiet(), 5));
    engine.allocate();
    engine.encoder().load_weights(from.folder());
    Backend& backend = engine.backend();
    engine.head().assign(head_of(run, data.dataset().num_labels()));
    const Schedule schedule = make_schedule(config, config.steps);
    Batch batch;
    for (std::int64_t step = 1; step <= config.steps; ++step) {
        data.train().fill(step - 1, batch);
        fill_positives(batch, [](std::int64_t label) { return label; });
        HeadStep op;
        op.x_BD = engine.encoder().forward({batch.tokens, batch.offsets}, true, config.seed,
                                           static_cast<std::uint64_t>(step));
        backend.dropout({op.x_BD,
                         {static_cast<float>(config.dropout),
                          {config.seed, static_cast<std::uint64_t>(step), streams::kRefineDropout}}});
        op.w_LD = engine.head().weights();
        op.positives = batch.positives;
        op.lr = static_cast<float>(config.head_lr * schedule.factor(step));
        op.rounding = {config.seed, static_cast<std::uint64_t>(step), streams::kRefineRounding};
        op.num_chunks = 2;
        op.dx_BD = engine.head_grad(batch.size());
        backend.head_step(op);
    }
    const View w = engine.head().weights();
    std::vector<float> result(static_cast<std::size_t>(w.size()));
    if (w.dtype == DType::kF32) {
        backend.download(result.data(), w);
    } else {
        std::vector<Bf16> stored(result.size());
        backend.download(stored.data(), w);
        std::transform(stored.begin(), stored.end(), result.begin(), [](Bf16 v) { return to_float(v); });
    }
    return result;
}

// With the run's dropout (0.1), with another, and with none.
TEST_F(Refine, EqualsPlainTrainingWithAFrozenEncoder) {
    if (kTestsGpu) GTEST_SKIP() << "on a GPU the last bits of a text's vector depend on the texts beside it";
    std::vector<std::vector<float>> heads;
    for (const char* precision : {"bf16", "fp32"})
        for (const double dropout : {-1.0, 0.5, 0.0}) {
            Config config = refine_config(fmt::format("{} {}", precision, dropout));
            config.precision = precision;
            if (dropout >= 0) config.dropout = dropout;
            const RefineResult result = refine(quiet().with_stop(stop), run, config);
            EXPECT_EQ(result.subsets, 1);
            EXPECT_EQ(result.labels_done, kLabels);
            if (dropout == 0) {  // else the loss follows the masks more than the steps
                EXPECT_LT(result.last_loss, result.first_loss);
            }
            heads.push_back(head_of(config.out, kLabels));
            EXPECT_TRUE(heads.back() == emulate(run, config)) << precision << ", dropout " << config.dropout;
            EXPECT_FALSE(heads.back() == head_of(run, kLabels));
            const double said = Checkpoint(config.out, "best").config().dropout;
            EXPECT_EQ(said, dropout < 0 ? static_cast<double>(tiny_config(temp).dropout) : dropout);
        }
    for (std::size_t i = 0; i < heads.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(heads[i] == heads[j]) << i << " and " << j;
}

// The dropout inside a transformer stays out, as in training with a frozen encoder.
TEST_F(Refine, EqualsPlainTrainingWithAFrozenTransformer) {
    if (kTestsGpu) GTEST_SKIP() << "on a GPU the last bits of a text's vector depend on the texts beside it";
    write_tiny_bert(temp / "bert", 1);
    Config config = tiny_config(temp);
    set_encoder(config, temp / "bert");
    config.max_length = 8;
    config.precision = "fp8";
    config.overwrite = true;
    train(quiet().with_stop(stop), config);
    Config refined = refine_config("refined");
    EXPECT_EQ(refined.dropout, 0.0);
    refined.dropout = 0.3;
    refine(quiet().with_stop(stop), run, refined);
    EXPECT_TRUE(head_of(refined.out, kLabels) == emulate(run, refined));
}

TEST_F(Refine, SubsetsDoNotChangeABit) {
    Config config = refine_config("one");
    std::int64_t needs = refine(quiet().with_stop(stop), run, config).head_plan.total_bytes();
    for (const std::int64_t subsets : {2, 3}) {
        Config less = refine_config(std::to_string(subsets));
        less.max_memory = std::to_string(needs - 1);
        const RefineResult result = refine(quiet().with_stop(stop), run, less);
        EXPECT_EQ(result.subsets, subsets);
        EXPECT_LT(result.head_plan.total_bytes(), needs);
        EXPECT_EQ(result.subset_labels % 256, 0);
        EXPECT_GE(result.measured_peak_bytes,
                  std::max(result.encoding_plan.arena_bytes, result.head_plan.arena_bytes));
        needs = result.head_plan.total_bytes();
        auto expected = files_of(config.out + "/best"), found = files_of(less.out + "/best");
        ASSERT_EQ(expected.size(), found.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (found[i].first == "recipe.toml" || found[i].first == "manifest.json")
                continue;  // max_memory is in it
            EXPECT_TRUE(expected[i] == found[i]) << found[i].first;
        }
        EXPECT_FALSE(std::filesystem::exists(less.out + "/refine"));
    }
    Config least = refine_config("none");
    least.max_memory = std::to_string(needs - 1);
    const std::string message = refusal<OutOfMemory>(least);
    EXPECT_NE(message.find("head/weights"), std::string::npos) << message;
}

TEST_F(Refine, KilledRunContinuesToTheSameBytes) {
    const Config config = refine_config("whole");
    refine(quiet().with_stop(stop), run, config);
    Config killed = config;
    killed.out = temp / "killed";
    write_text(temp / "recipe.toml", to_recipe(killed));
    const std::string work = killed.out + "/refine";
    ASSERT_TRUE(worker_is_killed({"ELMO_TEST_REFINE=" + (temp / "recipe.toml"), "ELMO_TEST_RUN=" + run,
                                  "ELMO_TEST_KILL_AT=2 " + work + "/rows-"}));
    EXPECT_FALSE(std::filesystem::exists(killed.out + "/best"));

    // Training does not continue it, a new refinement does not start over it, and options must be the same.
    Config train_config = tiny_config(temp);
    train_config.out = killed.out;
    train_config.resume = true;
    EXPECT_NE(message_of<ConfigError>([&] {
                  train(quiet().with_stop(stop), train_config);
              }).find("unfinished refinement"),
              std::string::npos);
    EXPECT_NE(refusal<ConfigError>(killed).find("--resume"), std::string::npos);
    killed.resume = true;
    Config other = killed;
    other.head_lr = 0.5;
    EXPECT_NE(refusal<ConfigError>(other).find("head_lr"), std::string::npos);
    other = killed;
    other.dropout = 0.3;
    EXPECT_NE(refusal<ConfigError>(other).find("dropout = 0.1, found 0.3"), std::string::npos);

    // Damage is found and named.
    for (const char* name : {"vectors", "rows"}) {
        const std::string file = work + "/" + name + "-000000000000.safetensors", content = read_text(file);
        std::string changed = content;
        changed[changed.size() - 9] ^= 4;
        write_text(file, changed);
        const std::string message = refusal<DataError>(killed);
        EXPECT_NE(message.find(file), std::string::npos) << message;
        EXPECT_NE(message.find("checksum"), std::string::npos) << message;
        write_text(file, content);
    }

    const RefineResult result = refine(quiet().with_stop(stop), run, killed);
    EXPECT_GE(result.labels_resumed, 256);
    EXPECT_EQ(result.labels_done, kLabels);
    EXPECT_EQ(result.subsets, 1);
    EXPECT_TRUE(head_of(killed.out, kLabels) == head_of(config.out, kLabels));
    // Again: it finds everything done.
    EXPECT_EQ(refine(quiet().with_stop(stop), run, killed).labels_done, kLabels);
}

TEST_F(Refine, AStopKeepsWhatIsDone) {
    Config config = refine_config("stopped");
    std::atomic<bool> begun{false};
    Sinks sinks = silent();
    sinks.progress_every = {};
    sinks.progress = [&](const ProgressReport&) { begun = true; };
    const RefineResult result = refine(quiet().with_sinks(sinks).with_stop(begun), run, config);
    EXPECT_TRUE(result.interrupted);
    EXPECT_FALSE(std::filesystem::exists(config.out + "/best"));
    config.resume = true;
    EXPECT_EQ(refine(quiet().with_stop(stop), run, config).labels_done, kLabels);
    Config whole = refine_config("whole");
    refine(quiet().with_stop(stop), run, whole);
    expect_same_files(whole.out + "/best", config.out + "/best");
}

TEST_F(Refine, OptionsThatAreNotGivenAgainAreThoseItWasBegunWith) {
    Config config = refine_config("stopped");
    config.epochs = 3;
    std::atomic<bool> begun{false};
    Sinks sinks = silent();
    sinks.progress_every = {};
    sinks.progress = [&](const ProgressReport&) { begun = true; };
    EXPECT_TRUE(refine(quiet().with_sinks(sinks).with_stop(begun), run, config).interrupted);
    Config again = config;
    again.epochs = Config().epochs;
    again.sources.erase("epochs");
    again.resume = true;
    Config other = again;
    other.epochs = 4;
    EXPECT_NE(refusal<ConfigError>(other).find("the refinement has epochs = 3, found 4"), std::string::npos);
    EXPECT_EQ(refine(quiet().with_stop(stop), run, again).labels_done, kLabels);
    Config whole = refine_config("whole");
    whole.epochs = 3;
    refine(quiet().with_stop(stop), run, whole);
    expect_same_files(whole.out + "/best", config.out + "/best");
}

TEST_F(Refine, WhatCannotBeIsRefused) {
    Config config = refine_config("out");
    config.precision = "e3m4";
    EXPECT_NE(refusal<ConfigError>(config).find("bf16 or fp32"), std::string::npos);
    config = refine_config("out");
    config.out = run;
    config.overwrite = true;
    EXPECT_NE(refusal<ConfigError>(config).find("give another folder"), std::string::npos);
    write_tiny_data(temp / "other", {.train_rows = 210, .labels = kLabels + 1});
    config = refine_config("out");
    config.data = temp / "other";
    EXPECT_NE(refusal<DataError>(config).find("not the labels of the run"), std::string::npos);
    config = refine_config("out");
    config.resume = true;
    EXPECT_NE(refusal<ConfigError>(config).find("no refinement"), std::string::npos);
    config = refine_config("fp32");
    config.precision = "fp32";
    refine(quiet().with_stop(stop), run, config);
    Config down = refinement_defaults(config.out);
    down.out = temp / "down";
    EXPECT_NE(
        message_of<ConfigError>([&] { refine(quiet().with_stop(stop), config.out, down); }).find("fp32"),
        std::string::npos);
}

// A supervisor repeats a call with --resume until it succeeds.
TEST_F(Refine, AFinishedOneIsContinuedToItself) {
    Config config = refine_config("out");
    refine(quiet(), run, config);
    const auto before = files_of(config.out + "/best");
    config.resume = true;
    const RefineResult again = refine(quiet(), run, config);
    EXPECT_FALSE(again.interrupted);
    EXPECT_EQ(again.labels_done, kLabels);
    EXPECT_EQ(again.labels_resumed, kLabels);
    // Killed while its work was removed.
    write_text(config.out + "/refine/rows-000000000000.safetensors", "x");
    refine(quiet(), run, config);
    EXPECT_FALSE(std::filesystem::exists(config.out + "/refine"));
    EXPECT_TRUE(files_of(config.out + "/best") == before);
    // Killed before it had written anything.
    config.out = temp / "begun";
    std::filesystem::create_directories(config.out + "/refine");
    refine(quiet(), run, config);
    expect_same_files(temp / "out/best", config.out + "/best");
    // A trained run is not a refinement.
    config.out = temp / "trained";
    Config trained = tiny_config(temp);
    trained.out = config.out;
    train(quiet(), trained);
    EXPECT_NE(refusal<ConfigError>(config).find("no unfinished refinement"), std::string::npos);
}

// A head trained in any mode is refined by plain steps, and the recipe says so.
TEST_F(Refine, LeavesTheModesOfTheRunBehind) {
    Config config = tiny_config(temp);
    config.device = kTestedDevice;
    config.steps = 10;
    config.overwrite = true;
    config.weight_dropout = 0.2;
    config.head_noise = "steps";
    for (const char* precision : {"e3m4", "e2m5", "e2m3"}) {
        config.precision = precision;
        config.head_kahan = config.precision == "e3m4" ? "20%" : "0";
        train(quiet().with_stop(stop), config);
        Config refined = refine_config(precision);
        refined.precision = "fp32";
        EXPECT_EQ(refine(quiet().with_stop(stop), run, refined).from_precision, precision);
        const Config said = Checkpoint(refined.out, "best").config();
        EXPECT_EQ(said.precision, "fp32");
        for (const char* key : {"head_kahan", "weight_dropout", "head_rounding", "head_noise"})
            EXPECT_EQ(get_option(said, key), get_option(Config(), key)) << key;
        EXPECT_TRUE(head_of(refined.out, kLabels) == emulate(run, refined)) << precision;
    }
}

// Enough training that 8 bits answer well, then refined: no worse, and a run like any other.
TEST_F(Refine, ARefinedRunAnswersNoWorse) {
    write_tiny_data(temp / "data");  // 37 labels
    Config config = tiny_config(temp);
    config.device = kTestedDevice;
    config.precision = "fp8";
    config.steps = 150;
    config.overwrite = true;
    train(quiet().with_stop(stop), config);
    Config refined = refinement_defaults(run);
    refined.device = kTestedDevice;
    refined.out = temp / "refined";
    refined.epochs = 20;
    const RefineResult result = refine(quiet().with_stop(stop), run, refined);
    config.overwrite = false;
    const Evaluation before = evaluate(quiet(), run, config), after = evaluate(quiet(), refined.out, config);
    EXPECT_GE(after.get("P@1"), before.get("P@1"));
    EXPECT_GT(after.get("P@1"), 50);
    const Checkpoint checkpoint(refined.out, "best");
    EXPECT_EQ(checkpoint.config().precision, "bf16");
    EXPECT_TRUE(checkpoint.config().freeze_encoder);
    EXPECT_EQ(checkpoint.state().step, result.steps);
    Predictor predictor(quiet(), refined.out, config);
    EXPECT_EQ(predictor.num_labels(), 37);
    config.out = refined.out;
    config.resume = true;
    EXPECT_NE(message_of<ConfigError>([&] { train(quiet().with_stop(stop), config); }).find("is finished"),
              std::string::npos);
    config.checkpoint = "last";
    const std::string none = message_of<DataError>([&] { evaluate(quiet(), refined.out, config); });
    EXPECT_NE(none.find("'last', found none; this run has best: give --checkpoint best"), std::string::npos)
        << none;
}

}  // namespace
}  // namespace elmo
