// Runs of the baselines: renee's plan is the paper's, its skipped steps are reported, a continued run is the
// same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "elmo/bench.h"
#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "tested_device.h"
#include "train/killed_run.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

constexpr double kGiB = 1 << 30;

MemoryReport amazon_plan(const std::string& device) {
    Config config;
    config.device = device;
    config.shape = "amazon-3m";
    config.precision = "renee";
    return plan_memory(quiet(), config);
}

// The paper's account at three million labels, batch 128, BERT-base: 39.7 GiB at the peak; weights and
// momentum 8 GiB each, logits 687 MiB, FP16 copy and gradient 4 GiB each, FP32 gradient 8 GiB.
void expect_the_papers_figures(const MemoryReport& plan) {
    EXPECT_NEAR(static_cast<double>(plan.arena_bytes) / kGiB, 39.7, 0.05 * 39.7);
    EXPECT_EQ(plan.chunks, 1);
    for (const auto& [name, gib] : {std::pair("head/weights", 8.0),
                                    {"head/momentum", 8.0},
                                    {"head/weights_fp16", 4.0},
                                    {"head/logits_fp16", 687.0 / 1024},
                                    {"head/gradient_fp16", 4.0},
                                    {"head/gradient_fp32", 8.0}}) {
        const auto found =
            std::find_if(plan.segments.begin(), plan.segments.end(),
                         [name = name](const Segment& segment) { return segment.name == name; });
        ASSERT_NE(found, plan.segments.end()) << name;
        EXPECT_NEAR(static_cast<double>(found->bytes) / kGiB, gib, 0.01 * gib) << name;
        EXPECT_TRUE(found->at_peak) << name;
    }
}

TEST(ReneePlan, IsThePapersOnACpu) {
    expect_the_papers_figures(amazon_plan("cpu"));
}

TEST(ReneePlan, IsThePapersOnAGpuWhichNobodyNeedsToHave) {
    MemoryReport plan;
    try {
        plan = amazon_plan("cuda");
    } catch (const ConfigError&) {
        GTEST_SKIP() << "this build is without CUDA";
    }
    expect_the_papers_figures(plan);
}

// The bench finds a loss scale first, and says what that took. On a GPU with enough labels that libraries do
// not count, what is taken is what was planned.
TEST(ReneeBench, CountsItsSkippedStepsAndTakesWhatWasPlanned) {
    Config config;
    config.device = kTestedDevice;
    config.precision = "renee";
    config.labels = kTestsGpu ? 8'000'000 : 20'000;
    config.width = 64;
    config.vocab_size = 100;
    config.batch_size = 28;
    config.max_length = 8;
    config.steps = 2;
    config.loss_scale = 0x1p30;
    BenchResult result;
    try {
        result = bench(quiet(), "step", config);
    } catch (const OutOfMemory& error) {
        GTEST_SKIP() << error.what();
    }
    EXPECT_GE(result.skipped_steps, 10);  // at 2^20 a dx of 1/16 is beyond FP16
    EXPECT_LT(result.skipped_steps, 30);
    EXPECT_GT(result.head_ms, 0);
    if (!kTestsGpu) return;
    const auto planned = static_cast<double>(result.memory.arena_bytes);
    EXPECT_GE(static_cast<double>(result.measured_peak_bytes), planned);
    EXPECT_LE(static_cast<double>(result.measured_peak_bytes), 1.01 * planned);
}

TEST(MemoryPhases, TheFullestIsThePeakAndEachIsTheSumOfItsSegments) {
    for (const char* precision : {"fp32", "renee", "bf16", "fp8", "e3m4"}) {
        Config config;
        config.shape = "lf-amazontitles-131k";
        config.precision = precision;
        const MemoryReport plan = plan_memory(quiet(), config);
        std::int64_t most = 0;
        ASSERT_GE(plan.phases.size(), 4u);
        for (const MemoryPhase& phase : plan.phases) {
            std::int64_t sum = 0;
            for (const std::size_t index : phase.segments) sum += plan.segments.at(index).bytes;
            EXPECT_EQ(sum, phase.bytes) << precision << " " << phase.name;
            most = std::max(most, phase.bytes);
        }
        EXPECT_EQ(most, plan.arena_bytes) << precision;
    }
}

class ReneeRun : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
        config.device = kTestedDevice;
        config.precision = "renee";
        config.steps = 120;
        config.log_every = 10;
        config.head_lr = 0.01;
    }
    TempFolder temp;
    Config config;
    const std::atomic<bool> stop{false};
};

TEST_F(ReneeRun, LearnsAndReportsItsSkippedSteps) {
    config.loss_scale = 0x1p40;
    const TrainResult result = train(quiet().with_stop(stop), config);
    EXPECT_GT(result.skipped_steps, 10);  // 2^40 down to what FP16 holds
    EXPECT_LT(result.skipped_steps, 40);
    std::istringstream lines(read_text(std::filesystem::path(config.out) / "log.jsonl"));
    double first_loss = 0, last_loss = 0;
    std::int64_t logged = -1, at_end = -1;
    for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        if (json["event"] == "end") at_end = json["skipped_steps"];
        if (json["event"] != "step") continue;
        logged = json["skipped_steps"];
        EXPECT_GT(json["loss_scale"].get<double>(), 0);
        last_loss = json["loss"];
        if (first_loss == 0) first_loss = last_loss;
    }
    EXPECT_EQ(logged, result.skipped_steps);
    EXPECT_EQ(at_end, result.skipped_steps);
    EXPECT_LT(last_loss, 0.5 * first_loss);
    const Checkpoint checkpoint(config.out, "last");
    EXPECT_EQ(checkpoint.state().updates,
              config.steps - result.skipped_steps);  // of the encoder, whose steps are skipped
}

class ReneeEncoder : public ReneeRun, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Precisions, ReneeEncoder, ::testing::Values("bf16", "fp16"));

TEST_P(ReneeEncoder, KilledRunContinuedIsTheSameBitForBit) {
    config.encoder_precision = GetParam();
    config.loss_scale = 0x1p30;
    config.steps = 240;
    config.save_every = 20;
    config.eval_every = 7;
    config.out = temp / "whole";
    const TrainResult whole = train(quiet().with_stop(stop), config);
    EXPECT_GT(whole.skipped_steps, 0);
    config.out = temp / "killed";
    EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
    config.resume = true;
    EXPECT_EQ(train(quiet().with_stop(stop), config).skipped_steps, whole.skipped_steps);
    expect_same_files((temp / "whole") + "/last", config.out + "/last");
}

TEST_F(ReneeRun, IsEvaluatedLikeAnyOther) {
    train(quiet().with_stop(stop), config);
    Config other = config;
    other.out.clear();
    EXPECT_GT(evaluate(quiet(), config.out, other).get("P@1"), 20);
}

TEST_F(ReneeRun, ChunksAndAccumulationAreRefused) {
    config.chunks = 2;
    EXPECT_THROW(train(quiet().with_stop(stop), config), ConfigError);
    config.chunks = 0;
    config.accumulate = 2;
    EXPECT_THROW(train(quiet().with_stop(stop), config), ConfigError);
}

TEST_F(ReneeRun, AnFp16EncoderPlansTrainsAndIsRefusedWithOtherHeads) {
    config.encoder_precision = "fp16";
    config.loss_scale = 0x1p30;
    const MemoryReport plan = plan_memory(quiet(), config);
    const TrainResult result = train(quiet().with_stop(stop), config);
    EXPECT_EQ(result.planned.arena_bytes, plan.arena_bytes);
    EXPECT_GT(result.skipped_steps, 0);
    EXPECT_EQ(Checkpoint(config.out, "last").state().updates, config.steps - result.skipped_steps);
    Config other = config;
    other.out.clear();
    EXPECT_GT(evaluate(quiet(), config.out, other).get("P@1"), 20);
    // What Renee's encoder keeps of a parameter: weights, gradients and two moments in FP32.
    std::int64_t weights = 0, kept = 0;
    for (const Segment& segment : plan.segments) {
        if (segment.name.starts_with("encoder/weights/")) weights += segment.bytes;
        for (const char* kind : {"weights/", "gradients/", "first_moments/", "second_moments/"})
            if (segment.name.starts_with("encoder/" + std::string(kind))) kept += segment.bytes;
    }
    EXPECT_EQ(kept, 4 * weights);
    config.precision = "bf16";
    config.out = temp / "refused";
    const std::string message = message_of<ConfigError>([&] { train(quiet().with_stop(stop), config); });
    EXPECT_NE(message.find("found fp16, whose gradients need the loss scale"), std::string::npos) << message;
    EXPECT_FALSE(std::filesystem::exists(temp / "refused"));
    EXPECT_THROW(plan_memory(quiet(), config), ConfigError);
}

TEST_F(ReneeRun, Fp32EndToEndPlansAndTrains) {
    config.precision = "fp32";
    config.encoder_precision = "fp32";
    config.head_lr = 0.05;
    const MemoryReport plan = plan_memory(quiet(), config);
    const TrainResult result = train(quiet().with_stop(stop), config);
    EXPECT_EQ(result.planned.arena_bytes, plan.arena_bytes);
    for (const Segment& segment : plan.segments)
        EXPECT_EQ(segment.name.find("compensation"), std::string::npos) << segment.name;
    EXPECT_EQ(result.steps, config.steps);
    EXPECT_LT(result.last_loss, 10);
}

}  // namespace
}  // namespace elmo
