#include "config/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "config/encoder_folder.h"
#include "config/option_table.h"
#include "config/rows_path.h"
#include "elmo/error.h"
#include "elmo/messages.h"

namespace elmo {
namespace {

// A run stores what their `auto` stood for.
constexpr OptionKey kStoredChoices[] = {"encoder",         "precision",    "head_kahan",   "device",
                                        "encoder_lr",      "head_lr",      "dropout",      "batch_size",
                                        "epochs",          "patience",     "max_length",   "augment",
                                        "label_separator", "batch_shards", "label_groups", "recompute",
                                        "encoder_state",   "head_noise",   "eval_every"};

bool is_stored_choice(std::string_view key) {
    return std::any_of(std::begin(kStoredChoices), std::end(kStoredChoices),
                       [&](std::string_view choice) { return choice == key; });
}

// Options that only encoders trained by gradient steps have: whole groups, and these.
constexpr std::string_view kStepGroups[] = {"text", "encoder", "head", "optimisation"};
constexpr OptionKey kStepOptions[] = {"augment",    "augment_threshold", "max_length",  "log_every",
                                      "eval_every", "save_every",        "on_collapse", "max_memory",
                                      "patience",   "save_minutes",      "windows"};
constexpr std::int64_t kWholeText = 1 << 16;  // the largest max_length
constexpr OptionKey kAnyEncoder[] = {"encoder", "seed", "labels", "neighbours", "objective", "label_weights"};

bool is_step_option(const OptionInfo& option) {
    const auto is_key = [&](std::string_view key) { return key == option.key; };
    if (std::any_of(std::begin(kAnyEncoder), std::end(kAnyEncoder), is_key)) return false;
    return std::any_of(std::begin(kStepOptions), std::end(kStepOptions), is_key) ||
           std::find(std::begin(kStepGroups), std::end(kStepGroups), option.group) != std::end(kStepGroups);
}

// Whether the linear model has such an option too: texts are read and cut for it as for others.
bool has_linear(const OptionInfo& option) {
    return option.group == "text" || option.key == "max_length";
}

Config with_encoder_chosen(Config config) {
    const auto choose = [&](const char* encoder, std::string reason) {
        choose_option<std::string>(config, "encoder", &Config::encoder, encoder,
                                   "auto: " + std::move(reason));
        return config;
    };
    if (config.data.empty() && !config.resume) return choose("bag", "linear needs data");
    if (config.device != "cpu" && config.device != "auto")
        return choose("bag", fmt::format("linear is trained on a CPU, not on {}", config.device));
    for (const OptionInfo& option : options())
        if (is_step_option(option) && !has_linear(option) && given(config, option.key))
            return choose("bag", fmt::format("{} was given, which linear does not have", option.key));
    return choose(kLinearEncoder, "the best and fastest on a CPU");
}

// The linear model is trained on whole texts (up to a length that few have), on a CPU; other numbers it does
// not have.
Config with_linear_numbers(Config config) {
    if (config.max_length.is_auto())
        choose_option(
            config, "max_length", &Config::max_length, Auto<std::int64_t>(kWholeText),
            fmt::format("auto: linear takes texts of up to {} tokens whole", with_commas(kWholeText)));
    if (config.device == "auto")
        choose_option<std::string>(config, "device", &Config::device, "cpu",
                                   "auto: linear is trained on a CPU");
    return with_usual_numbers(std::move(config));
}

// What only linear has; other encoders do without, or refuse.
void refuse_linear_options(const Config& config) {
    const auto refuse = [&](std::string_view key, const std::string& value) {
        throw ConfigError(fmt::format("{}: {} needs encoder linear, on a CPU; found encoder {}: leave {} out",
                                      key, value, config.encoder, flag_of(key)));
    };
    if (!config.neighbours.is_auto() && config.neighbours > 0)
        refuse("neighbours", get_option(config, "neighbours"));
}

// A folder's encoder has its width, and nothing is learnt where it has a tokenizer or one is named.
void refuse_sizes_beside_folder(const Config& config, const std::string& folder) {
    if (is_of_call(config, "width"))
        throw ConfigError(fmt::format(
            "width: encoder {} has its own; leave --width out, or give --encoder bag", config.encoder));
    if (config.tokenizer == "auto" && !holds_tokenizer(folder)) return;
    for (const OptionKey key : {OptionKey("vocab_size"), OptionKey("tokenizer_kind")})
        if (is_of_call(config, key))
            throw ConfigError(fmt::format(
                "{}: the tokenizer in {} is read, not learnt; leave {} out", std::string_view(key),
                config.tokenizer == "auto" ? config.encoder : config.tokenizer, flag_of(key)));
}

bool rounds_weights(const Config& config) {
    return config.encoder != kLinearEncoder && config.precision != "fp32" && config.precision != "renee";
}

constexpr const char* kUsualNoise = "shared-steps";  // what auto is
constexpr const char* kWithLinear = "encoder linear";

// What makes the option's value do nothing; "" where it does something, or is the default.
std::string unused_with(const Config& config, const OptionInfo& option) {
    const auto is = [&](std::string_view key) { return option.key == key; };
    if (is("test"))
        return config.test.empty() || original_value(config, "test") != config.test
                   ? ""
                   : "data that elmo reads itself, whose test file stands beside it (train.csv and test.csv)";
    if (config.encoder == kLinearEncoder)
        return is_step_option(option) && !has_linear(option) ? kWithLinear : "";
    if (get_option(config, option.key) == option.default_value) return {};
    if (config.encoder == "bag" && (is("pooling") || (is("recompute") && config.recompute != "none")))
        return "encoder bag";
    if (config.precision == "fp32" && (is("head_rounding") || is("head_noise")))
        return "precision fp32, which rounds no weights";
    if (config.head_rounding == "nearest" && is("head_noise") && config.head_noise != kUsualNoise)
        return "head_rounding nearest, which draws no noise";
    if (config.precision != "renee" && (is("head_momentum") || is("loss_scale")))
        return fmt::format("precision {}, only with renee", config.precision);
    if (config.augment != "cooccurrence" && is("augment_threshold"))
        return fmt::format("augment {}, only with cooccurrence", config.augment);
    if (!config.freeze_encoder && is("keep_vectors"))
        return "an encoder that is trained, only with freeze_encoder";
    const bool never_validates =
        !config.validation.empty() && config.validation.find_first_not_of("0.") == std::string::npos;
    if (never_validates && (is("patience") || is("select")))
        return fmt::format("validation {}, which holds out no rows", config.validation);
    return {};
}

// Of validation: a file, no share and no rows from memory.
bool is_file_name(const std::string& validation) {
    return validation.find_first_not_of("0123456789.eE+-") != std::string::npos && !is_rows_path(validation);
}

Config as_of_run(Config config) {
    // Runs of earlier versions had no other way, and keep it.
    if (!config.sources.contains("equal_texts"))
        choose_option<std::string>(config, "equal_texts", &Config::equal_texts, "apart", "");
    if (!config.sources.contains("encoder_state"))
        choose_option<std::string>(config, "encoder_state", &Config::encoder_state, "full", "");
    if (config.head_noise == "auto" && rounds_weights(config)) {
        const bool row_scaled = config.precision.starts_with("e2m") || config.precision.ends_with(",row");
        choose_option<std::string>(config, "head_noise", &Config::head_noise,
                                   row_scaled ? "shared-steps" : "independent", "");
    }
    for (auto& [key, source] : config.sources) {
        source.origin = Origin::kRun;
        source.reason = "the run's recipe";
    }
    return config;
}

}  // namespace

std::vector<UnusedOption> unused_options(const Config& config) {
    const auto is_of_recipe = [&](std::string_view key) {
        const auto found = config.sources.find(key);
        return found != config.sources.end() && found->second.origin == Origin::kRecipe;
    };
    std::vector<UnusedOption> unused;
    for (const OptionInfo& option : options()) {
        if (!given(config, option.key)) continue;
        std::string with = unused_with(config, option);
        // The recipe of a run has every option: what its encoder does not have, nobody asked for.
        const bool asked = with != kWithLinear || !is_of_recipe(option.key) || !is_of_recipe("encoder");
        if (!with.empty() && asked) unused.push_back({option.key, std::move(with)});
    }
    return unused;
}

bool is_of_call(const Config& config, std::string_view key) {
    const auto found = config.sources.find(key);
    return given(config, key) && (found == config.sources.end() || found->second.origin != Origin::kRecipe);
}

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

void forget_json_lines(Config& config, const Config& of_run) {
    const bool is_other = given(config, "data") && config.data != of_run.data;
    if (is_other && of_run.format == "jsonl" && !given(config, "format"))
        copy_option(config, Config(), "format");
}

Config with_run_reading(Config config, const Config& of_run) {
    const auto take = [&](std::string_view key) {
        if (!given(config, key)) copy_option(config, of_run, key);
    };
    for (const OptionInfo& option : options())
        if (option.role == OptionRole::kReading) take(option.key);
    forget_json_lines(config, of_run);
    for (const OptionKey key : {OptionKey("data"), OptionKey("test"), OptionKey("seed")}) take(key);
    if (!config.like.empty()) return config;
    for (const OptionKey key :
         {OptionKey("propensity_a"), OptionKey("propensity_b"), OptionKey("propensity_counts")})
        take(key);
    return config;
}

bool changes_results(const OptionInfo& option, const std::string& was, const std::string& value) {
    const bool harmless = option.role == OptionRole::kHarmless || option.role == OptionRole::kOutput;
    // Of what the backward may keep, two change digits.
    const auto rounds = [](const std::string& mode) { return mode == "compressed" || mode == "compact"; };
    return !harmless || (option.key == "recompute" && (rounds(was) || rounds(value)));
}

Config with_stored_run(const Config& stored, const Config& config) {
    Config result = stored;
    for (const OptionInfo& option : options()) {
        if (!given(config, option.key)) continue;
        std::string value = original_value(config, option.key);
        const std::string was = get_option(stored, option.key);
        if (option.key == "encoder" && value != was) value = encoder_folder(value);
        if (value == "auto" && is_stored_choice(option.key)) continue;
        // Now somebody names it. Whatever the format, the rows themselves are compared; a file that validates
        // may lie elsewhere now.
        if (value == was || option.key == "format" ||
            (option.key == "validation" && is_file_name(was) && is_file_name(value))) {
            copy_option(result, config, option.key);
            continue;
        }
        if (changes_results(option, was, value))
            throw ConfigError(fmt::format(
                "resume: the run has {} = {}, found {}{}; a continued run keeps its recipe: {}, or {}",
                option.key, was, is_rows_path(was) && is_rows_path(value) ? "others: " : "", value,
                is_rows_path(was) ? "give the same rows again"
                                  : fmt::format("leave {} out", flag_of(option.key)),
                (option.key == "epochs" || option.key == "steps") && stored.encoder != kLinearEncoder
                    ? "train on in a new run that starts from this one, with --init RUN --out NEW"
                    : "start a new run"));
        copy_option(result, config, option.key);
    }
    return result;
}

bool has_compensated_weights(const Config& config) {
    const bool bf16 = config.encoder_precision == "bf16" || config.encoder_precision == "fp8";
    return bf16 && config.encoder_rounding == "kahan";
}

std::int64_t usual_shards(std::int64_t ranks) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(ranks)));
}

std::int64_t usual_groups(std::int64_t ranks, std::int64_t labels) {
    constexpr std::int64_t kGroupLabels = 131'072, kMostGroups = 1024;
    if (ranks == 1) return 1;
    const auto groups = static_cast<std::uint64_t>(std::max<std::int64_t>(1, labels / kGroupLabels));
    return std::max(usual_shards(ranks),
                    std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(groups)), kMostGroups));
}

Config with_usual_numbers(Config config) {
    const bool linear = config.encoder == kLinearEncoder;
    const auto take = [&](OptionKey key, auto Config::*member, auto usual) {
        if ((config.*member).is_auto())
            choose_option(config, key, member, std::decay_t<decltype(config.*member)>(usual),
                          linear ? "auto: linear does not use it"
                                 : "auto: the usual value, where no data is trained on");
    };
    take("max_length", &Config::max_length, kUsualLength);
    take("dropout", &Config::dropout, kUsualDropout);
    take("batch_size", &Config::batch_size, kUsualBatch);
    take("epochs", &Config::epochs, kUsualEpochs);
    take("head_lr", &Config::head_lr, kUsualHeadLr);
    take("patience", &Config::patience, std::int64_t{0});
    take("eval_every", &Config::eval_every, kUsualEvalEvery);
    take("batch_shards", &Config::batch_shards, usual_shards(config.ranks));
    take("label_groups", &Config::label_groups, usual_groups(config.ranks, config.labels));
    if (config.augment == "auto")
        choose_option<std::string>(config, "augment", &Config::augment, "none",
                                   linear ? "auto: linear does not use it" : "auto: no data is trained on");
    return config;
}

Config with_encoder_folder(Config config) {
    if (config.encoder == "auto" && !config.shape.empty() && config.data.empty()) return config;
    if (config.encoder == "auto") config = with_encoder_chosen(std::move(config));
    if (config.encoder == kLinearEncoder) return with_linear_numbers(std::move(config));
    if (config.encoder == kVectorEncoder)
        throw ConfigError(
            "encoder: vectors is a head on vectors from elsewhere, which elmo.torch.Head trains in Python; "
            "give "
            "linear, bag or a folder");
    refuse_linear_options(config);
    const std::string folder = encoder_folder(config.encoder);
    if (is_encoder_folder(folder)) refuse_sizes_beside_folder(config, folder);
    if (folder == config.encoder) return config;
    const bool of_run = folder.starts_with(config.encoder);
    const std::string reason =
        of_run ? fmt::format("the checkpoint of the run {}; {}", config.encoder, reason_of(config, "encoder"))
               : fmt::format("the newest {} in the Hugging Face cache; {}", config.encoder,
                             reason_of(config, "encoder"));
    choose_option(config, "encoder", &Config::encoder, folder, reason);
    return config;
}

Config with_head_noise(Config config) {
    if (config.head_noise == "auto" && rounds_weights(config))
        choose_option<std::string>(config, "head_noise", &Config::head_noise, kUsualNoise,
                                   "loses least, and is drawn once for all labels");
    return config;
}

Config with_plain_head(Config config) {
    constexpr OptionKey kModes[] = {"head_kahan", "weight_dropout", "head_rounding", "head_noise"};
    for (const OptionKey key : kModes) copy_option(config, Config(), key);
    return config;
}

}  // namespace elmo
