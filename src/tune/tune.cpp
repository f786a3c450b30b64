// The search: rounds of trials, each a training run that is scored on validation rows and kept as a line of
// its own file, so that a search that was stopped goes on where it was.
#include "elmo/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/said_once.h"
#include "config/encoder_folder.h"
#include "config/option_table.h"
#include "config/resolve.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/train.h"
#include "engine/engine.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/folder_lock.h"
#include "rank/scored_rows.h"
#include "run/checkpoint.h"
#include "run/choices.h"
#include "run/resolve.h"
#include "run/run_data.h"
#include "study/study_files.h"
#include "tune/budget.h"
#include "tune/candidates.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// The share of its epochs that a candidate trains for in each round.
constexpr double kRounds[] = {0.25, 0.5, 1};
// A fiftieth of the rows, which picks a checkpoint, is too few to compare runs by.
constexpr const char* kValidationShare = "0.1";
constexpr std::int64_t kUsualTrials = 16;

struct Trial {
    std::size_t candidate = 0, round = 0;
    double epochs = 0, trained = 0;  // as asked for, and as steps that are asked for make them
    double score = 0, seconds = 0;
};

nlohmann::json trial_json(const fs::path& file) {
    const nlohmann::json json = read_json(file);
    const auto has = [&](const char* key, auto is) { return json.contains(key) && is(json[key]); };
    const auto number = [](const nlohmann::json& value) { return value.is_number(); };
    const auto text = [](const nlohmann::json& value) { return value.is_string(); };
    if (!json.is_object() || !has("score", number) || !has("seconds", number) || !has("recipe", text))
        throw DataError(
            fmt::format("{}: expected a trial of a search; remove the file to run it again", file.string()));
    return json;
}

class Search {
  public:
    Search(const Context& context, const TuneRequest& request)
        : budget_(context, request.seconds),
          context_(budget_.context()),
          out_(request.config.out),
          data_(context_, complete(context_, request.config), nullptr),
          candidates_(make_candidates(request.config, data_.config(), data_.dataset().has_label_names(),
                                      *request.trials)) {
        if (!data_.has_validation())
            throw ConfigError(fmt::format(
                "validation: expected rows to compare candidates on, found {}; give a {}share, or "
                "rows as --validation FILE",
                defaults().validation == "0" ? "0" : "none in a share of " + defaults().validation,
                defaults().validation == "0" ? "" : "larger "));
    }

    // Trains what is left of the search; false where it had to stop.
    bool run() {
        std::vector<std::size_t> left(candidates_.size());
        for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
        for (std::size_t round = 0; round < std::size(kRounds); ++round) {
            std::vector<double> scores;
            for (const std::size_t candidate : left) {
                const std::optional<Trial> trial = run_trial(candidate, round);
                if (!trial) return false;
                scores.push_back(trial->score);
                trials_.push_back(*trial);
            }
            std::vector<std::size_t> next;
            for (const std::size_t i : survivors(scores)) next.push_back(left[i]);
            left = std::move(next);
        }
        ended_ = true;
        return true;
    }

    const std::vector<Trial>& trials() const { return trials_; }
    const Candidate& candidate(const Trial& trial) const { return candidates_[trial.candidate]; }
    const Config& defaults() const { return data_.config(); }
    // Of the last round in which another candidate compares with them; of the last one where all have ended.
    const Trial& of_defaults() const {
        const Trial* found = &trials_.front();
        for (const Trial& trial : trials_)
            if (trial.candidate == 0 && (ended_ || has_rival(trial))) found = &trial;
        return *found;
    }
    // The best of those that compare with the defaults.
    const Trial& best() const {
        const Trial* best = &of_defaults();
        for (const Trial& trial : trials_)
            if (compares(trial, of_defaults()) && trial.score > best->score) best = &trial;
        return *best;
    }
    // The compared trainings had all of their epochs.
    bool whole() const { return of_defaults().round + 1 == std::size(kRounds); }
    // "70.62, the defaults 69.80: a gain of 0.82", or why no gain is known.
    std::string verdict() const {
        const Trial &found = best(), &plain = of_defaults();
        const std::string scores = fmt::format("{:.2f}, the defaults {:.2f}", found.score, plain.score);
        if (whole()) return fmt::format("{}: a gain of {:.2f}", scores, found.score - plain.score);
        const Config part = trial_config(0, plain.round);
        const auto others = std::count_if(trials_.begin(), trials_.end(), [&](const Trial& trial) {
            return trial.round == plain.round && !compares(trial, plain);
        });
        return fmt::format(
            "{}, after {}{}: no gain is known before whole trainings", scores,
            part.steps > 0 ? fmt::format("{} of {} steps", part.steps, defaults().steps)
                           : fmt::format("{:.4g} of {:.4g} epochs", part.epochs, defaults().epochs),
            others == 0 ? ""
                        : fmt::format(" ({} with other epochs not compared)", counted(others, "candidate")));
    }

  private:
    // Of the data of a run to start from: others of its rows would have trained it.
    static bool has_validation_of_init(const Config& config) {
        if (config.init.empty()) return false;
        const Config of_run = Checkpoint(config.init, "best", Checkpoint::Check::kAllButHead).config();
        return of_run.validation != "0" && (config.data.empty() || is_named_by_run(config, of_run));
    }
    static Config complete(const Context& context, Config config) {
        const bool open = config.validation == Config().validation && !given(config, "validation");
        if (open && !has_validation_of_init(config)) config.validation = kValidationShare;
        if (config.encoder == kLinearEncoder)
            throw ConfigError(
                "encoder: tune searches what encoders trained in steps have, found linear; give bag or a "
                "folder");
        if (config.encoder == "auto" && config.init.empty()) {
            config.encoder = "bag";
            context.warning(
                "tune searches numbers of encoders that are trained in steps: it takes bag. On a CPU 'elmo "
                "train' takes the linear model, which has none of them and is often better: compare with it");
        }
        config.out.clear();
        config.resume = config.overwrite = false;
        return resolve_before_data(context, config, nullptr);
    }

    // A candidate with more epochs than the defaults has trained longer than they in every round but the
    // last.
    static bool compares(const Trial& trial, const Trial& defaults) {
        return trial.round == defaults.round &&
               (trial.epochs == defaults.epochs || trial.round + 1 == std::size(kRounds));
    }
    bool has_rival(const Trial& defaults) const {
        return std::any_of(trials_.begin(), trials_.end(), [&](const Trial& trial) {
            return trial.candidate != 0 && compares(trial, defaults);
        });
    }

    Config trial_config(std::size_t candidate, std::size_t round) const {
        Config config = with_changes(defaults(), candidates_[candidate]);
        if (config.steps > 0)
            config.steps = std::max<std::int64_t>(
                1, static_cast<std::int64_t>(kRounds[round] * static_cast<double>(config.steps)));
        else
            config.epochs = kRounds[round] * config.epochs;
        if (!given(config, "eval_every"))
            config.eval_every = usual_eval_every(config, data_.dataset().train().rows());
        return config;
    }

    // Trains, or takes what is there; nothing where the training had to stop.
    std::optional<Trial> run_trial(std::size_t candidate, std::size_t round) {
        Config config = trial_config(candidate, round);
        Trial trial{candidate, round, config.epochs, config.epochs};
        const std::string name = fmt::format("{}-{}", candidate, round), recipe = stored_recipe(config);
        const fs::path file = out_ / "trials" / (name + ".json"), run = out_ / "runs" / name;
        if (fs::exists(file)) return read_trial(file, config, trial);
        if (budget_.spent()) return std::nullopt;
        fs::create_directories(file.parent_path());
        fs::create_directories(run.parent_path());
        config.out = run.string();
        config.resume = fs::exists(run / "last");
        config.overwrite = !config.resume && fs::exists(run);
        context_.info(fmt::format("round {}, {}", round + 1, candidates_[candidate].name()));
        try {
            const TrainResult trained = train(context_, config);
            if (trained.interrupted) return std::nullopt;
            trial.score = trained.best_score;
            trial.seconds = trained.train_seconds;
            if (config.steps > 0) trial.trained = trained.epochs;
        } catch (const Interrupted&) {
            return std::nullopt;  // while it read the data
        }
        const nlohmann::ordered_json json = {{"score", trial.score},
                                             {"seconds", trial.seconds},
                                             {"epochs", trial.trained},
                                             {"recipe", recipe}};
        write_file_atomically(file, json_string(json, 1) + "\n");
        fs::remove_all(run);  // the score is what is wanted of it
        return trial;
    }

    static Trial read_trial(const fs::path& file, const Config& config, Trial trial) {
        const nlohmann::json json = trial_json(file);
        if (const std::string other = other_result(json["recipe"].get<std::string>(), config); !other.empty())
            throw ConfigError(
                fmt::format("out: {} {}; give the options of the search, another folder, or --overwrite to "
                            "search again",
                            file.string(), other));
        trial.score = json["score"].get<double>();
        trial.seconds = json["seconds"].get<double>();
        trial.trained = json.value("epochs", trial.trained);
        return trial;
    }

    Budget budget_;
    Context context_;
    fs::path out_;
    RunData data_;
    std::vector<Candidate> candidates_;
    std::vector<Trial> trials_;
    bool ended_ = false;
};

Study study_of(const Search& search, const TuneResult& result) {
    Study study;
    study.name = "tune";
    study.title = "Search for better numbers than the defaults";
    study.paragraphs = {
        fmt::format("Best{}: {}. {} on validation rows: {}.", result.whole ? "" : " so far", result.best,
                    result.select, result.verdict),
        "Each round trains what is left of the candidates for a larger share of their epochs, with the whole "
        "schedule, and keeps the better third and the defaults. So only whole trainings tell a gain: before "
        "them a candidate with more epochs has trained longer than the defaults. Test rows had no part in "
        "it. The best of many noisy scores is too high by chance: measure the recipe on the test rows to "
        "know the gain."};
    Table table{"trials",
                "One line per training.",
                {{"round", "round"},
                 {"candidate", "candidate"},
                 {"epochs", "epochs", search.defaults().steps > 0 ? 4 : 1},
                 {"score", result.select},
                 {"seconds", "training, s", 1}},
                {}};
    std::vector<Trial> trials = search.trials();
    std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
        return a.round != b.round ? a.round > b.round : a.score > b.score;
    });
    for (const Trial& trial : trials)
        table.rows.push_back({static_cast<std::int64_t>(trial.round + 1), search.candidate(trial).name(),
                              trial.trained, trial.score, trial.seconds});
    study.tables = {std::move(table)};
    return study;
}

// The numbers that were found, and what else the search was asked for that decides a result: with others they
// are numbers of another model. Not the rows that it validated on, which are more than a training needs, nor
// the format of its file, which is another one's where rows come from a program's memory.
std::string recipe_of(const Search& search, const Trial& best, const TuneResult& result,
                      const Config& asked) {
    std::string text = fmt::format("# Found by elmo tune in {}: {} on validation rows {}.\n",
                                   counted(result.trials, "training"), result.select, result.verdict);
    const Config found = with_changes(search.defaults(), search.candidate(best));
    std::vector<std::string_view> keys = {"encoder_lr", "head_lr", "dropout",   "epochs",
                                          "batch_size", "augment", "max_length"};
    for (const std::string_view key : keys) text += recipe_line(found, key);
    keys.insert(keys.end(), {"validation", "format"});
    Config rest = asked;
    if (rest.encoder == "auto" && rest.init.empty()) rest.encoder = found.encoder;
    for (const OptionInfo& option : options())
        if ((option.role == OptionRole::kResult || option.role == OptionRole::kReading) &&
            (given(rest, option.key) || get_option(rest, option.key) != option.default_value) &&
            std::find(keys.begin(), keys.end(), option.key) == keys.end())
            text += recipe_line(rest, option.key);
    return text;
}

fs::path begun_file(const Config& config) {
    return fs::path(config.out) / "trials" / "search.json";
}

// With what the search that is continued was begun with, where it is left out.
TuneRequest with_begun(TuneRequest request) {
    const fs::path file = begun_file(request.config);
    if (request.config.resume && fs::exists(file)) {
        const nlohmann::json json = read_json(file);
        if (!json.is_object() || !json.contains("trials") || !json["trials"].is_number_integer() ||
            !json.contains("options") || !json["options"].is_string())
            throw DataError(fmt::format(
                "{}: expected what a search was begun with; remove the file and give the options again",
                file.string()));
        Config begun;
        parse_recipe(begun, json["options"].get<std::string>(), file.string());
        // Files that only this one names are read where they were read before: it may come from anybody.
        for (const OptionKey key :
             {OptionKey("data"), OptionKey("test"), OptionKey("validation"), OptionKey("filter")})
            if (get_option(begun, key) != get_option(Config(), key))
                mark_option(begun, key, Origin::kRun, "the search that is continued");
        for (const OptionInfo& option : options())
            if (!given(request.config, option.key) && begun.sources.contains(option.key))
                copy_option(request.config, begun, option.key);
        if (!request.trials) request.trials = json["trials"].get<std::int64_t>();
    }
    if (!request.trials) request.trials = kUsualTrials;
    return request;
}

void keep_begun(const TuneRequest& request) {
    const fs::path file = begun_file(request.config);
    if (fs::exists(file)) return;
    fs::create_directories(file.parent_path());
    const nlohmann::ordered_json json = {{"trials", *request.trials},
                                         {"options", given_lines(request.config)}};
    write_file_atomically(file, json_string(json, 1) + "\n");
}

void check_folder(const Config& config) {
    if (config.data.empty() && config.init.empty())
        throw ConfigError("data: expected a data set (folder or file), found none");
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the search, found none; give --out FOLDER");
    if (fs::exists(config.out) && !fs::is_directory(config.out))
        throw ConfigError(fmt::format("out: expected a folder, found the file {}", config.out));
    if (fs::exists(fs::path(config.out) / "trials") && !config.overwrite && !config.resume)
        throw ConfigError(fmt::format(
            "out: {} holds a search already; give --overwrite, --resume or another folder", config.out));
}

}  // namespace

TuneResult tune(const Context& context, const TuneRequest& asked) {
    const TuneRequest request = with_begun(asked);
    validate(request.config);
    if (*request.trials < 1)
        throw ConfigError(fmt::format("trials: expected 1 or more, found {}", *request.trials));
    check_folder(request.config);
    require_device(context, request.config);
    const fs::path out = request.config.out;
    Search search(with_said_once(context, request.config.data), request);
    // Data that is refused leaves everything as it was.
    fs::create_directories(out);
    const FolderLock lock(out);
    if (request.config.overwrite)
        for (const char* made : {"trials", "runs"}) fs::remove_all(out / made);
    keep_begun(request);
    TuneResult result;
    result.interrupted = !search.run();
    result.select = search.defaults().select;
    result.trials = static_cast<std::int64_t>(search.trials().size());
    if (search.trials().empty()) return result;
    const Trial& best = search.best();
    result.best = search.candidate(best).name();
    result.best_score = best.score;
    result.default_score = search.of_defaults().score;
    result.whole = search.whole();
    result.verdict = search.verdict();
    result.recipe = (out / "recipe.toml").string();
    write_file_atomically(result.recipe, recipe_of(search, best, result, request.config));
    const StudyFiles files = write_study(study_of(search, result), provenance_now(request.command), out);
    result.html = files.html;
    result.tables = files.tables;
    return result;
}

}  // namespace elmo
