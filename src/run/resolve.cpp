#include "run/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "config/views.h"
#include "data/kept_input.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "elmo/plan.h"
#include "engine/full_length.h"
#include "engine/precision.h"
#include "engine/shapes.h"
#include "run/choices.h"
#include "run/run_data.h"
#include "run/run_folder.h"
#include "sources/known_paths.h"
#include "sources/layout.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// Below, a head in 8 bits saves nothing that a GPU is short of.
constexpr std::int64_t kLargeHeadBytes = std::int64_t{1} << 30;

// With what the first rows of the data answer, so that the recipe has it and users of the run read as it did.
// What is wrong with the data is left to whoever opens it, and to say what was detected.
Config with_detected_reading(Config config) {
    if (config.data.empty()) return config;
    Layout layout;
    try {
        layout = find_layout(config);
    } catch (const Error&) {
        return config;
    }
    for (const DetectedOption& option : layout.detected) {
        if (!option.of_every_file) {
            if (!given(config, option.key))
                mark_option(config, option.key, Origin::kChosen,
                            fmt::format("'{}' was found in the first rows of the data", option.value));
            continue;
        }
        set_option(config, option.key, option.value);
        mark_option(config, option.key, Origin::kChosen, std::string(kDetectedReason));
    }
    return config;
}

// What a run that starts from another one cannot choose, and what is its own.
constexpr OptionKey kOfInit[] = {"encoder", "tokenizer", "tokenizer_kind", "vocab_size", "width"};
constexpr OptionKey kNotOfInit[] = {"init", "device", "cpu_products", "shape", "eval_every"};

}  // namespace

Config with_cache_of_run(Config config, const Config& run, const Config& asked) {
    if (given(asked, "cache")) return config;
    copy_option(config, run, "cache");
    if (config.data.empty() || config.cache.empty() || !is_known_path(config, config.data))
        copy_option(config, Config(), "cache");
    return config;
}

Config with_init(Config config) {
    if (config.init.empty()) return config;
    for (const OptionKey key : kOfInit)
        if (is_of_call(config, key))  // the recipe of a run has them, whatever it started from
            throw ConfigError(fmt::format("init: encoder and tokenizer come from {}; leave {} out",
                                          config.init, flag_of(key)));
    const Checkpoint from(config.init, "best", Checkpoint::Check::kAllButHead);
    if (from.is_linear())
        throw ConfigError(
            fmt::format("init: {} is a linear model, which is solved for all rows at once and cannot be "
                        "trained on; train "
                        "a new one on the old and the new rows together, without --init",
                        config.init));
    refuse_vectors(from, "--init");
    const bool steps_of_run = !given(config, "epochs");
    const auto is_one_of = [](const auto& keys, std::string_view key) {
        return std::ranges::any_of(keys, [&](std::string_view one) { return one == key; });
    };
    for (const OptionInfo& option : options()) {
        const bool counts = option.role == OptionRole::kReading || option.role == OptionRole::kResult;
        const bool of_init = is_one_of(kOfInit, option.key);
        if (!counts || is_one_of(kNotOfInit, option.key) || (given(config, option.key) && !of_init)) continue;
        if (option.key == "steps" && !steps_of_run) continue;
        copy_option(config, from.config(), option.key);
    }
    forget_json_lines(config, from.config());
    if (const std::string& file = config.label_weights; !file.empty() && !given(config, "label_weights"))
        throw ConfigError(fmt::format(
            "label_weights: the run in {} was trained with the weights in '{}', a file that only the run "
            "names; a run may come from anybody: give --label-weights FILE, or --label-weights '' for none",
            config.init, quoted(file)));
    if (config.data.empty()) copy_option(config, from.config(), "data");
    const std::string reason = fmt::format("the run that init names, {}", config.init);
    choose_option(config, "encoder", &Config::encoder, from.folder().string(), reason);
    choose_option<std::string>(config, "tokenizer", &Config::tokenizer, "auto", reason);
    return config;
}

PrecisionChoice choose_precision(const Context& context, const Config& config, std::int64_t weights) {
    if (config.precision != "auto") return {config.precision, ""};
    if (config.head_rounding == "nearest") return {"bf16", "whose weights can be rounded to nearest"};
    if (config.device == "cuda" && 2 * weights > kLargeHeadBytes)
        return {kAuto8Bit, "8 bits per weight: half the memory of bf16 and about its quality"};
    if (config.max_memory.empty()) return {"bf16", "as nothing asks for less memory"};
    Config wide = config;
    wide.precision = "bf16";
    // What is to be said about the data was said.
    const std::int64_t needs = plan_memory(context.with_sinks(silent()), wide).total_bytes(),
                       has = parse_bytes(config.max_memory);
    if (needs <= has) return {"bf16", "which fits in max_memory"};
    return {kAuto8Bit, fmt::format("as bf16 would need {}, more than max_memory of {}", human_bytes(needs),
                                   human_bytes(has))};
}

Config with_precision(const Context& context, Config config, std::int64_t weights) {
    if (config.encoder == kLinearEncoder) return config;  // has no head
    if (config.precision == "auto") {
        const PrecisionChoice choice = choose_precision(context, config, weights);
        choose_option(config, "precision", &Config::precision, choice.precision,
                      std::string(kAutoReason) + choice.why);
    }
    config = with_head_noise(std::move(config));
    if (config.head_kahan == "auto")
        choose_option(config, "head_kahan", &Config::head_kahan, choose_head_kahan(config),
                      fmt::format("{}what precision {} with head_noise {} takes", kAutoReason,
                                  config.precision, config.head_noise));
    return config;
}

std::vector<std::string> choice_notes(const Config& config) {
    std::vector<std::string> notes;
    for (const OptionReason& option : explain(config))
        if (option.reason.rfind(kAutoReason, 0) == 0)
            notes.push_back(fmt::format("{} auto: {}, {}", option.key, option.value,
                                        option.reason.substr(kAutoReason.size())));
    return notes;
}

Config resolve_before_data(const Context& context, const Config& config, const Checkpoint* checkpoint) {
    // A continued run has its encoder in the checkpoint.
    const Config known =
        checkpoint != nullptr
            ? with_cache_of_run(with_stored_run(checkpoint->config(), config), checkpoint->config(), config)
            : with_detected_reading(with_encoder_folder(with_init(config)));
    return with_encoder_numbers(with_device(context, known));
}

Config resolve_without_data(const Context& context, const Config& config) {
    const Config known = with_usual_numbers(resolve_before_data(context, config, nullptr));
    const bool head_known = known.precision == "auto" && known.labels > 0;
    return with_precision(context, known, head_known ? known.labels * spec_without_data(known).width : 0);
}

Config resolve_training(const Context& context, const Config& call) {
    const Config given = with_kept_input(context, call);
    const auto resolve = [&](const Config& config, const Checkpoint* checkpoint) {
        if (checkpoint == nullptr && config.data.empty() && config.init.empty())
            return resolve_without_data(context, config);
        return RunData(context, resolve_before_data(context, config, checkpoint), checkpoint).config();
    };
    if (!given.resume || given.out.empty()) return resolve(given, nullptr);
    const RunFolder folder(context, given);
    return resolve(folder.with_begun(given), folder.checkpoint());
}

namespace {

// The encoder `auto` with the shape's width, unless the call asks for another encoder. That of a recipe does
// not count: its folder need not be on this machine.
Config with_encoder_of_shape(Config config, const NamedShape& shape) {
    const auto found = config.sources.find("encoder");
    const bool of_recipe = found != config.sources.end() && found->second.origin == Origin::kRecipe;
    if (config.encoder != "auto" && !of_recipe) return config;
    const auto choose = [&](const char* encoder, const std::string& reason) {
        choose_option<std::string>(config, "encoder", &Config::encoder, encoder, reason);
    };
    if (is_of_call(config, "width")) {
        choose("bag", fmt::format("auto: width was given, and {} of the shape has its own", shape.encoder));
        return config;
    }
    if (is_of_call(config, "vocab_size"))
        throw ConfigError(
            fmt::format("vocab_size: {} of shape {} has its own; leave --vocab-size out, or give "
                        "--encoder bag",
                        shape.encoder, shape.name));
    const std::string reason = fmt::format("shape {}: {}", shape.name, shape.encoder);
    choose("auto", reason);
    choose_option(config, "width", &Config::width, shape_encoder(shape, config).width, reason);
    return config;
}

}  // namespace

Config with_shape(Config config) {
    if (config.shape.empty()) return config;
    const NamedShape& shape = named_shape(config.shape);
    const std::string reason = fmt::format("shape {}", shape.name);
    const auto take = [&](OptionKey key, auto Config::*member, auto value) {
        if (!given(config, key))
            choose_option(config, key, member, std::decay_t<decltype(config.*member)>(value), reason);
    };
    take("labels", &Config::labels, shape.labels);
    take("batch_size", &Config::batch_size, shape.batch);
    take("max_length", &Config::max_length, shape.length);
    take("precision", &Config::precision, "bf16");
    return config.data.empty() ? with_encoder_of_shape(std::move(config), shape) : config;
}

Config resolve_plan(const Context& context, const Config& config) {
    const Config shaped = with_init(with_shape(config));
    if (shaped.data.empty()) return resolve_without_data(context, shaped);
    return RunData(context, resolve_before_data(context, shaped, nullptr), nullptr).config();
}

Config resolve_for_run(const std::string& run, const Config& config) {
    for (const fs::path& folder :
         {fs::path(run), fs::path(run) / config.checkpoint, fs::path(run) / "best", fs::path(run) / "last"}) {
        std::error_code error;
        // A pipe would hang; a link inside a run may lead anywhere.
        if ((folder != fs::path(run) && fs::is_symlink(folder, error)) ||
            fs::symlink_status(folder / "recipe.toml", error).type() != fs::file_type::regular)
            continue;
        try {
            const Config of_run = read_run_recipe(folder / "recipe.toml");
            return with_usual_numbers(with_cache_of_run(with_run_reading(config, of_run), of_run, config));
        } catch (const Error&) {
            continue;  // opening the checkpoint reports damage better
        }
    }
    return with_usual_numbers(config);
}

std::string known_path(const Config& resolved, std::string_view key) {
    const ReadOptions reading(resolved);
    const std::string path = get_option(resolved, key);
    const bool of_run = key == "data"   ? reading.data_of_run
                        : key == "test" ? reading.test_of_run
                                        : reading.validation_of_run;
    return of_run && !path.empty() && !is_known_path(reading, path) ? "" : path;
}

}  // namespace elmo
