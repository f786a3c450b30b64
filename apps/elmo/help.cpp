#include "help.h"

#include <fmt/format.h>

#include "elmo/elmo.h"

namespace elmo::cli {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kFlagWidth = 30;

struct Entry {
    std::string flag;  // "--batch-size INTEGER"
    std::string help;
    std::string default_value;
    bool common = true;  // in the short help
};

struct Group {
    std::string name;
    std::vector<Entry> entries;
};

std::string placeholder(const OptionInfo& option) {
    if (option.type == "switch") return "";
    if (option.type == "integer") return " INTEGER";
    return option.type == "number" ? " NUMBER" : " TEXT";
}

bool is_common(const Verb& verb, const OptionInfo& option) {
    return option.common.find(verb.letter) != std::string::npos ||
           option.common.find_first_of(verb.further_letters) != std::string::npos;
}

// A help text up to its first semicolon or full stop outside brackets: what the option is.
std::string first_clause(const std::string& help) {
    int depth = 0;
    for (std::size_t i = 0; i + 1 < help.size(); ++i) {
        depth += help[i] == '(' ? 1 : help[i] == ')' ? -1 : 0;
        if (depth == 0 && (help[i] == ';' || help[i] == '.') && help[i + 1] == ' ') return help.substr(0, i);
    }
    return help;
}

// The verb's flags by group, the groups in the order of the option list.
std::vector<Group> groups_of(const Verb& verb) {
    std::vector<Group> groups;
    const auto group = [&](std::string_view name) -> Group& {
        for (Group& known : groups)
            if (known.name == name) return known;
        return groups.emplace_back(Group{std::string(name), {}});
    };
    for (const ExtraFlag& flag : verb.extra)
        group(verb.name).entries.push_back(
            {fmt::format("--{}{}", flag.name, flag.is_switch ? "" : " TEXT"), flag.help, flag.default_value});
    group(verb.name).entries.push_back(
        {"--explain", "Print every option with its value and the reason for it, and exit", ""});
    for (const OptionInfo& option : options()) {
        if (!has_option(verb, option)) continue;
        std::string value = option.type == "switch" ? "" : option.default_value;
        for (const auto& [key, own] : verb.own_defaults)
            if (option.key == key) value = own;
        group(option.group)
            .entries.push_back({flag_of(option.key) + placeholder(option), std::string(option.help), value,
                                is_common(verb, option)});
    }
    Group& common = group("common");
    common.entries = {
        {"--recipe FILE", "Recipe (TOML), applied before --set and the flags; can be repeated", "", false},
        {"--set KEY=VALUE", "Set one option by its recipe key; can be repeated", "", false},
        {"--json", "Results as JSON on standard output", ""},
        {"-q, --quiet", "No progress, no messages but warnings and errors", ""},
        {"-v, --verbose", "More messages", "", false},
        {"-h, --help [all]", "This help, or with all every option in full", ""},
    };
    return groups;
}

// `text` in lines of kLineWidth, all but the first indented.
std::string wrapped(std::string_view text, std::size_t indent) {
    std::string out;
    std::size_t column = indent;
    while (!text.empty()) {
        const std::size_t space = text.find(' ');
        const std::string_view word = text.substr(0, space);
        if (column > indent && column + 1 + word.size() > kLineWidth) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        }
        if (column > indent) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
        text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    }
    return out;
}

std::string entry_text(const Entry& entry) {
    const std::string help =
        entry.default_value.empty() ? entry.help : fmt::format("{} [{}]", entry.help, entry.default_value);
    const std::string left = "  " + entry.flag;
    const std::string gap = left.size() + 2 > kFlagWidth ? "\n" + std::string(kFlagWidth, ' ')
                                                         : std::string(kFlagWidth - left.size(), ' ');
    return left + gap + wrapped(help, kFlagWidth) + "\n";
}

// Cells of a Markdown table must not hold a bar.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '|') out += '\\';
        out += c;
    }
    return out;
}

std::string markdown_of(const Verb& verb) {
    std::string out = fmt::format("## elmo {}\n\n{}.\n\n```\nelmo {} {}\n```\n\n", verb.name, verb.summary,
                                  verb.name, verb.usage);
    if (!verb.description.empty()) out += verb.description + "\n\n";
    for (const Argument& argument : verb.arguments)
        out += fmt::format("- `{}`: {}\n", argument.name, argument.help);
    out += "\nExamples:\n\n```sh\n";
    for (const Example& example : verb.examples)
        out += fmt::format("# {}\n{}\n", example.what, example.command);
    out += "```\n\n";
    for (const Group& group : groups_of(verb)) {
        if (group.name == "common") continue;
        out += fmt::format("| {} | default | |\n|---|---|---|\n", group.name);
        for (const Entry& entry : group.entries)
            out +=
                fmt::format("| `{}` | {} | {} |\n", entry.flag,
                            entry.default_value.empty() ? "" : fmt::format("`{}`", cell(entry.default_value)),
                            cell(entry.help));
        out += "\n";
    }
    return out;
}

}  // namespace

std::string help_text(const Verb& verb, HelpDepth depth) {
    std::string out =
        fmt::format("elmo {}: {}\n\nUsage: elmo {} {}\n", verb.name, verb.summary, verb.name, verb.usage);
    if (!verb.description.empty()) out += "\n" + wrapped(verb.description, 0) + "\n";
    if (!verb.arguments.empty()) out += "\nArguments:\n";
    for (const Argument& argument : verb.arguments) out += entry_text({argument.name, argument.help, ""});
    out += "\nExamples:\n";
    for (const Example& example : verb.examples)
        out += fmt::format("  # {}\n  {}\n", example.what, example.command);
    std::size_t shown = 0, all = 0;
    for (const Group& group : groups_of(verb)) {
        std::string entries;
        for (const Entry& entry : group.entries) {
            ++all;
            if (depth == HelpDepth::kCommon && !entry.common) continue;
            ++shown;
            entries += depth == HelpDepth::kAll
                           ? entry_text(entry)
                           : entry_text({entry.flag, first_clause(entry.help), entry.default_value});
        }
        if (!entries.empty()) out += fmt::format("\nOptions ({}):\n{}", group.name, entries);
    }
    if (shown < all)
        out += fmt::format(
            "\nThese are {} of {} options, in short: 'elmo {} --help all' lists every one in full.\n", shown,
            all, verb.name);
    return out;
}

std::string overview_text(const std::vector<Verb>& verbs) {
    std::string out =
        "elmo: extreme multi-label classification of text in low precision\n\nUsage: elmo VERB [arguments] "
        "[options]\n\nVerbs:\n";
    for (const Verb& verb : verbs) out += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
    out += "\nExamples:\n";
    for (const Verb& verb : verbs) out += fmt::format("  {}\n", verb.examples.front().command);
    out +=
        "\n'elmo VERB --help' shows the options that most people need, 'elmo VERB --help all' every one;\n"
        "'elmo --version' prints the version.\n"
        "Results go to standard output, messages to standard error. Exit status: 0 done, 1 failed, 2 wrong "
        "usage, 130 interrupted (training that has learnt something saves it and ends with 0).\n";
    return out;
}

std::string markdown(const std::vector<Verb>& verbs) {
    std::string out =
        "# The command line\n\n"
        "Generated from the option list by `tools/make_cli_docs.sh`; `elmo VERB --help all` prints the "
        "same.\n\n"
        "Results go to standard output, messages and progress to standard error. Exit status: 0 done, 1 "
        "failed, 2 wrong usage, 130 interrupted (training that has learnt something saves it and ends with "
        "0).\n\n"
        "Every option is a flag (`--batch-size 64`), a setting (`--set batch_size=64`) and a key of a recipe "
        "file\n"
        "(`batch_size = 64`). Recipes are applied first, then settings, then flags. "
        "`--flag=false`\n"
        "turns a switch off. Every verb also takes:\n\n"
        "| common | |\n|---|---|\n";
    for (const Group& group : groups_of(verbs.front()))
        if (group.name == "common")
            for (const Entry& entry : group.entries)
                out += fmt::format("| `{}` | {} |\n", entry.flag, entry.help);
    out += "\n";
    for (const Verb& verb : verbs) out += markdown_of(verb);
    out.pop_back();
    return out;
}

}  // namespace elmo::cli
