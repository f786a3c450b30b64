// Messages of the library on their way to Python. The library words them for the program: flags become
// keyword arguments, commands calls, and files that hold rows for the time of a call are those rows, or what
// they are copies of.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <string_view>

#include "elmo/config.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

struct FileNames {
    std::string train, test;
};

// By the folder's name, while it is there.
std::map<std::string, FileNames> g_copied;
std::string g_temporary;  // where such folders are, of the last one
std::mutex g_copied_mutex;

// What the rows of a folder are copies of; "" where they are from memory.
std::string file_of_rows(const std::string& folder, bool test) {
    const std::lock_guard lock(g_copied_mutex);
    const auto found = g_copied.find(folder);
    return found == g_copied.end() ? "" : test ? found->second.test : found->second.train;
}

// Folders of rows without the path to them, which may have blanks and apostrophes.
std::string without_temporary(std::string message) {
    const std::lock_guard lock(g_copied_mutex);
    if (g_temporary.empty()) return message;
    const std::string begin = g_temporary + "/elmo-rows-";
    for (std::size_t at = 0; (at = message.find(begin, at)) != message.npos;)
        message.erase(at, g_temporary.size() + 1);
    return message;
}

// Files that hold rows for the time of a call, and what a run calls them later, say nothing to anybody; their
// lines are the rows.
std::string with_named_rows(const std::string& original) {
    if (original.find("elmo-rows-") == original.npos)
        return original;  // nearly all; std::regex is not for long ones
    const std::string message = without_temporary(original);
    static const std::regex file(
        R"([^\s']*(elmo-rows-(?:[0-9a-f]{32}|[0-9a-f]{16}|[0-9A-Za-z]{6})(?![\w-]|\.\w)))"
        R"((?:/(train|test)\.jsonl(?::(\d{1,15}))?)?)");
    std::string result;
    auto rest = message.cbegin();
    for (std::sregex_iterator match(message.begin(), message.end(), file), end; match != end; ++match) {
        result.append(rest, (*match)[0].first);
        const bool test = (*match)[2] == "test";
        const std::string copied = file_of_rows((*match)[1], test);
        result += !copied.empty() ? copied : test ? "test rows from memory" : "rows from memory";
        if ((*match)[3].matched) result += "[" + std::to_string(std::stoll((*match)[3]) - 1) + "]";
        rest = (*match)[0].second;
    }
    return result.append(rest, message.cend());
}

bool is_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

const OptionInfo* find_option(std::string_view key) {
    for (const OptionInfo& option : options())
        if (option.key == key) return &option;
    return nullptr;
}

// The key of the flag that begins here: "--batch-size" is batch_size. Empty where none does.
std::string key_of_flag(std::string_view text) {
    if (!text.starts_with("--") || text.size() < 3 || !is_letter(text[2])) return "";
    std::string key;
    for (const char c : text.substr(2)) {
        if (!is_letter(c) && c != '-') break;
        key += c == '-' ? '_' : c;
    }
    return key;
}

// A value behind a flag: how long it is, and how Python writes it.
struct Written {
    std::size_t length;
    std::string text;
};

// Nothing where the text goes on without one: "name it with --label-column, or ...". What is neither in
// quotes nor a number, a word of the option, a placeholder or an obvious name is taken for the sentence going
// on.
std::optional<Written> value_of(const OptionInfo& option, std::string_view text, bool after_another) {
    if (!text.starts_with(' ')) return std::nullopt;
    const std::size_t shell = text.substr(1).starts_with("$'") ? 1 : 0;  // $'\n'
    if (text.substr(1 + shell).starts_with('\'')) {
        const std::size_t end = text.find('\'', 2 + shell);
        if (end == text.npos) return std::nullopt;
        return Written{end + 1, std::string(text.substr(1 + shell, end - shell))};
    }
    if (text.starts_with(" \"")) {
        const std::size_t end = text.find('"', 2);
        return end == text.npos ? std::nullopt
                                : std::optional(Written{end + 1, std::string(text.substr(1, end))});
    }
    std::string_view word = text.substr(1, text.find(' ', 1) - 1);
    const bool before_another = text.substr(1 + word.size()).starts_with(" --");
    while (!word.empty() && std::string_view(",;.:?)'").find(word.back()) != std::string_view::npos)
        word.remove_suffix(1);
    if (word.empty() || word.front() == '-' || word.front() == '(' || word == "and" || word == "or")
        return std::nullopt;
    const bool is_number = word.find_first_not_of("0123456789.") == word.npos;
    const bool is_placeholder = std::isupper(static_cast<unsigned char>(word.front())) != 0 &&
                                (word.size() == 1 || std::isupper(static_cast<unsigned char>(word[1])) != 0);
    constexpr std::array<std::string_view, 7> kUsual = {
        "none", "list", "bag", "linear", "numpy", "onnx", "sentence-transformers"};
    const bool is_name =
        std::find(kUsual.begin(), kUsual.end(), word) != kUsual.end() ||
        std::find(option.choices.begin(), option.choices.end(), word) != option.choices.end() ||
        word.find_first_of("+,./*") != word.npos || before_another || after_another;
    if (!is_number && !is_placeholder && !is_name) return std::nullopt;
    const bool bare = is_number || is_placeholder;
    return Written{1 + word.size(), bare ? std::string(word) : "'" + std::string(word) + "'"};
}

// The keyword argument of the flag that begins here, and how long flag and value are. Nothing for what is no
// option.
std::optional<Written> argument_of(std::string_view text, bool after_another) {
    const std::string key = key_of_flag(text);
    if (key == "set" && text.find('=') != text.npos) return Written{6, ""};  // "--set key=value"
    static const OptionInfo to{.key = "to", .type = "string"};  // of export, whose own argument it is
    const OptionInfo* option = key == "to" ? &to : find_option(key);
    if (option == nullptr) return std::nullopt;
    const std::size_t length = 2 + key.size();
    if (text.substr(length).starts_with('\'')) return Written{length, key};  // named, not given
    if (option->type == "switch") return Written{length, key + "=True"};
    if (const auto value = value_of(*option, text.substr(length), after_another))
        return Written{length + value->length, key + "=" + value->text};
    return Written{length, key};
}

// "elmo calibrate RUN --label-thresholds" as the call run.calibrate(label_thresholds=True). Nothing where
// Python has no such call: the package brings the program along.
std::optional<std::string> call_of(std::string_view command) {
    if (command == "elmo predict RUN --vectors FILE") return "run.predict_vectors(vectors)";
    constexpr std::pair<std::string_view, std::string_view> kVerbs[] = {
        {"calibrate", "calibrate"}, {"eval", "evaluate"}, {"index", "index"}, {"report", "report"}};
    command.remove_prefix(std::min(command.size(), std::string_view("elmo ").size()));
    const std::string_view verb = command.substr(0, command.find(' '));
    const auto known = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                    [&](const auto& one) { return one.first == verb; });
    if (known == std::end(kVerbs)) return std::nullopt;
    command.remove_prefix(verb.size());
    std::string run = "run", arguments;
    for (bool first = true; command.starts_with(' ');) {
        command.remove_prefix(1);
        std::string argument;
        if (command.starts_with("--")) {
            const auto found = argument_of(command, false);
            if (!found) return std::nullopt;
            argument = found->text;
            command.remove_prefix(found->length);
        } else {
            const std::string_view word = command.substr(0, command.find(' '));
            command.remove_prefix(word.size());
            if (first && word != "RUN") run = "elmo.Run('" + std::string(word) + "')";
            if (!first) argument = word;
            first = false;
        }
        if (!argument.empty()) arguments += (arguments.empty() ? "" : ", ") + argument;
    }
    if (!command.empty()) return std::nullopt;
    return run + "." + std::string(known->second) + "(" + arguments + ")";
}

// How long what is in quotes here is, with them; 0 where none are. Quotes inside of words are apostrophes.
std::size_t length_of_quoted(std::string_view text) {
    if (!text.starts_with('\'')) return 0;
    for (std::size_t end = 1; (end = text.find('\'', end)) != text.npos; ++end)
        if (end + 1 == text.size() || !is_letter(text[end + 1])) return end + 1;
    return 0;
}

// What stands here and is copied as it is: names, paths and labels of the user, in quotes or, with a slash,
// as a word. Flags and commands in quotes are the library's.
std::size_t length_of_given(std::string_view text, char before) {
    if (is_letter(before)) return 0;
    if (const std::size_t quoted = length_of_quoted(text)) {
        const std::string key = key_of_flag(text.substr(1));
        return key.empty() || 2 + key.size() + 2 != quoted ? quoted : 0;
    }
    const std::string_view word = text.substr(0, text.find(' '));
    return before == ' ' && word.find('/') != word.npos ? word.size() : 0;
}

std::string with_calls(std::string_view message) {
    std::string result;
    bool after_another = false;
    for (std::size_t at = 0; at < message.size();) {
        const std::string_view rest = message.substr(at);
        if (rest.starts_with("'elmo ")) {
            const std::size_t end = rest.find('\'', 1);
            const std::string_view command = rest.substr(1, end == rest.npos ? rest.npos : end - 1);
            if (end != rest.npos) {
                if (const auto call = call_of(command)) {
                    if (result.ends_with(" run ")) result.replace(result.size() - 4, 3, "call");
                    result += *call;
                } else {
                    result += rest.substr(0, end + 1);  // a command stays whole
                }
                at += end + 1;
                continue;
            }
        }
        if (const std::size_t given = length_of_given(rest, at == 0 ? ' ' : message[at - 1])) {
            result += rest.substr(0, given);
            at += given;
            after_another = false;
            continue;
        }
        const bool begins = at == 0 || (!is_letter(message[at - 1]) && message[at - 1] != '-');
        if (const auto argument = begins && rest.starts_with("--")
                                      ? argument_of(rest, after_another || result.ends_with("read with "))
                                      : std::nullopt) {
            result += argument->text;
            at += argument->length;
            after_another =
                argument->text.find('=') != std::string::npos && message.substr(at).starts_with(" --");
            if (after_another) {
                result += ", ";
                ++at;
            }
            continue;
        }
        constexpr std::string_view kData = "DATA";
        if (begins && rest.starts_with(kData) &&
            (rest.size() == kData.size() || !is_letter(rest[kData.size()])) &&
            (result.ends_with("give ") || result.ends_with("name ") || result.ends_with("leave "))) {
            result += "data";
            at += kData.size();
            continue;
        }
        result += message[at++];
        after_another = false;
    }
    return result;
}

}  // namespace

void name_copied_rows(const std::string& folder, std::string train, std::string test) {
    const std::filesystem::path path(folder);
    const std::lock_guard lock(g_copied_mutex);
    g_temporary = path.parent_path().string();
    g_copied[path.filename().string()] = {std::move(train), std::move(test)};
}

void forget_copied_rows(const std::string& folder) {
    const std::lock_guard lock(g_copied_mutex);
    g_copied.erase(std::filesystem::path(folder).filename().string());
}

std::string in_words_of_python(const std::string& message) {
    const std::string named = with_named_rows(message);
    for (const char* of_program : {"--", "'elmo ", " DATA"})
        if (named.find(of_program) != named.npos) return with_calls(named);
    return named;
}

}  // namespace elmo::python
