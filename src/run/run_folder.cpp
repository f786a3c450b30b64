#include "run/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text_util.h"
#include "config/option_table.h"
#include "config/resolve.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "io/atomic_file.h"
#include "io/atomic_folder.h"
#include "io/links.h"
#include "ranks/collectives.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kBegunRecipe = "recipe.toml";

constexpr std::array<std::string_view, 12> kOwn = {"calibration-best.json",
                                                   "calibration-last.json",
                                                   "index-best.safetensors",
                                                   "index-last.safetensors",
                                                   "best",
                                                   kLabelScoresFile,
                                                   "last",
                                                   "log.jsonl",
                                                   kBegunRecipe,
                                                   kRefineWork,
                                                   "scores.jsonl",
                                                   "tensorboard"};

// The first entry that is not a run's, or "".
std::string foreign_entry(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        // Temporaries of a killed writer start with a dot.
        if (std::find(kOwn.begin(), kOwn.end(), name) == kOwn.end() && name.rfind(".best.", 0) != 0 &&
            name.rfind(".last.", 0) != 0)
            return name;
    }
    return "";
}

[[noreturn]] void refuse_full(const fs::path& folder) {
    throw ConfigError(
        fmt::format("out: {} is not empty; give --overwrite to replace it, another folder, or --resume to "
                    "continue it (train, refine)",
                    folder.string()));
}

// Does not check whether the folder is empty: a cache inside it is made before the run.
bool holds_a_run(const fs::path& folder) {
    return std::any_of(kOwn.begin(), kOwn.end(), [&](std::string_view name) {
        std::error_code error;
        return fs::exists(fs::symlink_status(folder / name, error));
    });
}

// Whether training will not write it again: the last step's, or made of another run ('elmo labels' leaves no
// best step), where a run that died after its first validation has that step.
bool is_finished(const fs::path& checkpoint) {
    const RunState state = Checkpoint(checkpoint, "best", Checkpoint::Check::kAllButHead).state();
    return state.step == state.total_steps || state.best_step == 0;
}

}  // namespace

void refuse_links(const fs::path& run) {
    for (const std::string_view name : kOwn) refuse_link(run / name);
}

void require_other_folder(const std::string& run, const std::string& out) {
    std::error_code error;
    for (const fs::path& read : {fs::path(run), fs::path(run) / ".."})
        if (!out.empty() && fs::equivalent(read, out, error))
            throw ConfigError(fmt::format("out: {} is the run that is read; give another folder", out));
}

RunFolder::RunFolder(const Context& context, const Config& config)
    : path_(config.out), overwrite_(config.overwrite), writes_(ranks_of(context).is_first()) {
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the run, found none; give --out RUN");
    std::error_code error;
    if (!fs::exists(path_, error)) {
        if (config.resume)
            throw ConfigError(
                fmt::format("resume: {} does not exist; start the run without --resume", path_.string()));
        return;
    }
    if (!fs::is_directory(path_, error))
        throw ConfigError(fmt::format("out: expected a folder, found the file {}", path_.string()));
    if (config.resume) {
        // A cache or a lock may be all that a run left that was stopped early.
        if (const std::string name = foreign_entry(path_);
            !name.empty() && !name.starts_with('.') && !holds_a_run(path_))
            throw ConfigError(
                fmt::format("resume: {} holds '{}' and no run; give the run's folder, or another "
                            "one without --resume",
                            path_.string(), quoted(name)));
        if (writes_) lock_.emplace(path_);  // before anything is read that its writer may replace
        refuse_links(path_);
        if (writes_) recover_folder(last());
        refuse_link(last());  // what was put back
        if (fs::exists(path_ / kRefineWork / "recipe.toml", error))
            throw ConfigError(fmt::format(
                "resume: {} holds an unfinished refinement; 'elmo refine RUN --out {} --resume' continues it",
                path_.string(), shell_word(path_.string())));
        if (fs::exists(last(), error))
            checkpoint_.emplace(last(), "last");
        else if (fs::exists(best(), error) && is_finished(best()))
            throw ConfigError(
                fmt::format("resume: {} is finished: it has a best checkpoint and none to continue from, as "
                            "'elmo refine' and 'elmo labels' leave it; train a new run, or refine this one",
                            path_.string()));
        else if (const bool begun = fs::exists(path_ / kBegunRecipe, error); begun || !config.data.empty())
            context.info(fmt::format("{} has no checkpoint yet: starting from the beginning{}",
                                     path_.string(),
                                     begun ? ", with the options that the training was started with" : ""));
        return;
    }
    if (fs::is_empty(path_, error)) return;
    if (!overwrite_) refuse_full(path_);
    if (const std::string name = foreign_entry(path_); !name.empty())
        throw ConfigError(
            fmt::format("overwrite: {} holds '{}', which is not part of a run; give another folder",
                        path_.string(), quoted(name)));
}

Config RunFolder::with_begun(Config given) const {
    std::error_code error;
    if (!given.resume || checkpoint_ || !fs::exists(path_ / kBegunRecipe, error)) return given;
    Config begun;
    load_recipe(begun, path_ / kBegunRecipe);
    for (const OptionInfo& option : options())
        if (elmo::given(begun, option.key) && !elmo::given(given, option.key))
            copy_option(given, begun, option.key);
    return given;
}

void RunFolder::keep_recipe(const Config& given) {
    recipe_ = "# elmo train --out RUN --resume trains with these options\n" + given_lines(given);
}

void RunFolder::drop_recipe() const {
    std::error_code error;
    if (writes_) fs::remove(path_ / kBegunRecipe, error);
}

void RunFolder::take_up() {
    overwrite_ = false;
    checkpoint_.reset();
    std::error_code error;
    if (fs::exists(last(), error)) checkpoint_.emplace(last(), "last");
}

void RunFolder::prepare() {
    if (!writes_) return;
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) throw DataError(fmt::format("{}: cannot be created: {}", path_.string(), error.message()));
    const bool resumes = lock_.has_value();
    if (!lock_) lock_.emplace(path_);
    // Another run may have been written here since the check: an import came in between.
    if (!overwrite_ && !resumes && holds_a_run(path_)) refuse_full(path_);
    for (const std::string_view name : kOwn) {
        if (!overwrite_) break;
        fs::remove_all(path_ / name, error);
        if (error)
            throw DataError(
                fmt::format("{}: cannot be removed: {}", (path_ / name).string(), error.message()));
    }
    if (!recipe_.empty() && !checkpoint_) write_file_atomically(path_ / kBegunRecipe, recipe_);
}

}  // namespace elmo
