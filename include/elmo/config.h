// The complete configuration of a run: one struct, one list of options (options.def), and the ways in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace elmo {

struct Config {
#define ELMO_OPTION(type, key, default_value, group, verbs, help) type key = default_value;
#include "elmo/api.h"
#include "elmo/options.def"
#undef ELMO_OPTION
};

// What is known of one option besides its value.
struct OptionInfo {
    std::string_view key;
    std::string_view type;  // "string", "integer", "number", "switch"
    std::string_view group;
    std::string_view verbs;
    std::string_view help;
    std::string default_value;
};

// All options, in the order of options.def.
ELMO_API const std::vector<OptionInfo>& options();
// The flag of a key: "batch_size" -> "--batch-size".
ELMO_API std::string flag_of(std::string_view key);

// Sets one key from text. ConfigError for an unknown key (with the nearest) or a malformed value;
// `where` opens the message, for example "recipe.toml:12".
ELMO_API void set_option(Config& config, std::string_view key, std::string_view value,
                         std::string_view where = {});
// The value of a key as text that set_option takes back exactly.
ELMO_API std::string get_option(const Config& config, std::string_view key);

// Applies a recipe (TOML, flat keys) on top of `config`: a file, or one of builtin_recipes() by name.
ELMO_API void load_recipe(Config& config, const std::filesystem::path& path);
// The recipes of the source tree's recipes/ by name (without .toml) and text, ordered by name.
struct BuiltinRecipe {
    std::string_view name, text;
};
ELMO_API const std::vector<BuiltinRecipe>& builtin_recipes();
// The whole configuration as a recipe that load_recipe takes back exactly, grouped and commented.
ELMO_API std::string to_recipe(const Config& config);

// Checks values that can be judged without data: ranges, names of modes. ConfigError names key and range.
ELMO_API void validate(const Config& config);

}  // namespace elmo
