#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "elmo/dataset.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/ranks.h"
#include "elmo/resolve.h"
#include "elmo/synonyms.h"
#include "help.h"
#include "launch.h"
#include "output.h"

namespace elmo::cli {
namespace {

constexpr const char* kOnCommandLine = "given on the command line";

struct Flag {
    std::string key;
    CLI::Option* option;
};

// What the words were declared to be, and what was found.
struct Parsed {
    std::vector<Flag> flags;
    std::vector<std::string> recipes, settings;
    bool help = false, quiet = false, verbose = false;
};

// CLI11 sorts words into flags and arguments; values, checks, help and the wording of errors are ours.
void declare(CLI::App& app, const Verb& verb, Parsed& parsed, Invocation& invocation) {
    app.set_help_flag();
    app.allow_extras();
    app.add_flag("-h,--help", parsed.help);
    app.add_flag("--json", invocation.json);
    app.add_flag("-q,--quiet", parsed.quiet);
    app.add_flag("-v,--verbose", parsed.verbose);
    app.add_flag("--explain", invocation.explain);
    app.add_option("--recipe", parsed.recipes)->allow_extra_args(false);
    app.add_option("--set", parsed.settings)->allow_extra_args(false);
    app.add_option("words", invocation.words);
    for (const ExtraFlag& flag : verb.extra) {
        if (flag.is_list) {
            app.add_option(fmt::format("--{}", flag.name), invocation.lists[flag.name])
                ->allow_extra_args(false);
            continue;
        }
        std::string& value = invocation.extra[flag.name] = flag.default_value;
        if (flag.is_switch)
            app.add_flag_callback(fmt::format("--{}", flag.name), [&value] { value = "true"; });
        else
            app.add_option(fmt::format("--{}", flag.name), value);
    }
    for (const OptionInfo& option : options()) {
        if (!has_option(verb, option)) continue;
        const std::string name = flag_of(option.key);
        CLI::Option* flag =
            option.type == "switch" ? app.add_flag(name) : app.add_option(name)->type_name("value");
        parsed.flags.push_back({std::string(option.key), flag->take_last()});
    }
}

// The error of a flag that the verb does not have: an option of other verbs, or a slip.
[[noreturn]] void unknown_flag(const Verb& verb, std::string_view word) {
    const std::string flag(word.substr(0, word.find('=')));
    std::vector<std::string> known = {"--help",    "--json",   "--quiet", "--verbose",
                                      "--explain", "--recipe", "--set"};
    for (const ExtraFlag& extra : verb.extra) known.push_back(fmt::format("--{}", extra.name));
    bool of_others = false;
    for (const OptionInfo& option : options()) {
        if (has_option(verb, option)) known.push_back(flag_of(option.key));
        of_others |= flag_of(option.key) == flag;
    }
    std::string advice = flag_meant_by(flag, known);
    if (of_others) usage_error(verb, fmt::format("flag '{}' does not belong to this verb{}", flag, advice));
    if (advice.empty()) advice = did_you_mean(flag, known);
    usage_error(verb, fmt::format("unknown flag '{}'{}", quoted(flag), advice));
}

void apply_setting(Config& config, const Verb& verb, const std::string& setting) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
        usage_error(verb, fmt::format("--set: expected key=value, found '{}'", quoted(setting)));
    const std::string key = setting.substr(0, equals);
    set_option(config, key, setting.substr(equals + 1), "--set");
    mark_option(config, key, Origin::kGiven, kOnCommandLine);
}

void check_words(const Verb& verb, const std::vector<std::string>& words) {
    if (words.size() > verb.max_words)
        usage_error(verb, fmt::format("unexpected argument '{}'{}; usage: elmo {} {}",
                                      quoted(words[verb.max_words]), verb.too_many, verb.name, verb.usage));
    if (words.size() < verb.min_words)
        usage_error(verb, fmt::format("{} is missing; usage: elmo {} {}", verb.arguments[words.size()].name,
                                      verb.name, verb.usage));
}

// A word as a shell would take it back.
std::string shell_word(const std::string& word) {
    const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

}  // namespace

bool has_option(const Verb& verb, const OptionInfo& option) {
    return option.verbs.find(verb.letter) != std::string_view::npos ||
           option.verbs.find_first_of(verb.further_letters) != std::string_view::npos;
}

void usage_error(const Verb& verb, std::string_view message) {
    throw ConfigError(fmt::format("{}; see 'elmo {} --help'", message, verb.name));
}

void require_data(const Verb& verb, const std::string& run, const Config& config) {
    std::error_code error;
    if (!config.data.empty()) {
        // The library says what became of rows from memory.
        if (!std::filesystem::exists(config.data, error) && !is_row_folder(config.data))
            throw DataError(
                fmt::format("{}: no such file or folder; give the data set as DATA (left out, it is the one "
                            "that the run names, from where the run was trained)",
                            config.data));
        return;
    }
    if (!std::filesystem::exists(run, error))
        throw DataError(fmt::format("{}: expected the folder of a run, found nothing", run));
    if (!std::filesystem::is_directory(run, error))
        throw DataError(
            fmt::format("{}: expected the folder of a run, found a file; the run comes first: "
                        "elmo {} RUN DATA",
                        run, verb.name));
    const std::filesystem::path folder = run;
    if (!std::filesystem::exists(folder / config.checkpoint, error) &&
        !std::filesystem::exists(folder / "manifest.json", error))
        throw DataError(fmt::format("{}: expected a checkpoint '{}', found none; has this run saved one yet?",
                                    run, config.checkpoint));
    usage_error(verb, fmt::format("DATA is missing; usage: elmo {} RUN DATA", verb.name));
}

bool parse(const Verb& verb, int argc, char** argv, Invocation& invocation) {
    CLI::App app;
    Parsed parsed;
    declare(app, verb, parsed, invocation);
    invocation.command = "elmo";
    for (int i = 0; i < argc; ++i) invocation.command += " " + shell_word(argv[i]);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        usage_error(verb, error.what());
    }
    if (parsed.help) {
        const std::vector<std::string>& words = invocation.words;
        const bool all = std::find(words.begin(), words.end(), "all") != words.end();
        if (launched_as().rank == 0)
            write_stdout(help_text(verb, all ? HelpDepth::kAll : HelpDepth::kCommon));
        return false;
    }
    for (const std::string& word : app.remaining()) unknown_flag(verb, word);
    if (parsed.quiet && parsed.verbose) usage_error(verb, "--quiet and --verbose exclude each other");
    const std::string first_word = invocation.words.empty() ? "" : invocation.words[0];
    if (!takes_part(verb.name, first_word)) return false;
    invocation.context = launched_context(verb.name, first_word,
                                          terminal(parsed.quiet     ? LogLevel::kQuiet
                                                   : parsed.verbose ? LogLevel::kDebug
                                                                    : LogLevel::kInfo));
    check_words(verb, invocation.words);

    Config& config = invocation.config;
    if (verb.defaults != nullptr) verb.defaults(invocation);
    for (const std::string& recipe : parsed.recipes) load_recipe(config, recipe);
    for (const std::string& setting : parsed.settings) apply_setting(config, verb, setting);
    for (const Flag& flag : parsed.flags) {
        if (flag.option->count() == 0) continue;
        set_option(config, flag.key, flag.option->results().back());
        mark_option(config, flag.key, Origin::kGiven, kOnCommandLine);
    }
    if (const std::size_t at = verb.data_word != nullptr ? verb.data_word(invocation) : std::string::npos;
        at < invocation.words.size()) {
        for (const Flag& flag : parsed.flags)
            if (flag.key == "data" && flag.option->count() > 0)
                usage_error(verb,
                            fmt::format("--data {} names the data, and so does '{}'; leave one of them out",
                                        flag.option->results().back(), invocation.words[at]));
        set_option(config, "data", invocation.words[at]);
        mark_option(config, "data", Origin::kGiven, kOnCommandLine);
    }
    // With the data, of which it depends what is taken over from the run.
    if (verb.starts_from_run && !invocation.words.empty() && config.predictions.empty())
        config = resolve_for_run(invocation.words[0], config);
    validate(invocation.config);
    limit_silence(invocation.config.rank_timeout);
    return true;
}

}  // namespace elmo::cli
