// Who set an option, and which of defaults, a run's recipe, recipes and given values wins.
#include "config/resolve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "elmo/error.h"

namespace elmo::resolve_test {
namespace {

// The recipe of a run with these options, read as a run's.
Config run_with(const std::vector<std::pair<std::string, std::string>>& values) {
    Config config;
    for (const auto& [key, value] : values) set_option(config, key, value);
    const auto path = std::filesystem::temp_directory_path() / fmt::format("elmo_resolve_{}.toml", getpid());
    std::ofstream(path, std::ios::binary) << to_recipe(config);
    config = read_run_recipe(path);
    std::filesystem::remove(path);
    return config;
}

TEST(RunRecipe, OneOfBeforeEqualTextsWentTogetherKeepsThemApart) {
    EXPECT_EQ(run_with({}).equal_texts, "together");
    const Config earlier = parse_run_recipe("seed = 7\n", "recipe.toml");
    EXPECT_EQ(earlier.equal_texts, "apart");
    EXPECT_FALSE(given(earlier, "equal_texts"));
    EXPECT_EQ(with_run_reading(Config(), earlier).equal_texts, "apart");
    EXPECT_EQ(with_stored_run(earlier, Config()).equal_texts, "apart");
}

TEST(RunRecipe, KeepsTheOriginalOfACopiedPath) {
    Config config;
    set_copied(config, "validation", "/tmp/copy/train.jsonl", "held.parquet");
    EXPECT_TRUE(given(config, "validation"));
    EXPECT_EQ(config.validation, "/tmp/copy/train.jsonl");
    const Config run = parse_run_recipe(to_recipe(config), "recipe.toml");
    EXPECT_EQ(run.validation, "held.parquet");
    // A continued run takes the copy: it is what the run names.
    const Config continued = with_stored_run(run, config);
    EXPECT_EQ(continued.validation, "/tmp/copy/train.jsonl");
    EXPECT_EQ(original_value(continued, "validation"), "held.parquet");
    set_option(config, "validation", "0.1");
    EXPECT_EQ(original_value(config, "validation"), "0.1");
    EXPECT_THROW(with_stored_run(run, config), ConfigError);
    config.data = "rows.csv";
    EXPECT_EQ(original_value(config, "data"), "rows.csv");
    // The library does not read a test file, but a run names it.
    set_copied(config, "test", "/tmp/copy/test.jsonl", "test.parquet");
    EXPECT_TRUE(unused_options(config).empty());
    const Config tested = parse_run_recipe(to_recipe(config), "recipe.toml");
    EXPECT_EQ(with_run_reading(Config(), tested).test, "test.parquet");
    EXPECT_TRUE(unused_options(with_stored_run(tested, Config())).empty());
}

// Their copies have other folders in each call.
TEST(RunRecipe, KnowsValidationRowsFromMemoryByTheirHash) {
    Config config;
    set_copied(config, "validation", "/tmp/elmo-rows-a1b2c3/train.jsonl",
               "elmo-rows-0123456789abcdef/train.jsonl");
    const Config run = parse_run_recipe(to_recipe(config), "recipe.toml");
    Config again;
    set_copied(again, "validation", "/tmp/elmo-rows-d4e5f6/train.jsonl",
               "elmo-rows-0123456789abcdef/train.jsonl");
    EXPECT_EQ(with_stored_run(run, again).validation, "/tmp/elmo-rows-d4e5f6/train.jsonl");
    set_copied(again, "validation", "/tmp/elmo-rows-d4e5f6/train.jsonl",
               "elmo-rows-fedcba9876543210/train.jsonl");
    try {
        with_stored_run(run, again);
        FAIL();
    } catch (const ConfigError& error) {
        EXPECT_STREQ(error.what(),
                     "resume: the run has validation = elmo-rows-0123456789abcdef/train.jsonl, found others: "
                     "elmo-rows-fedcba9876543210/train.jsonl; a continued run keeps its recipe: give the "
                     "same rows again, or "
                     "start a new run");
    }
}

TEST(RunRecipe, OneOfBeforeStateHad8BitsKeepsAllOfThem) {
    const Config earlier = parse_run_recipe("seed = 7\n", "recipe.toml");
    EXPECT_EQ(earlier.encoder_state, "full");
    EXPECT_FALSE(given(earlier, "encoder_state"));
    EXPECT_EQ(with_stored_run(earlier, Config()).encoder_state, "full");
    Config asked;
    set_option(asked, "encoder_state", "auto");
    EXPECT_EQ(with_stored_run(earlier, asked).encoder_state, "full");
    EXPECT_EQ(with_stored_run(run_with({{"encoder_state", "8bit"}}), asked).encoder_state, "8bit");
    set_option(asked, "encoder_state", "8bit");
    EXPECT_THROW(with_stored_run(earlier, asked), ConfigError);
}

template <class Function>
std::string message_of(const Function& function) {
    try {
        function();
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(Given, AnOptionKnowsWhetherItWasAskedFor) {
    Config config;
    EXPECT_FALSE(given(config, "batch_size"));
    EXPECT_EQ(reason_of(config, "batch_size"), "default");
    set_option(config, "batch_size", "128");  // the default, and asked for
    EXPECT_TRUE(given(config, "batch_size"));
    EXPECT_EQ(reason_of(config, "batch_size"), "given");
    config.epochs = 3;  // a program assigns members
    EXPECT_TRUE(given(config, "epochs"));
    EXPECT_FALSE(given(config, "seed"));
}

TEST(Given, WhatTheRunOrTheProgramSetIsNotUntilItIsAssigned) {
    Config config = run_with({{"epochs", "5"}});
    EXPECT_EQ(config.epochs, 5.0);
    EXPECT_FALSE(given(config, "epochs"));
    EXPECT_EQ(reason_of(config, "epochs"), "the run's recipe");
    config.epochs = 10;  // the default, but not what the run has
    EXPECT_TRUE(given(config, "epochs"));
    EXPECT_EQ(reason_of(config, "epochs"), "given");
    choose_option(config, "labels", &Config::labels, std::int64_t{7}, "shape tiny");
    EXPECT_FALSE(given(config, "labels"));
    EXPECT_EQ(reason_of(config, "labels"), "shape tiny");
}

TEST(Given, ARecipeAsksForItsKeys) {
    Config config;
    load_recipe(config, "demo");
    EXPECT_TRUE(given(config, "encoder_lr"));
    EXPECT_EQ(reason_of(config, "encoder_lr"), "recipe demo");
    EXPECT_FALSE(given(config, "threads"));
}

TEST(Auto, IsTextARecipeAndNoNumber) {
    Config config;
    EXPECT_TRUE(config.encoder_lr.is_auto());
    EXPECT_EQ(get_option(config, "encoder_lr"), "auto");
    EXPECT_THROW(static_cast<double>(config.encoder_lr), std::logic_error);
    set_option(config, "encoder_lr", "2e-4");
    EXPECT_EQ(config.encoder_lr, 2e-4);
    set_option(config, "encoder_lr", "auto");
    EXPECT_TRUE(config.encoder_lr.is_auto());
    EXPECT_EQ(message_of([&] { set_option(config, "encoder_lr", "fast"); }),
              "encoder_lr: expected a number or auto, found 'fast'");
    EXPECT_NE(to_recipe(config).find("\nencoder_lr = \"auto\"\n"), std::string::npos);
    EXPECT_TRUE(run_with({}).encoder_lr.is_auto());
    EXPECT_EQ(run_with({{"encoder_lr", "1"}}).encoder_lr, 1.0);
}

TEST(Choices, AreNamedInTheirHelp) {
    int choices = 0;
    for (const OptionInfo& option : options()) {
        choices += !option.choices.empty();
        for (const std::string& name : option.choices) {
            const std::string shown = option.key == "select" ? name.substr(0, name.find('@')) + "@k" : name;
            EXPECT_NE(option.help.find(shown), std::string_view::npos) << option.key << ": " << name;
        }
    }
    EXPECT_EQ(choices, 30);
}

TEST(RunReading, ComesFromTheRunUnlessGiven) {
    const Config run = run_with({{"text_column", "title"},
                                 {"encoding", "latin-1"},
                                 {"data", "d.csv"},
                                 {"head_lr", "7"},
                                 {"seed", "3"},
                                 {"propensity_a", "0.6"},
                                 {"propensity_b", "2.6"},
                                 {"device", "reference"}});
    Config config = with_run_reading(Config(), run);
    EXPECT_EQ(config.text_column, "title");
    EXPECT_EQ(config.encoding, "latin-1");
    EXPECT_EQ(config.data, "d.csv");
    EXPECT_EQ(config.seed, 3u);
    EXPECT_EQ(config.propensity_a, 0.6);
    EXPECT_EQ(config.device, "auto");  // how it was trained is not how it is used
    EXPECT_NE(config.head_lr, 7.0);
    EXPECT_EQ(reason_of(config, "text_column"), "the run's recipe");

    Config asked;
    set_option(asked, "text_column", "text");  // the default, and asked for
    asked.like = "renee";
    config = with_run_reading(asked, run);
    EXPECT_EQ(config.text_column, "text");
    EXPECT_EQ(config.propensity_a, -1);  // another project's
    EXPECT_EQ(with_run_reading(config, run).text_column, "text");
}

TEST(StoredRun, ResultsAreKeptAndTheRestMayDiffer) {
    const Config run = run_with({{"epochs", "5"},
                                 {"threads", "2"},
                                 {"save_every", "7"},
                                 {"precision", "e2m5"},
                                 {"encoder_lr", "0.01"}});
    EXPECT_EQ(with_stored_run(run, Config()).epochs, 5.0);
    EXPECT_EQ(with_stored_run(run, Config()).save_every, 7);
    Config asked;
    asked.out = "run";
    set_option(asked, "threads", "0");
    set_option(asked, "precision", "auto");  // what it stood for is in the run
    set_option(asked, "encoder_lr", "auto");
    const Config config = with_stored_run(run, asked);
    EXPECT_EQ(config.threads, 0);
    EXPECT_EQ(config.out, "run");
    EXPECT_EQ(config.precision, "e2m5");
    EXPECT_EQ(config.encoder_lr, 0.01);
    set_option(asked, "epochs", "10");  // the default, and not what the run has
    EXPECT_EQ(
        message_of([&] { with_stored_run(run, asked); }),
        "resume: the run has epochs = 5, found 10; a continued run keeps its recipe: leave --epochs out, "
        "or train on in a new run that starts from this one, with --init RUN --out NEW");
}

// What the backward computes again may change, but not between exact and rounded numbers.
TEST(StoredRun, CompressedStays) {
    const auto continued = [](const char* was, const char* found) {
        Config asked;
        set_option(asked, "recompute", found);
        return with_stored_run(run_with({{"recompute", was}}), asked).recompute;
    };
    EXPECT_EQ(with_stored_run(run_with({{"recompute", "compressed"}}), Config()).recompute, "compressed");
    EXPECT_EQ(continued("compressed", "compressed"), "compressed");
    EXPECT_EQ(continued("auto", "wide"), "wide");
    EXPECT_EQ(message_of([&] { continued("auto", "compressed"); }),
              "resume: the run has recompute = auto, found compressed; a continued run keeps its recipe: "
              "leave --recompute out, or start a new run");
    EXPECT_EQ(continued("compressed", "auto"), "compressed");
    EXPECT_NE(message_of([&] { continued("compressed", "cheap"); }), "");
    EXPECT_EQ(continued("compact", "auto"), "compact");
    for (const char* other : {"cheap", "compressed"}) {
        EXPECT_NE(message_of([&] { continued("compact", other); }), "");
        EXPECT_NE(message_of([&] { continued(other, "compact"); }), "");
    }
}

TEST(Unused, OptionsThatDoNothingAreNamedWithTheReason) {
    using Options = std::vector<std::pair<std::string, std::string>>;
    const auto unused = [](const Options& options) {
        Config config;
        config.encoder = "bag";
        for (const auto& [key, value] : options) set_option(config, key, value);
        std::string all;
        for (const UnusedOption& option : unused_options(config))
            all += std::string(option.key) + " with " + option.with + ";";
        return all;
    };
    EXPECT_EQ(unused({{"precision", "fp32"}, {"head_noise", "shared"}}),
              "head_noise with precision fp32, which rounds no weights;");
    EXPECT_EQ(unused({{"precision", "fp32"}, {"head_rounding", "nearest"}}),
              "head_rounding with precision fp32, which rounds no weights;");
    EXPECT_EQ(unused({{"precision", "bf16"}, {"head_rounding", "nearest"}, {"head_noise", "steps"}}),
              "head_noise with head_rounding nearest, which draws no noise;");
    EXPECT_EQ(unused({{"head_momentum", "0.5"}, {"loss_scale", "1"}, {"precision", "bf16"}}),
              "head_momentum with precision bf16, only with renee;loss_scale with precision bf16, only with "
              "renee;");
    EXPECT_EQ(unused({{"pooling", "cls"}, {"recompute", "layers"}}),
              "pooling with encoder bag;recompute with encoder bag;");
    EXPECT_EQ(unused({{"encoder", "linear"}, {"batch_size", "3"}}), "batch_size with encoder linear;");
    EXPECT_EQ(
        unused({{"keep_vectors", "no"}, {"augment", "labels"}, {"augment_threshold", "0.2"}}),
        "augment_threshold with augment labels, only with cooccurrence;keep_vectors with an encoder that "
        "is trained, only with freeze_encoder;");
    EXPECT_EQ(unused({{"keep_vectors", "no"},
                      {"freeze_encoder", "true"},
                      {"augment", "cooccurrence"},
                      {"augment_threshold", "0.2"}}),
              "");
    EXPECT_EQ(unused({{"encoder", "linear"}, {"test", "rows.parquet"}}),
              "test with data that elmo reads itself, whose test file stands beside it (train.csv and "
              "test.csv);");
    // What has an effect, and defaults that are given.
    EXPECT_EQ(unused({{"encoder", "folder"}, {"pooling", "cls"}, {"recompute", "layers"}}), "");
    EXPECT_EQ(unused({{"precision", "renee"}, {"head_momentum", "0.5"}, {"loss_scale", "1"}}), "");
    EXPECT_EQ(unused({{"precision", "bf16"}, {"head_noise", "steps"}}), "");
    EXPECT_EQ(unused({{"precision", "bf16"}, {"head_rounding", "nearest"}}), "");
    EXPECT_EQ(unused({{"precision", "fp32"},
                      {"head_noise", "auto"},
                      {"head_rounding", "stochastic"},
                      {"head_momentum", "0.9"},
                      {"loss_scale", "4096"},
                      {"pooling", "mean"},
                      {"recompute", "none"}}),
              "");
}

}  // namespace
}  // namespace elmo::resolve_test
