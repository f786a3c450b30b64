// Recipes: TOML files of flat keys, the same keys as the flags.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <type_traits>

#include "base/text_util.h"
#include "config/option_table.h"
#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

constexpr std::size_t kMaxRecipeBytes = 1 << 20;
// Each point of a dotted key is one more level of tables, which the TOML library frees by recursion; it
// bounds brackets itself. Flat keys need points only for fractions and in paths.
constexpr std::ptrdiff_t kMaxPoints = 10000;

std::string read_recipe(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path))
        throw DataError(fmt::format("{}: expected a recipe file, found a folder", path.string()));
    std::ifstream in(path, std::ios::binary);
    if (!in) throw DataError(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
    std::string text(kMaxRecipeBytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad()) throw DataError(fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno)));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

// The file, or the built-in recipe of that name where there is no such file (a folder of that name is none:
// the demonstration leaves one called demo).
std::string find_recipe(const std::filesystem::path& path) {
    const std::string name = path.string();
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored))
        return read_recipe(path);
    std::vector<std::string> names;
    for (const BuiltinRecipe& recipe : builtin_recipes()) {
        if (recipe.name == name) return std::string(recipe.text);
        names.emplace_back(recipe.name);
    }
    const std::string near = did_you_mean(name, names);
    if (!std::filesystem::exists(path, ignored) && (!near.empty() || !path.has_extension()))
        throw DataError(fmt::format(
            "{}: neither a file nor a built-in recipe{}", name,
            near.empty() ? fmt::format("; these are built in: {}", fmt::join(names, ", ")) : near));
    return read_recipe(path);  // says why not
}

std::string_view found_type(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::array:
            return "an array";
        case toml::node_type::string:
            return "a string";
        case toml::node_type::integer:
            return "an integer";
        case toml::node_type::floating_point:
            return "a number with a fraction";
        case toml::node_type::boolean:
            return "true or false";
        default:
            return "a date or time";
    }
}

// The value as the text that set_option takes, or the type that the option expects.
struct Converted {
    std::string text;
    const char* expected = nullptr;
};

Converted convert(const toml::node& node, const OptionMember& member) {
    return std::visit(
        [&](auto field) -> Converted {
            using Value = std::decay_t<decltype(Config().*field)>;
            if constexpr (std::is_same_v<Value, std::string>) {
                if (const auto* value = node.as_string()) return {value->get()};
                return {{}, "a string in quotes"};
            } else if constexpr (std::is_same_v<Value, bool>) {
                if (const auto* value = node.as_boolean()) return {value->get() ? "true" : "false"};
                return {{}, "true or false"};
            } else if constexpr (std::is_same_v<Value, double>) {
                if (const auto* value = node.as_floating_point()) return {fmt::format("{}", value->get())};
                if (const auto* value = node.as_integer()) return {std::to_string(value->get())};
                return {{}, "a number"};
            } else if constexpr (std::is_same_v<Value, Auto<double>>) {
                if (const auto* value = node.as_floating_point()) return {fmt::format("{}", value->get())};
                if (const auto* value = node.as_integer()) return {std::to_string(value->get())};
                if (const auto* value = node.as_string(); value != nullptr && value->get() == "auto")
                    return {"auto"};
                return {{}, "a number or \"auto\""};
            } else if constexpr (std::is_same_v<Value, Auto<std::int64_t>>) {
                if (const auto* value = node.as_integer()) return {std::to_string(value->get())};
                if (const auto* value = node.as_string(); value != nullptr && value->get() == "auto")
                    return {"auto"};
                return {{}, "an integer or \"auto\""};
            } else {
                if (const auto* value = node.as_integer()) return {std::to_string(value->get())};
                // TOML integers end at 2^63 - 1: a larger unsigned value is written in quotes.
                if constexpr (std::is_unsigned_v<Value>)
                    if (const auto* value = node.as_string()) return {value->get()};
                return {{}, "an integer"};
            }
        },
        member);
}

std::string toml_string(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\u{:04X}", byte);
        } else {
            out += c;
        }
    }
    return out + "\"";
}

std::string toml_value(const Config& config, std::string_view key, const OptionMember& member) {
    std::string text = original_value(config, key);
    if (std::holds_alternative<std::string Config::*>(member)) return toml_string(text);
    if (const auto* field = std::get_if<std::uint64_t Config::*>(&member))
        return config.*(*field) >> 63 ? toml_string(text) : text;
    if (text == "auto") return toml_string(text);
    const bool is_number = std::holds_alternative<double Config::*>(member) ||
                           std::holds_alternative<Auto<double> Config::*>(member);
    if (is_number && text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
}

}  // namespace

void load_recipe(Config& config, const std::filesystem::path& path) {
    parse_recipe(config, find_recipe(path), path.string());
}

void parse_recipe(Config& config, const std::string& text, const std::string& name) {
    if (text.size() > kMaxRecipeBytes)
        throw DataError(fmt::format("{}: expected a recipe of at most 1 MiB, found a larger file", name));
    if (find_invalid_utf8(text) != std::string::npos)
        throw ConfigError(fmt::format("{}: expected UTF-8, found other bytes", name));
    if (const auto points = std::count(text.begin(), text.end(), '.'); points > kMaxPoints)
        throw ConfigError(
            fmt::format("{}: expected flat keys, at most {} points in all, found {}; is this a recipe?", name,
                        kMaxPoints, points));
    Config result = config;  // all of the recipe or nothing
    try {
        const toml::table table = toml::parse(text, name);
        for (auto&& [key, node] : table) {
            const std::string where = fmt::format("{}:{}", name, key.source().begin.line);
            if (node.is_table())
                throw ConfigError(
                    fmt::format("{}: expected flat keys, found the section '{}'; write its keys without it",
                                where, quoted(key.str())));
            const std::size_t index = option_index(key.str(), where);
            const Converted value = convert(node, option_members()[index]);
            if (value.expected != nullptr)
                throw ConfigError(fmt::format("{}: {}: expected {}, found {}", where, key.str(),
                                              value.expected, found_type(node)));
            set_option(result, key.str(), value.text, where);
            mark_option(result, key.str(), Origin::kRecipe, fmt::format("recipe {}", name));
        }
    } catch (const toml::parse_error& error) {
        throw ConfigError(
            fmt::format("{}:{}: not valid TOML: {}", name, error.source().begin.line, error.description()));
    }
    config = result;
}

std::string recipe_line(const Config& config, std::string_view key) {
    return fmt::format("{} = {}\n", key, toml_value(config, key, option_members()[option_index(key, {})]));
}

std::string given_lines(const Config& config) {
    std::string lines;
    for (const OptionInfo& option : options())
        if (given(config, option.key) && option.key != "out" && option.key != "resume" &&
            option.key != "overwrite")
            lines += recipe_line(config, option.key);
    return lines;
}

std::string to_recipe(const Config& config) {
    std::string out;
    std::string_view group;
    const auto& infos = options();
    for (std::size_t i = 0; i < infos.size(); ++i) {
        if (infos[i].group != group) {
            group = infos[i].group;
            out += fmt::format("{}# ---- {}\n", out.empty() ? "" : "\n", group);
        }
        out += fmt::format("# {}\n{}", infos[i].help, recipe_line(config, infos[i].key));
    }
    return out;
}

}  // namespace elmo
