// The built-in recipes against the paper's table of hyper-parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

struct Row {
    const char* name;
    const char* encoder;
    const char* precision;
    std::int64_t batch_size, max_length;
    double dropout, encoder_lr, head_lr, epochs;
    std::int64_t warmup_steps;
    double encoder_weight_decay, head_weight_decay;
    double propensity_a, propensity_b;
    const char* augment;
};

constexpr const char* kBert = "bert-base-uncased";
constexpr const char* kDistil = "sentence-transformers/msmarco-distilbert-base-v4";
constexpr const char* kRoberta = "sentence-transformers/paraphrase-distilroberta-base-v2";

const Row kTable[] = {
    {"wiki-500k", kBert, "bf16", 128, 128, 0.65, 2e-5, 0.05, 35, 1000, 0.01, 1e-4, 0.5, 0.4, "none"},
    {"wiki-500k-fp8", kBert, "fp8", 128, 128, 0.65, 2e-5, 0.15, 70, 1000, 0.01, 1e-4, 0.5, 0.4, "none"},
    {"amazontitles-670k", kBert, "bf16", 256, 32, 0.7, 5e-5, 0.05, 100, 1000, 0.01, 1e-4, 0.6, 2.6, "none"},
    {"amazontitles-670k-fp8", kBert, "fp8", 256, 32, 0.75, 5e-5, 0.05, 150, 1000, 0.01, 1e-4, 0.6, 2.6,
     "none"},
    {"amazon-670k", kBert, "bf16", 64, 128, 0.75, 2e-5, 0.06, 100, 500, 0.01, 1e-4, 0.6, 2.6, "none"},
    {"amazon-670k-fp8", kBert, "fp8", 64, 128, 0.7, 2e-5, 0.05, 150, 1000, 0.01, 1e-4, 0.6, 2.6, "none"},
    {"amazon-3m", kBert, "bf16", 128, 128, 0.6, 5e-5, 0.05, 90, 10000, 1e-3, 1e-3, 0.6, 2.6, "none"},
    {"amazon-3m-fp8", kBert, "fp8", 128, 128, 0.65, 2e-5, 0.05, 150, 10000, 1e-3, 1e-3, 0.6, 2.6, "none"},
    {"lf-amazontitles-131k", kDistil, "bf16", 512, 32, 0.84, 1e-5, 0.1, 100, 15000, 0, 0, 0.6, 2.6, "labels"},
    {"lf-amazontitles-131k-fp8", kDistil, "fp8", 512, 32, 0.85, 1e-5, 0.05, 100, 5000, 0.01, 1e-4, 0.6, 2.6,
     "labels"},
    {"lf-wikiseealso-320k", kRoberta, "bf16", 128, 256, 0.75, 2e-5, 0.08, 100, 5000, 0.01, 1e-4, 0.5, 0.4,
     "labels"},
    {"lf-wikiseealso-320k-fp8", kRoberta, "fp8", 128, 256, 0.75, 2e-5, 0.08, 100, 5000, 0.01, 1e-4, 0.5, 0.4,
     "labels"},
    {"lf-amazontitles-1.3m", kDistil, "bf16", 512, 32, 0.65, 5e-6, 0.05, 100, 5000, 1e-4, 1e-4, 0.6, 2.6,
     "labels"},
    {"lf-amazontitles-1.3m-fp8", kDistil, "fp8", 512, 32, 0.6, 5e-6, 0.2, 150, 15000, 0.01, 1e-4, 0.6, 2.6,
     "labels"},
    {"lf-paper2keywords-8.6m", kRoberta, "bf16", 128, 128, 0.7, 2e-5, 0.05, 12, 5000, 0.01, 1e-4, 0.5, 0.4,
     "labels"},
    {"lf-paper2keywords-8.6m-fp8", kRoberta, "fp8", 128, 128, 0.7, 2e-5, 0.05, 12, 5000, 0.01, 1e-4, 0.5, 0.4,
     "labels"},
};

TEST(Recipes, AreThePapersTable) {
    for (const Row& row : kTable) {
        Config config;
        ASSERT_NO_THROW(load_recipe(config, row.name)) << row.name;
        EXPECT_EQ(config.encoder, row.encoder) << row.name;
        EXPECT_EQ(config.precision, row.precision) << row.name;
        EXPECT_EQ(config.encoder_precision, row.precision) << row.name;
        EXPECT_EQ(config.beta2, 0.99) << row.name;  // of optimi, which the paper names
        EXPECT_EQ(config.batch_size, row.batch_size) << row.name;
        EXPECT_EQ(config.max_length, row.max_length) << row.name;
        EXPECT_EQ(config.dropout, row.dropout) << row.name;
        EXPECT_EQ(config.encoder_lr, row.encoder_lr) << row.name;
        EXPECT_EQ(config.head_lr, row.head_lr) << row.name;
        EXPECT_EQ(config.epochs, row.epochs) << row.name;
        EXPECT_EQ(config.warmup_steps, row.warmup_steps) << row.name;
        EXPECT_EQ(config.encoder_weight_decay, row.encoder_weight_decay) << row.name;
        EXPECT_EQ(config.head_weight_decay, row.head_weight_decay) << row.name;
        EXPECT_EQ(config.propensity_a, row.propensity_a) << row.name;
        EXPECT_EQ(config.propensity_b, row.propensity_b) << row.name;
        EXPECT_EQ(config.augment, row.augment) << row.name;
        const bool label_texts = config.augment == "labels";
        EXPECT_EQ(config.propensity_counts, label_texts ? "augmented" : "auto") << row.name;
        EXPECT_EQ(config.schedule, "cosine") << row.name;
        EXPECT_NO_THROW(validate(config)) << row.name;
    }
}

TEST(Recipes, EveryFileIsBuiltInAndLoads) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(ELMO_SOURCE_DIR "/recipes"))
        files.push_back(entry.path().stem().string());
    std::sort(files.begin(), files.end());
    std::vector<std::string> names;
    for (const BuiltinRecipe& recipe : builtin_recipes()) names.emplace_back(recipe.name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(files, names);
    for (const std::string& name : names) {
        Config by_name, by_file;
        load_recipe(by_name, name);
        load_recipe(by_file, ELMO_SOURCE_DIR "/recipes/" + name + ".toml");
        EXPECT_EQ(to_recipe(by_name), to_recipe(by_file)) << name;
        EXPECT_NO_THROW(validate(by_name)) << name;
    }
}

TEST(Recipes, AWrongNameIsSuggestedARightOne) {
    Config config;
    try {
        load_recipe(config, "lf-amazontitles-131");
        FAIL();
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what()).find("lf-amazontitles-131k"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace elmo
