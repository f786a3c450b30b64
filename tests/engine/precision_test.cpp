// --precision auto: what is picked, that it is reported, and that the run keeps it.
#include "engine/precision.h"

#include <gtest/gtest.h>

#include "config/resolve.h"
#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "run/resolve.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

TEST(AutoPrecision, PicksByDeviceAndBudget) {
    Config config;
    config.labels = 200000;
    config.width = 64;
    config.batch_size = 8;
    config.max_length = 16;
    config.vocab_size = 1000;
    config.precision = "auto";
    EXPECT_EQ(choose_precision(quiet(), config, config.labels * config.width).precision, "bf16");
    config.device = "cuda";
    EXPECT_EQ(choose_precision(quiet(), config, config.labels * config.width).precision, "bf16");
    EXPECT_EQ(choose_precision(quiet(), config, std::int64_t{1} << 30).precision, kAuto8Bit);
    EXPECT_NE(choose_precision(quiet(), config, std::int64_t{1} << 30).why, "");
    config.device = "cpu";
    Config wide = config, narrow = config;
    wide.precision = "bf16";
    narrow.precision = kAuto8Bit;
    const std::int64_t needs = plan_memory(quiet(), wide).total_bytes();
    config.max_memory = std::to_string(needs);
    EXPECT_EQ(choose_precision(quiet(), config, config.labels * config.width).precision, "bf16");
    config.max_memory = std::to_string(needs - 1);
    const PrecisionChoice choice = choose_precision(quiet(), config, config.labels * config.width);
    EXPECT_EQ(choice.precision, kAuto8Bit);
    EXPECT_NE(choice.why.find("max_memory"), std::string::npos) << choice.why;
    narrow.max_memory = config.max_memory;
    EXPECT_EQ(plan_memory(quiet(), config).total_bytes(), plan_memory(quiet(), narrow).total_bytes());
    config.precision = "fp32";
    EXPECT_EQ(choose_precision(quiet(), config, config.labels * config.width).precision, "fp32");
    EXPECT_EQ(choose_precision(quiet(), config, config.labels * config.width).why, "");
}

TEST(AutoPrecision, CompensatesOnlyWhatIsBestCompensated) {
    Config config;
    for (const auto& [precision, noise, share] :
         {std::tuple("e2m5", "auto", kAutoHeadKahan), std::tuple("e2m5", "shared-steps", kAutoHeadKahan),
          std::tuple("e2m5", "steps", "0"), std::tuple("fp8", "auto", "0"),
          std::tuple("fp32", "auto", "0")}) {
        config.precision = precision;
        config.head_noise = noise;
        config.head_kahan = "auto";
        EXPECT_EQ(choose_head_kahan(config), share) << precision << ", " << noise;
        config.head_kahan = "3%";
        EXPECT_EQ(choose_head_kahan(config), "3%");
    }
}

TEST(AutoPrecision, ARunSaysItKeepsItAndResumes) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    Config config = tiny_config(temp);
    config.precision = "auto";
    EXPECT_TRUE(train_no_step(config).interrupted);
    EXPECT_EQ(Checkpoint(config.out, "last").config().precision, "bf16");
    EXPECT_EQ(Checkpoint(config.out, "last").config().head_kahan, "0");
    EXPECT_NE(read_text(config.out + "/log.jsonl").find("precision auto: bf16"), std::string::npos);
    config.resume = true;
    EXPECT_EQ(train(quiet().with_stop(std::atomic<bool>{false}), config).steps, config.steps);
}

// Noise that all labels share is the default; runs of versions that had another one keep it.
TEST(AutoPrecision, ARunSaysWhatNoiseItHasAndAnEarlierOneKeepsIts) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    Config config = tiny_config(temp);
    config.precision = "fp8";
    EXPECT_TRUE(train_no_step(config).interrupted);
    EXPECT_EQ(Checkpoint(config.out, "last").config().head_noise, "shared-steps");
    for (const auto& [precision, noise] :
         {std::pair("fp8", "independent"), std::pair("bf16", "independent"),
          std::pair("e2m5", "shared-steps"), std::pair("exmy:3,4,row", "shared-steps"),
          std::pair("fp32", "auto")})
        EXPECT_EQ(
            parse_run_recipe(fmt::format("encoder = \"bag\"\nprecision = \"{}\"\n", precision), "recipe")
                .head_noise,
            noise)
            << precision;
}

TEST(AutoPrecision, SimulatedFp8IsSaidInOneLine) {
    const auto cpu = make_cpu_backend(quiet(), "auto");
    Config config;
    EXPECT_TRUE(explain_precision(config, config, *cpu).empty());
    config.encoder_precision = "fp8";
    const auto lines = explain_precision(config, config, *cpu);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("simulated"), std::string::npos);
    EXPECT_EQ(lines[0].find('\n'), std::string::npos);
}

}  // namespace
}  // namespace elmo
