#include "config/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "config/encoder_folder.h"
#include "config/option_table.h"
#include "elmo/error.h"

namespace elmo {
namespace {

// A run stores what their `auto` stood for.
constexpr OptionKey kStoredChoices[] = {"precision", "head_kahan", "device",     "encoder_lr",
                                        "head_lr",   "dropout",    "batch_size", "epochs",
                                        "patience",  "max_length", "augment",    "label_separator"};

bool is_stored_choice(std::string_view key) {
    return std::any_of(std::begin(kStoredChoices), std::end(kStoredChoices),
                       [&](std::string_view choice) { return choice == key; });
}

Config as_of_run(Config config) {
    for (auto& [key, source] : config.sources) {
        source.origin = Origin::kRun;
        source.reason = "the run's recipe";
    }
    return config;
}

}  // namespace

void copy_option(Config& to, const Config& from, std::string_view key) {
    const OptionMember& member = option_members()[option_index(key, {})];
    std::visit([&](auto field) { to.*field = from.*field; }, member);
    const auto source = from.sources.find(key);
    if (source != from.sources.end())
        to.sources.insert_or_assign(std::string(key), source->second);
    else if (const auto old = to.sources.find(key); old != to.sources.end())
        to.sources.erase(old);
}

Config read_run_recipe(const std::filesystem::path& file) {
    Config config;
    load_recipe(config, file);
    return as_of_run(std::move(config));
}

Config parse_run_recipe(const std::string& text, const std::string& name) {
    Config config;
    parse_recipe(config, text, name);
    return as_of_run(std::move(config));
}

Config with_run_reading(Config config, const Config& of_run) {
    const auto take = [&](std::string_view key) {
        if (!given(config, key)) copy_option(config, of_run, key);
    };
    for (const OptionInfo& option : options())
        if (option.role == OptionRole::kReading) take(option.key);
    for (const OptionKey key : {OptionKey("data"), OptionKey("cache"), OptionKey("seed")}) take(key);
    if (!config.like.empty()) return config;
    for (const OptionKey key :
         {OptionKey("propensity_a"), OptionKey("propensity_b"), OptionKey("propensity_counts")})
        take(key);
    return config;
}

Config with_stored_run(const Config& stored, const Config& config) {
    Config result = stored;
    for (const OptionInfo& option : options()) {
        if (!given(config, option.key)) continue;
        std::string value = get_option(config, option.key);
        const std::string was = get_option(stored, option.key);
        if (option.key == "encoder" && value != was) value = encoder_folder(value);
        if (value == was || (value == "auto" && is_stored_choice(option.key))) continue;
        if (option.role != OptionRole::kHarmless && option.role != OptionRole::kOutput)
            throw ConfigError(
                fmt::format("resume: the run has {} = {}, found {}; a continued run keeps its recipe: leave "
                            "{} out, or start a new run",
                            option.key, was, value, flag_of(option.key)));
        copy_option(result, config, option.key);
    }
    return result;
}

Config with_usual_numbers(Config config) {
    const auto take = [&](OptionKey key, auto Config::*member, auto usual) {
        if ((config.*member).is_auto())
            choose_option(config, key, member, std::decay_t<decltype(config.*member)>(usual),
                          "auto: the usual value, where no data is trained on");
    };
    take("max_length", &Config::max_length, kUsualLength);
    take("dropout", &Config::dropout, kUsualDropout);
    take("batch_size", &Config::batch_size, kUsualBatch);
    take("epochs", &Config::epochs, kUsualEpochs);
    take("head_lr", &Config::head_lr, kUsualHeadLr);
    take("patience", &Config::patience, std::int64_t{0});
    if (config.augment == "auto")
        choose_option<std::string>(config, "augment", &Config::augment, "none",
                                   "auto: no data is trained on");
    return config;
}

Config with_encoder_folder(Config config) {
    const std::string folder = encoder_folder(config.encoder);
    if (folder == config.encoder) return config;
    const std::string reason = fmt::format("the newest {} in the Hugging Face cache; {}", config.encoder,
                                           reason_of(config, "encoder"));
    choose_option(config, "encoder", &Config::encoder, folder, reason);
    return config;
}

Config with_plain_head(Config config) {
    constexpr OptionKey kModes[] = {"head_kahan", "weight_dropout", "head_rounding", "head_noise"};
    for (const OptionKey key : kModes) copy_option(config, Config(), key);
    return config;
}

}  // namespace elmo
