// The list of options as code: the configuration, the description of each option, its value from and to text.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>

#include "base/text_util.h"
#include "config/option_table.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "elmo/synonyms.h"

namespace elmo {

Config::Config() = default;
Config::Config(const Config&) = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(const Config&) = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

namespace {

template <class Value>
std::string_view type_name() {
    if constexpr (std::is_same_v<Value, std::string>) return "string";
    if constexpr (std::is_same_v<Value, bool>) return "switch";
    if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, Auto<double>>) return "number";
    return "integer";
}

std::string to_text(const std::string& value) {
    return value;
}
std::string to_text(bool value) {
    return value ? "true" : "false";
}
// The shortest digits that read back as the same value.
template <class Number>
std::string to_text(Number value) {
    char buffer[64];
    const auto [end, status] = std::to_chars(buffer, buffer + sizeof buffer, value);
    return {buffer, end};
}

template <class Number>
std::string to_text(const Auto<Number>& value) {
    return value.is_auto() ? "auto" : to_text(static_cast<Number>(value));
}

// Each returns what was expected, or nullptr if the text was accepted.
const char* from_text(std::string_view text, std::string& value) {
    if (find_invalid_utf8(text) != std::string_view::npos) return "valid UTF-8";
    value = text;
    return nullptr;
}
const char* from_text(std::string_view text, bool& value) {
    if (text != "true" && text != "false") return "true or false";
    value = text == "true";
    return nullptr;
}
const char* from_text(std::string_view text, double& value) {
    double number = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc() || rest != text.data() + text.size() || !std::isfinite(number))
        return "a number";
    value = number;
    return nullptr;
}
// "500k", "2.8M": thousands and millions; nothing for other texts, and for what is not a whole number.
std::optional<std::int64_t> in_thousands(std::string_view text) {
    const double unit = text.ends_with('k') || text.ends_with('K') ? 1e3 : text.ends_with('M') ? 1e6 : 0;
    double number = 0;
    if (unit == 0 || from_text(text.substr(0, text.size() - 1), number) != nullptr) return std::nullopt;
    const double whole = std::round(number * unit);
    if (!(std::abs(whole) < 1e15) || std::abs(number * unit - whole) > 1e-6) return std::nullopt;
    return static_cast<std::int64_t>(whole);
}
template <class Integer>
const char* from_text(std::string_view text, Integer& value) {
    Integer number = 0;
    if (const auto large = in_thousands(text); large && (std::is_signed_v<Integer> || *large >= 0)) {
        value = static_cast<Integer>(*large);
        return nullptr;
    }
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc() || rest != text.data() + text.size())
        return std::is_signed_v<Integer> ? "an integer" : "an integer from 0 to 18446744073709551615";
    value = number;
    return nullptr;
}
template <class Number>
const char* from_text(std::string_view text, Auto<Number>& value) {
    Number number = 0;
    if (text == "auto")
        value = kAuto;
    else if (from_text(text, number) != nullptr)
        return std::is_integral_v<Number> ? "an integer or auto" : "a number or auto";
    else
        value = number;
    return nullptr;
}

// The letters of the verbs in options.def, all in small letters; those that are capitals there.
std::string small(std::string_view verbs) {
    std::string letters(verbs);
    for (char& letter : letters)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return letters;
}
std::string capitals(std::string_view verbs) {
    std::string letters;
    for (const char letter : verbs)
        if (letter >= 'A' && letter <= 'Z') letters += letter;
    return small(letters);
}

// Does not compile unless every option has a help text and every help text an option.
namespace help {
#define ELMO_HELP(key, text) constexpr const char* key = (static_cast<void>(&Config::key), text);
#include "config/options_help.def"
#undef ELMO_HELP
}  // namespace help

}  // namespace

const std::vector<OptionMember>& option_members() {
    static const std::vector<OptionMember> members = {
#define ELMO_OPTION(type, key, default_value, group, verbs, role) &Config::key,
#define ELMO_CHOICE(key, default_value, group, verbs, role, ...) &Config::key,
#include "elmo/options.def"
#undef ELMO_OPTION
#undef ELMO_CHOICE
    };
    return members;
}

const std::vector<OptionInfo>& options() {
    static const std::vector<OptionInfo> infos = {
#define ELMO_OPTION(type, key, default_value, group, verbs, role)                                 \
    {#key,      type_name<type>(),    group, small(verbs), capitals(verbs), OptionRole::role, {}, \
     help::key, to_text(Config().key)},
#define ELMO_CHOICE(key, default_value, group, verbs, role, ...)                              \
    {#key,          "string",  group,        small(verbs), capitals(verbs), OptionRole::role, \
     {__VA_ARGS__}, help::key, default_value},
#include "elmo/options.def"
#undef ELMO_OPTION
#undef ELMO_CHOICE
    };
    return infos;
}

std::string flag_of(std::string_view key) {
    std::string flag = "--" + std::string(key);
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}

std::size_t option_index(std::string_view key, std::string_view where) {
    const auto& infos = options();
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < infos.size(); ++i) {
        if (infos[i].key == key) return i;
        keys.emplace_back(infos[i].key);
    }
    std::string advice = key_meant_by(key, keys);
    if (advice.empty()) advice = did_you_mean(key, keys);
    throw ConfigError(fmt::format("{}unknown key '{}'{}", opening(where), quoted(key), advice));
}

std::string opening(std::string_view where) {
    return where.empty() ? "" : fmt::format("{}: ", where);
}

namespace {

// Option, what other programs call a value of it, and what it is here. Latin-1 is read as Windows-1252.
constexpr std::string_view kTheirValues[][3] = {{"device", "gpu", "cuda"},
                                                {"encoding", "utf8", "utf-8"},
                                                {"encoding", "UTF-8", "utf-8"},
                                                {"encoding", "latin1", "latin-1"},
                                                {"encoding", "cp1252", "latin-1"},
                                                {"encoding", "windows-1252", "latin-1"},
                                                {"encoding", "iso-8859-1", "latin-1"},
                                                {"delimiter", "\\t", "tab"},
                                                {"precision", "e4m3", "fp8"},
                                                {"precision", "bfloat16", "bf16"},
                                                {"precision", "float32", "fp32"}};

}  // namespace

void set_option(Config& config, std::string_view key, std::string_view value, std::string_view where) {
    for (const auto& [of, theirs, ours] : kTheirValues)
        if (key == of && value == theirs) value = ours;
    const OptionMember& member = option_members()[option_index(key, where)];
    const char* expected = std::visit([&](auto field) { return from_text(value, config.*field); }, member);
    if (expected != nullptr)
        throw ConfigError(
            fmt::format("{}{}: expected {}, found '{}'", opening(where), key, expected, quoted(value)));
    mark_option(config, key, Origin::kGiven, "given");
}

std::string get_option(const Config& config, std::string_view key) {
    const OptionMember& member = option_members()[option_index(key, {})];
    return std::visit([&](auto field) { return to_text(config.*field); }, member);
}

}  // namespace elmo
