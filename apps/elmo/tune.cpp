// elmo tune: looks for better numbers than the defaults, and writes them as a recipe.
#include "elmo/tune.h"

#include <fmt/format.h>

#include <charconv>

#include "elmo/messages.h"
#include "elmo/resolve.h"
#include "output.h"
#include "stop_signal.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

// "90", "90s", "30m", "2h": seconds; -1 for anything else.
double parse_seconds(std::string_view text) {
    double unit = 1;
    if (!text.empty()) {
        const char last = text.back();
        if (last == 's' || last == 'm' || last == 'h') text.remove_suffix(1);
        if (last == 'm') unit = 60;
        if (last == 'h') unit = 3600;
    }
    double number = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = status == std::errc() && rest == text.data() + text.size();
    return whole && number > 0 ? number * unit : -1;
}

std::int64_t parse_trials(const std::string& text) {
    std::int64_t number = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    return status == std::errc() && rest == text.data() + text.size() ? number : -1;
}

std::string report(const TuneResult& result) {
    if (result.trials == 0) return "no training ended in time: --resume goes on, or give a larger --budget\n";
    std::string out = result.tables + "\n";
    out += aligned(Facts{{result.whole ? "best" : "best so far", result.best},
                         {fmt::format("{} on validation", result.select), result.verdict},
                         {"recipe", result.recipe},
                         {"page", result.html}});
    if (result.interrupted) out += "stopped early: continue with --resume\n";
    return out;
}

void run_tune(Invocation& call) {
    if (!call.words.empty()) call.config.data = call.words[0];
    if (call.config.out.empty()) usage_error(tune_verb(), "--out is missing: the folder to write to");
    TuneRequest request{call.config, {}, 0, call.command};
    if (const std::string& trials = call.extra.at("trials"); !trials.empty()) {
        request.trials = parse_trials(trials);
        if (*request.trials < 1)
            usage_error(tune_verb(),
                        fmt::format("--trials: expected a whole number above 0, found '{}'", quoted(trials)));
    }
    if (const std::string& budget = call.extra.at("budget"); !budget.empty()) {
        request.seconds = parse_seconds(budget);
        if (request.seconds < 0)
            usage_error(
                tune_verb(),
                fmt::format("--budget: expected a time such as 90s, 30m or 2h, found '{}'", quoted(budget)));
    }
    const TuneResult result = tune(call.context.with_stop(stop_on_signal()), request);
    if (call.json)
        write_json(result);
    else
        write_stdout(report(result));
    if (result.interrupted && result.trials == 0)
        throw Interrupted("tune: stopped before a training had ended; --resume continues");
}

Config resolve_tune(const Invocation& call) {
    Config config = call.config;
    if (!call.words.empty()) config.data = call.words[0];
    config.resume = false;
    return resolve_training(call.context, config);
}

}  // namespace

Verb tune_verb() {
    Verb verb = {
        "tune",
        'u',
        "Search for better numbers than the defaults, on validation rows",
        "[DATA] --out FOLDER [--budget 30m] [options]",
        {{"DATA",
          "Folder or file of the data set (also --data; when left out, with --resume the search's own, "
          "with --init the run's)"}},
        0,
        1,
        false,
        {{"budget", "", "Time after which no more is trained: 90s, 30m, 2h; no limit unless given"},
         {"trials", "", "Candidates of the first round: 16 unless given"}},
        {{"elmo tune data/wordnet --out tuned --budget 30m", "A search of half an hour"},
         {"elmo train data/wordnet --out runs/tuned --recipe tuned/recipe.toml", "Trains with what it found"},
         {"elmo tune --out tuned --budget 1h --resume", "Goes on for another hour"}},
        "Successive halving: candidates that differ from the defaults in encoder_lr, head_lr, "
        "dropout, epochs, batch_size or augment train for a quarter of their epochs, the better third "
        "for half, the best for all of them; the defaults are in every round. A search that stops before "
        "whole trainings "
        "compares candidates with the epochs of the defaults only, and tells no gain. What is given on the "
        "command line is not varied. A tenth of the training rows validates unless --validation says "
        "otherwise; of the data of the run that --init names, the rows that validated it. Test rows have no "
        "part in it. --resume goes on with the options that the search was begun with. Writes recipe.toml, "
        "study.html, study.csv and study.json to FOLDER.",
        run_tune,
        "t",
        nullptr,
        resolve_tune};
    verb.own_defaults = {{"validation", "0.1"}};
    return verb;
}

}  // namespace elmo::cli
