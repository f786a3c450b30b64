// The command line, once for all verbs: flags made from the options, recipes, --set, and the usage errors.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo::cli {

// A verb's call, as its function sees it.
struct Invocation {
    Context context;
    Config config;                             // defaults, the run's recipe, --recipe, --set, flags
    std::vector<std::string> words;            // the arguments that are not flags
    std::map<std::string, std::string> extra;  // flags that are not options of the library
    std::map<std::string, std::vector<std::string>> lists;  // those that may be given several times
    bool json = false, explain = false;
    std::string command;  // as it was typed
};

struct Argument {
    std::string name;  // "RUN"
    std::string help;
};

struct Example {
    std::string command;
    std::string what;
};

// A flag of one verb that is not an option of the library.
struct ExtraFlag {
    std::string name;  // without dashes
    std::string default_value;
    std::string help;
    bool is_switch = false;  // "true" when given, and takes no value
    bool is_list = false;    // may be given several times
};

struct Verb {
    std::string name;
    char letter;  // in the `verbs` column of options.def
    std::string summary;
    std::string usage;  // what follows "elmo <name>"
    std::vector<Argument> arguments;
    std::size_t min_words, max_words;
    bool starts_from_run;  // the first word is a run folder whose recipe holds the defaults
    std::vector<ExtraFlag> extra;
    std::vector<Example> examples;
    std::string description;
    void (*run)(Invocation& invocation);
    std::string further_letters = {};                    // verbs whose options it has too
    void (*defaults)(Invocation& invocation) = nullptr;  // sets what its options start from, given the words
    // The configuration that it would run with, for --explain; null if it is the invocation's own.
    Config (*resolve)(const Invocation& invocation) = nullptr;
    // Which word, where it is there, is DATA: it is the option `data`, given.
    std::size_t (*data_word)(const Invocation& invocation) = nullptr;
    std::string too_many = {};  // what is most likely meant where there are more words than it takes
    // Options whose default is another one here, for the help: key and value.
    std::vector<std::pair<std::string_view, std::string>> own_defaults = {};
};
inline std::size_t first_word(const Invocation&) {
    return 0;
}
inline std::size_t second_word(const Invocation&) {
    return 1;
}

// Whether the verb has this option.
bool has_option(const Verb& verb, const OptionInfo& option);

// Reports a wrong command line: ConfigError that ends in a pointer to --help.
[[noreturn]] void usage_error(const Verb& verb, std::string_view message);

// Checks that the data set to score a run on exists: the given one, or the one in the run's recipe. The error
// names what is missing, the run or its data.
void require_data(const Verb& verb, const std::string& run, const Config& config);

// Reads the arguments after the verb. Returns false after it printed the help that was asked for.
// ConfigError for anything unknown, malformed or out of range.
bool parse(const Verb& verb, int argc, char** argv, Invocation& invocation);

}  // namespace elmo::cli
