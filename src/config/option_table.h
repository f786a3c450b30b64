// The members of Config by number, in the order of options(): what loops over all options need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "elmo/config.h"

namespace elmo {

using OptionMember =
    std::variant<std::string Config::*, std::int64_t Config::*, std::uint64_t Config::*, double Config::*,
                 Auto<double> Config::*, Auto<std::int64_t> Config::*, bool Config::*>;

const std::vector<OptionMember>& option_members();

// The number of a key; ConfigError that suggests the nearest. The message starts with `where`.
std::size_t option_index(std::string_view key, std::string_view where);

// The line of a recipe that holds a key's value: "key = value\n".
std::string recipe_line(const Config& config, std::string_view key);

// The lines of all options that were given, but for where and how the output is written.
std::string given_lines(const Config& config);

// "recipe.toml:12: ", or "" for no place.
std::string opening(std::string_view where);

}  // namespace elmo
