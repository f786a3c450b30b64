// `train`: checks what was asked for, resolves it, then runs the trainer of its encoder.
#include "elmo/train.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "data/kept_input.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "engine/precision.h"
#include "ranks/collectives.h"
#include "run/early_checks.h"
#include "run/resolve.h"
#include "train/linear_trainer.h"
#include "train/trainer.h"

namespace elmo {
namespace {

constexpr int kMostLowered = 3;
constexpr double kLoweredBy = 5;

// Trains; after a collapse, again from the last checkpoint with a lower learning rate, as on_collapse says.
TrainResult run_lowering(const Context& context, RunFolder& folder, Config config) {
    std::int64_t taken_up = -1;    // the step of the last return
    std::optional<RunState> best;  // of what a collapse ended: it may have gone further than what is taken up
    for (int lowered = 0;; ++lowered) {
        try {
            Trainer trainer(context, folder, config);
            config = trainer.config();
            if (best) trainer.keep_best(*best);
            return trainer.run();
        } catch (const Collapse& collapse) {
            const bool frozen = config.freeze_encoder;
            const double rate = frozen ? config.head_lr : config.encoder_lr;
            const char* key = frozen ? "head_lr" : "encoder_lr";
            if (config.on_collapse == "stop" || lowered == kMostLowered)
                throw NumericError(fmt::format(
                    "{}; {} is {:g}: lower it, or lengthen warmup_steps, and train again; nothing was saved "
                    "over the last checkpoint",
                    collapse.what(), key, rate));
            folder.take_up();
            if (folder.checkpoint() != nullptr && folder.checkpoint()->state().step == taken_up)
                folder.start_over();  // a checkpoint that collapsed twice is not a good start
            best.reset();
            if (folder.checkpoint() != nullptr && std::filesystem::exists(folder.best()))
                best = Checkpoint(folder.path(), "best", Checkpoint::Check::kAllButHead).state();
            taken_up = folder.checkpoint() == nullptr ? -1 : folder.checkpoint()->state().step;
            const std::string from =
                folder.checkpoint() == nullptr
                    ? std::string("the beginning")
                    : fmt::format("the checkpoint of step {}", folder.checkpoint()->state().step);
            context.warning(fmt::format("{}; starting again from {} with {} {:g} instead of {:g}",
                                        collapse.what(), from, key, rate / kLoweredBy, rate));
            const std::string reason = fmt::format("lowered from {:g}: training had collapsed", rate);
            if (frozen)
                choose_option(config, "head_lr", &Config::head_lr, Auto<double>(rate / kLoweredBy), reason);
            else
                choose_option(config, "encoder_lr", &Config::encoder_lr, Auto<double>(rate / kLoweredBy),
                              reason);
        }
    }
}

}  // namespace

TrainResult train(const Context& given_context, const Config& call) {
    validate(call);
    if (!call.resume && !call.init.empty()) require_other_folder(call.init, call.out);
    if (!call.resume && is_encoder_folder(call.encoder)) require_other_folder(call.encoder, call.out);
    Config given = call;
    Ranks& ranks = ranks_of(given_context);
    if (ranks.size() > 1 && given.data == "-")
        throw ConfigError("data: standard input reaches one rank only; give a file or a folder");
    std::optional<RunFolder> folder;
    {
        const FirstRankFirst in_turn(ranks);
        folder.emplace(given_context, given);
        given = folder->with_begun(std::move(given));
        if (given.resume && folder->checkpoint() == nullptr && given.data.empty())
            throw ConfigError(
                fmt::format("resume: {} has no checkpoint to continue from; give DATA to train it from the "
                            "beginning",
                            folder->path().string()));
        if (ranks.is_first()) check_before_import(given_context, given);  // tries to write there
    }
    given = with_kept_input(given_context, std::move(given));
    folder->keep_recipe(given);
    Config config =
        resolve_before_data(given_context.with_threads(given.threads), given, folder->checkpoint());
    config.ranks = 1;  // of a plan; the launcher says how many there are
    const Context context = given_context.with_threads(config.threads);
    if (folder->checkpoint() != nullptr &&
        original_value(config, "validation") != folder->checkpoint()->config().validation)
        context.warning(
            fmt::format("validation: the run had {}, and goes on with {}: best/ is chosen by other rows "
                        "unless they are the "
                        "same",
                        folder->checkpoint()->config().validation, original_value(config, "validation")));
    if (folder->checkpoint() != nullptr)
        context.info(fmt::format("continuing {} after step {} of {}", folder->path().string(),
                                 folder->checkpoint()->state().step,
                                 folder->checkpoint()->state().total_steps));
    if (ranks.size() > 1 && (config.encoder == kLinearEncoder || config.precision == "renee"))
        throw ConfigError(fmt::format(
            "{} trains in one process, found {} ranks; start it without the launcher, or give {}",
            config.encoder == kLinearEncoder ? "encoder linear" : "precision renee", ranks.size(),
            config.encoder == kLinearEncoder ? "--encoder bag or a folder" : "another precision"));
    for (const UnusedOption& unused : unused_options(config))
        context.warning(fmt::format("{} has no effect with {}", unused.key, unused.with));
    const bool linear = config.encoder == kLinearEncoder;
    if (!linear) require_loss_scale(config, config.encoder_precision == "fp16" && !config.freeze_encoder);
    TrainResult result =
        linear ? train_linear(context, *folder, config) : run_lowering(context, *folder, config);
    if (std::filesystem::exists(folder->last())) folder->drop_recipe();
    return result;
}

}  // namespace elmo
