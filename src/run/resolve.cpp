#include "run/resolve.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "config/resolve.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "elmo/plan.h"
#include "engine/precision.h"
#include "engine/shapes.h"
#include "model/encoder/encoder_spec.h"
#include "run/run_folder.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kAutoReason = "auto: ";

// The recipe of a run may name any folder: it is used only if it already is a cache.
Config with_true_cache(Config config, const Config& asked) {
    if (!given(asked, "cache") && !holds_a_cache(config.cache)) copy_option(config, Config(), "cache");
    return config;
}

// The rate for weights from scratch destroys pretrained weights: MiniLM on WordNet relations reached P@1 3.4
// with 1e-3, and 48.3 with 2e-4.
constexpr double kPretrainedLr = 2e-4, kFreshLr = 1e-3;

Config with_precision(const Context& context, Config config) {
    if (config.precision == "auto") {
        const PrecisionChoice choice = choose_precision(context, config);
        choose_option(config, "precision", &Config::precision, choice.precision,
                      std::string(kAutoReason) + choice.why);
    }
    if (config.head_kahan == "auto")
        choose_option(config, "head_kahan", &Config::head_kahan, choose_head_kahan(config),
                      fmt::format("{}what precision {} with head_noise {} takes", kAutoReason,
                                  config.precision, config.head_noise));
    return config;
}

}  // namespace

PrecisionChoice choose_precision(const Context& context, const Config& config) {
    if (config.precision != "auto") return {config.precision, ""};
    if (config.device == "cuda")
        return {kAuto8Bit, "8 bits per weight: half the memory of bf16 and about its quality"};
    if (config.max_memory.empty()) return {"bf16", "as no max_memory asks for less"};
    Config wide = config;
    wide.precision = "bf16";
    const std::int64_t needs = plan_memory(context, wide).total_bytes(), has = parse_bytes(config.max_memory);
    if (needs <= has) return {"bf16", "which fits in max_memory"};
    return {kAuto8Bit, fmt::format("as bf16 would need {}, more than max_memory of {}", human_bytes(needs),
                                   human_bytes(has))};
}

std::string precision_note(const Config& config) {
    const std::string reason = reason_of(config, "precision");
    if (reason.rfind(kAutoReason, 0) != 0) return "";
    return fmt::format("precision auto: {}, {}", config.precision, reason.substr(kAutoReason.size()));
}

Config with_chosen_numbers(Config config) {
    if (config.encoder_lr.is_auto()) {
        const bool bag = config.encoder == "bag",
                   pretrained = !bag && has_encoder_weights(InputFolder(config.encoder));
        choose_option(config, "encoder_lr", &Config::encoder_lr,
                      Auto<double>(pretrained ? kPretrainedLr : kFreshLr),
                      std::string(kAutoReason) + (bag          ? "the bag encoder starts from scratch"
                                                  : pretrained ? "the encoder has pretrained weights"
                                                               : "the encoder starts from scratch"));
    }
    return config;
}

Config resolve_training(const Context& context, const Config& config, const Checkpoint* checkpoint) {
    // A continued run has its encoder in the checkpoint.
    const Config known = checkpoint != nullptr
                             ? with_true_cache(with_stored_run(checkpoint->config(), config), config)
                             : with_encoder_folder(config);
    return with_precision(context, with_chosen_numbers(known));
}

Config resolve_training(const Context& context, const Config& config) {
    if (!config.resume || config.out.empty()) return resolve_training(context, config, nullptr);
    const RunFolder folder(context, config);
    return resolve_training(context, config, folder.checkpoint());
}

Config with_shape(Config config) {
    if (config.shape.empty()) return config;
    const NamedShape& shape = named_shape(config.shape);
    const std::string reason = fmt::format("shape {}", shape.name);
    const auto take = [&](OptionKey key, std::int64_t Config::*member, std::int64_t value) {
        if (!given(config, key)) choose_option(config, key, member, value, reason);
    };
    take("labels", &Config::labels, shape.labels);
    take("batch_size", &Config::batch_size, shape.batch);
    take("max_length", &Config::max_length, shape.length);
    return config;
}

Config resolve_plan(const Context& context, const Config& config) {
    return resolve_training(context, with_shape(config), nullptr);
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
            return with_true_cache(with_run_reading(config, read_run_recipe(folder / "recipe.toml")), config);
        } catch (const Error&) {
            continue;  // opening the checkpoint reports damage better
        }
    }
    return config;
}

}  // namespace elmo
