// The option list, its ways in (text, recipe) and out, and the checks of values.
#include "elmo/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>

#include "config/option_table.h"
#include "elmo/error.h"

namespace elmo {
namespace {

class TempFile {
  public:
    explicit TempFile(const std::string& text)
        : path_(std::filesystem::temp_directory_path() / fmt::format("elmo_config_{}.toml", getpid())) {
        std::ofstream(path_, std::ios::binary) << text;
    }
    ~TempFile() { std::filesystem::remove(path_); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

template <class Function>
std::string message_of(const Function& function) {
    try {
        function();
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no ConfigError";
}

// The message of a recipe's error, with the file's name taken out.
std::string recipe_error(const std::string& text) {
    const TempFile file(text);
    Config config;
    std::string message = message_of([&] { load_recipe(config, file.path()); });
    const std::string name = file.path().string();
    const std::size_t at = message.find(name);
    if (at != std::string::npos) message.replace(at, name.size(), "FILE");
    return message;
}

// Every option at a value that is hard to keep, and never its default.
Config awkward_config() {
    Config config;
    int n = 0;
    for (const OptionMember& member : option_members()) {
        ++n;
        if (const auto* text = std::get_if<std::string Config::*>(&member))
            config.** text = fmt::format("a \"quoted\" \\ back\\slash\ttab\nline\x7f\x01 é 漢字 ' # {}", n);
        if (const auto* integer = std::get_if<std::int64_t Config::*>(&member))
            config.** integer = -9223372036854775807 - 1 + n;
        if (const auto* natural = std::get_if<std::uint64_t Config::*>(&member))
            config.** natural = 18446744073709551615ull - n;
        if (const auto* number = std::get_if<double Config::*>(&member))
            config.** number = -(n + 1) / 3.0 * 1e-30;
        if (const auto* number = std::get_if<Auto<double> Config::*>(&member)) config.** number = n / 3.0;
        if (const auto* on = std::get_if<bool Config::*>(&member)) config.** on = !(config.**on);
    }
    return config;
}

void expect_equal(const Config& a, const Config& b) {
    for (std::size_t i = 0; i < options().size(); ++i)
        std::visit([&](auto field) { EXPECT_EQ(a.*field, b.*field) << options()[i].key; },
                   option_members()[i]);
}

TEST(Options, AreListedOnceWithTypeDefaultAndFlag) {
    std::set<std::string_view> keys;
    for (const OptionInfo& option : options()) {
        EXPECT_TRUE(keys.insert(option.key).second) << option.key;
        EXPECT_FALSE(option.help.empty());
        EXPECT_EQ(option.verbs.find_first_not_of("tepmbdikclonrvxy"), std::string_view::npos) << option.key;
        EXPECT_EQ(option.default_value, get_option(Config(), option.key));
    }
    EXPECT_EQ(options().size(), option_members().size());
    EXPECT_EQ(options().front().key, "data");
    const auto& batch = options()[option_index("batch_size", {})];
    EXPECT_EQ(batch.type, "integer");
    EXPECT_EQ(batch.default_value, "auto");
    EXPECT_EQ(options()[option_index("encoder_lr", {})].type, "number");
    EXPECT_EQ(options()[option_index("encoder_lr", {})].default_value, "auto");
    EXPECT_EQ(options()[option_index("resume", {})].type, "switch");
    EXPECT_EQ(options()[option_index("out", {})].type, "string");
    EXPECT_EQ(flag_of("batch_size"), "--batch-size");
    EXPECT_EQ(flag_of("k"), "--k");
}

TEST(Options, EveryValueRoundTripsThroughText) {
    const Config from = awkward_config();
    Config to;
    for (const OptionInfo& option : options()) set_option(to, option.key, get_option(from, option.key));
    expect_equal(from, to);
    Config back = awkward_config();
    for (const OptionInfo& option : options()) set_option(back, option.key, option.default_value);
    expect_equal(back, Config());
}

TEST(Options, ValuesMayBeCalledAsOtherProgramsCallThem) {
    Config config;
    for (const char* name : {"latin1", "iso-8859-1", "cp1252", "windows-1252"}) {
        set_option(config, "encoding", "utf8");
        EXPECT_EQ(config.encoding, "utf-8");
        set_option(config, "encoding", name);
        EXPECT_EQ(config.encoding, "latin-1") << name;
    }
    set_option(config, "delimiter", "\\t");
    EXPECT_EQ(config.delimiter, "tab");
    validate(config);
}

TEST(Options, DoublesAreShortestAndExact) {
    Config config;
    for (const double value : {0.1, 1e-6, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 10.0}) {
        config.epochs = value;
        Config other;
        set_option(other, "epochs", get_option(config, "epochs"));
        EXPECT_EQ(other.epochs, value);
        EXPECT_EQ(std::signbit(static_cast<double>(other.epochs)), std::signbit(value));
    }
    config.epochs = 0.1;
    EXPECT_EQ(get_option(config, "epochs"), "0.1");
}

TEST(Options, MalformedTextIsAnErrorThatNamesKeyExpectedAndFound) {
    Config config;
    const auto error = [&](std::string_view key, std::string_view value, std::string_view where = {}) {
        return message_of([&] { set_option(config, key, value, where); });
    };
    EXPECT_EQ(error("bach_size", "1"), "unknown key 'bach_size' (did you mean 'batch_size'?)");
    EXPECT_EQ(error("bach_size", "1", "--set"),
              "--set: unknown key 'bach_size' (did you mean 'batch_size'?)");
    EXPECT_EQ(error("zzzzzzzzzzz", "1"), "unknown key 'zzzzzzzzzzz'");
    // Names of other libraries.
    EXPECT_EQ(error("learning_rate", "1"),
              "unknown key 'learning_rate' (did you mean 'encoder_lr' or 'head_lr'?)");
    EXPECT_EQ(error("num_train_epochs", "1"), "unknown key 'num_train_epochs' (did you mean 'epochs'?)");
    EXPECT_EQ(error("ngram_range", "1"),
              "unknown key 'ngram_range': the linear model takes words, word pairs and letters by itself");
    EXPECT_EQ(error("batch_size", "12x"), "batch_size: expected an integer or auto, found '12x'");
    for (const char* bad : {"", " 1", "1 ", "1.5", "1e3", "99999999999999999999", "0x10"})
        EXPECT_NE(error("batch_size", bad), "no ConfigError") << bad;
    for (const char* bad : {"", "nan", "inf", "1e999", "1,5", "0.1x"})
        EXPECT_NE(error("epochs", bad), "no ConfigError") << bad;
    EXPECT_EQ(error("resume", "maybe"), "resume: expected true or false, found 'maybe'");
    EXPECT_NE(error("seed", "-1"), "no ConfigError");
    EXPECT_EQ(error("out", "\xff"), "out: expected valid UTF-8, found '\\xff'");
    expect_equal(config, Config());  // a refused value changes nothing
}

TEST(Recipe, EveryValueRoundTrips) {
    const Config from = awkward_config();
    const TempFile file(to_recipe(from));
    Config to;
    load_recipe(to, file.path());
    expect_equal(from, to);
}

TEST(Recipe, DefaultsRoundTripAndAreGroupedAndCommented) {
    const std::string recipe = to_recipe(Config());
    const TempFile file(recipe);
    Config to = awkward_config();
    load_recipe(to, file.path());
    expect_equal(to, Config());
    EXPECT_EQ(recipe.rfind("# ---- data\n# Data set: ", 0), 0u);
    EXPECT_NE(recipe.find("\n# ---- head\n"), std::string::npos);
    EXPECT_NE(recipe.find("\nepochs = \"auto\"\n"), std::string::npos);
    EXPECT_NE(recipe.find("\ntest_share = 0.1\n"), std::string::npos);
}

TEST(Recipe, AppliesOnTopAndLeavesTheRest) {
    const TempFile file("# a comment\nepochs = 3\nencoder_lr = 1e-4\nresume = true\nout = 'x'\nseed = 7\n");
    Config config;
    config.batch_size = 5;
    load_recipe(config, file.path());
    EXPECT_EQ(config.epochs, 3.0);
    EXPECT_EQ(config.encoder_lr, 1e-4);
    EXPECT_TRUE(config.resume);
    EXPECT_EQ(config.out, "x");
    EXPECT_EQ(config.seed, 7u);
    EXPECT_EQ(config.batch_size, std::int64_t{5});
}

TEST(Recipe, ErrorsNameFileLineExpectedAndFound) {
    EXPECT_EQ(recipe_error("epochs = 2\n\nbach_size = 3\n"),
              "FILE:3: unknown key 'bach_size' (did you mean 'batch_size'?)");
    EXPECT_EQ(recipe_error("batch_size = 'many'\n"),
              "FILE:1: batch_size: expected an integer or \"auto\", found a string");
    EXPECT_EQ(recipe_error("\nbatch_size = 1.5\n"),
              "FILE:2: batch_size: expected an integer or \"auto\", found a number with a fraction");
    EXPECT_EQ(recipe_error("resume = 1\n"), "FILE:1: resume: expected true or false, found an integer");
    EXPECT_EQ(recipe_error("out = 3\n"), "FILE:1: out: expected a string in quotes, found an integer");
    EXPECT_EQ(recipe_error("epochs = [1]\n"),
              "FILE:1: epochs: expected a number or \"auto\", found an array");
    EXPECT_EQ(recipe_error("epochs = 1\n[head]\nprecision = 'fp8'\n"),
              "FILE:2: expected flat keys, found the section 'head'; write its keys without it");
    EXPECT_EQ(recipe_error("epochs = 1\nepochs = 2\n").rfind("FILE:2: not valid TOML: ", 0), 0u);
    EXPECT_EQ(recipe_error("epochs = \n").rfind("FILE:1: not valid TOML: ", 0), 0u);
    EXPECT_EQ(recipe_error("out = '\xff'\n"), "FILE: expected UTF-8, found other bytes");
    EXPECT_EQ(recipe_error("epochs = nan\n"), "FILE:1: epochs: expected a number or auto, found 'nan'");
}

TEST(Recipe, FailureChangesNothing) {
    const TempFile file("epochs = 3\nzzz = 1\n");
    Config config;
    EXPECT_THROW(load_recipe(config, file.path()), ConfigError);
    expect_equal(config, Config());
}

TEST(Recipe, MissingFolderAndHugeFilesAreErrors) {
    Config config;
    EXPECT_THROW(load_recipe(config, "/nonexistent/recipe.toml"), DataError);
    EXPECT_THROW(load_recipe(config, "/tmp"), DataError);
    EXPECT_THROW(load_recipe(config, "/dev/zero"), DataError);
    EXPECT_THROW(load_recipe(config, "/proc/self/mem"), DataError);  // opens, and cannot be read
}

TEST(Recipe, KeysOfManyPartsAreRefusedAndNotFollowed) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("elmo_deep_" + std::to_string(getpid()) + ".toml");
    std::string key;
    for (int i = 0; i < 400000; ++i) key += "a.";  // freed by recursion, this would be the end of the stack
    for (const std::string& text : {"[" + key + "a]\n", key + "a = 1\n"}) {
        std::ofstream(file) << text;
        Config config;
        EXPECT_THROW(load_recipe(config, file), ConfigError);
    }
    std::filesystem::remove(file);
}

TEST(Validate, DefaultsAreValid) {
    EXPECT_NO_THROW(validate(Config()));
}

TEST(Validate, StateIn8BitsNeedsCompensatedBf16Weights) {
    Config config;
    config.encoder_state = "8bit";
    for (const char* precision : {"bf16", "fp8"}) {
        config.encoder_precision = precision;
        EXPECT_NO_THROW(validate(config));
    }
    for (const auto& [precision, rounding] :
         {std::pair("fp32", "kahan"), std::pair("fp16", "kahan"), std::pair("bf16", "nearest")}) {
        config.encoder_precision = precision;
        config.encoder_rounding = rounding;
        config.encoder_state = "8bit";
        EXPECT_THROW(validate(config), ConfigError) << precision << ' ' << rounding;
        for (const char* other : {"full", "auto"}) {
            config.encoder_state = other;
            EXPECT_NO_THROW(validate(config));
        }
    }
}

TEST(Validate, RefusesValuesOutOfRange) {
    const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
        {"format", {"", "xls"}},
        {"test_share", {"-0.1", "1"}},
        {"validation", {"", "1", "-0.5"}},
        {"max_length", {"2", "100000"}},
        {"tokenizer_kind", {"unigram"}},
        {"width", {"0"}},
        {"encoder_precision", {"fp4"}},
        {"encoder_state", {"4bit", ""}},
        {"pooling", {"max"}},
        {"dropout", {"1", "-0.1"}},
        {"encoder_dropout", {"-0.5", "1"}},
        {"precision", {"fp16", ""}},
        {"head_kahan", {"", "-0.1", "101%", "1.5", "half", "20%%", "nan"}},
        {"weight_dropout", {"1", "-0.1"}},
        {"labels", {"-1"}},
        {"chunks", {"-1"}},
        {"batch_size", {"0", "-1"}},
        {"epochs", {"0", "-1"}},
        {"steps", {"-1", "1099511627776"}},
        {"encoder_lr", {"-1"}},
        {"head_lr", {"-1"}},
        {"beta1", {"1"}},
        {"beta2", {"1"}},
        {"epsilon", {"0"}},
        {"schedule", {"step"}},
        {"warmup_steps", {"-2"}},
        {"accumulate", {"0"}},
        {"device", {"tpu"}},
        {"threads", {"-1"}},
        {"cpu_products", {"int8"}},
        {"max_memory", {"8 apples", "0", "-1GiB"}},
        {"log_every", {"0"}},
        {"eval_every", {"0"}},
        {"save_every", {"-1"}},
        {"select", {"P@2", "loss"}},
        {"checkpoint", {"first"}},
        {"split", {"dev"}},
        {"k", {"", "0", "1,,3", "1, 3", "1,x", "1001", "1,"}},
        {"propensity_a", {"-2"}},
        {"propensity_b", {"0"}},
        {"propensity_counts", {"all", ""}},
        {"like", {"xclib"}},
        {"bootstrap", {"-1"}},
        {"save_scores", {""}},
        {"top", {"0"}},
        {"threshold", {"-0.1", "1.1"}},
        {"probabilities", {"platt", ""}},
        {"input", {"csv"}},
        {"text_column", {""}},
        {"label_separator", {""}},
        {"vocab_size", {"0"}}};
    for (const auto& [key, values] : bad)
        for (const std::string& value : values) {
            Config config;
            set_option(config, key, value);
            EXPECT_EQ(message_of([&] { validate(config); }).rfind(key + ": expected ", 0), 0u)
                << key << "=" << value;
        }
}

TEST(Validate, RefusesOtherNamesThanThoseOfAChoice) {
    for (const OptionInfo& option : options()) {
        if (option.choices.empty()) continue;
        Config config;
        set_option(config, option.key, "nothing");
        EXPECT_THROW(validate(config), ConfigError) << option.key;
    }
}

TEST(Validate, RefusesNan) {
    for (Auto<double> Config::*field :
         {&Config::epochs, &Config::head_lr, &Config::dropout, &Config::encoder_lr, &Config::eval_every}) {
        Config config;
        config.*field = std::nan("");
        EXPECT_THROW(validate(config), ConfigError);
    }
    for (double Config::*field : {&Config::encoder_dropout, &Config::weight_dropout, &Config::beta1,
                                  &Config::epsilon, &Config::threshold}) {
        Config config;
        config.*field = std::nan("");
        EXPECT_THROW(validate(config), ConfigError);
    }
}

TEST(Validate, TakesWhatIsMeant) {
    Config config;
    config.validation = "dev.tsv";
    config.encoder_dropout = 0;
    config.max_memory = "1.5GiB";
    config.k = "1,2,10";
    config.select = "PSP@5";
    EXPECT_NO_THROW(validate(config));
    config.validation = "0";
    EXPECT_NO_THROW(validate(config));
    for (const char* share : {"20%", "0.2", "100%", "0"}) {
        config.head_kahan = share;
        EXPECT_NO_THROW(validate(config));
    }
    config.precision = "fp32";
    EXPECT_NO_THROW(validate(config));
    config.head_kahan = "1%";
    EXPECT_THROW(validate(config), ConfigError);
    config.precision = "fp8";
    config.resume = config.overwrite = true;
    EXPECT_THROW(validate(config), ConfigError);
}

TEST(Validate, RefusesModesOfTheHeadThatDoNotGoTogether) {
    using Options = std::vector<std::pair<std::string, std::string>>;
    const auto with = [](const Options& options) {
        Config config;
        for (const auto& [key, value] : options) set_option(config, key, value);
        return message_of([&] { validate(config); });
    };
    for (const char* precision : {"fp32", "renee"})
        EXPECT_EQ(with({{"precision", precision}, {"head_kahan", "5%"}}).rfind("head_kahan: expected 0", 0),
                  0u)
            << precision;
    for (const char* precision : {"fp8", "e3m4", "e2m5", "e2m3", "e2m1"})
        EXPECT_EQ(with({{"precision", precision}, {"head_rounding", "nearest"}}).rfind("head_rounding", 0),
                  0u)
            << precision;
    EXPECT_EQ(
        with({{"precision", "renee"}, {"weight_dropout", "0.1"}}).rfind("weight_dropout: expected 0", 0), 0u);
    EXPECT_EQ(with({{"precision", "renee"}, {"head_rounding", "nearest"}}).rfind("head_rounding", 0), 0u);
    EXPECT_EQ(with({{"precision", "renee"}, {"head_noise", "steps"}}).rfind("head_rounding", 0), 0u);
    // What does go together.
    EXPECT_EQ(with({{"precision", "e2m5"}, {"weight_dropout", "0.1"}, {"head_noise", "steps"}}),
              "no ConfigError");
    for (const char* precision : {"auto", "e3m4", "e2m5", "e2m1", "exmy:3,12,5"})
        EXPECT_EQ(with({{"precision", precision}, {"head_kahan", "5%"}, {"head_noise", "steps"}}),
                  "no ConfigError");
    EXPECT_EQ(with({{"head_rounding", "nearest"}, {"head_kahan", "5%"}}), "no ConfigError");
    for (const char* precision : {"auto", "fp32", "renee", "e2m5"})
        EXPECT_EQ(with({{"precision", precision}, {"head_kahan", "auto"}}), "no ConfigError");
    EXPECT_EQ(with({{"precision", "renee"}, {"loss_scale", "1024"}}), "no ConfigError");
}

TEST(Validate, MessageNamesTheNearest) {
    Config config;
    config.precision = "b16";
    EXPECT_EQ(message_of([&] { validate(config); }),
              "precision: expected one of auto, fp32, bf16, fp8, e3m4, e2m5, e2m3, e2m1, renee, exmy:E,M, "
              "found 'b16' "
              "(did you mean 'bf16'?)");
    config = Config();
    config.batch_size = 0;
    EXPECT_EQ(message_of([&] { validate(config); }),
              "batch_size: expected an integer from 1 to 1048576, found 0");
}

}  // namespace
}  // namespace elmo
