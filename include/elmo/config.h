// The complete configuration of a run: one struct, one list of options (options.def), the ways in, and where
// each value comes from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "elmo/api.h"

namespace elmo {

// A number that the program may choose: `auto` until the configuration is resolved (elmo/resolve.h).
struct AutoValue {};
inline constexpr AutoValue kAuto;

template <class T>
class ELMO_API Auto {
  public:
    Auto(AutoValue) {}
    Auto(T value) : value_(value) {}
    bool is_auto() const { return !value_; }
    // The number. std::logic_error while it is auto, so nothing can compute with a value that is not chosen
    // yet.
    operator T() const {
        if (!value_) throw std::logic_error("an option is still auto: resolve the configuration first");
        return *value_;
    }
    // The number, or another while it is auto.
    T value_or(T other) const { return value_.value_or(other); }
    friend bool operator==(const Auto& a, const Auto& b) { return a.value_ == b.value_; }
    template <class U>
    requires std::is_arithmetic_v<U>  // any number, so that no conversion competes
    friend bool operator==(const Auto& a, U b) { return a.value_ && *a.value_ == static_cast<T>(b); }

  private:
    std::optional<T> value_;
};

// What an option decides.
enum class OptionRole {
    kResult,    // the result of training
    kReading,   // which texts and labels are read from the data: affects the result, and users of a run take
                // it from the run
    kHarmless,  // where files are, and how fast: no result depends on it
    kOutput,    // what is written, answered and scored: no run depends on it
};

// Who set the value of an option.
enum class Origin {
    kDefault,
    kRun,     // the recipe that a run was trained with
    kChosen,  // the program, for an `auto`, a name or a shape
    kRecipe,
    kGiven,  // command line, or a program's own code
};

struct OptionSource {
    Origin origin = Origin::kDefault;
    std::string reason;         // for people: "recipe demo", "given on the command line"
    std::string value;          // what was set, as text: if the member differs now, it was assigned since
    std::string original = {};  // of a path to a copy that goes with the call: what it was copied from
    bool named_by_run = false;  // a path that was set, though only a run names it
};

struct ELMO_API Config {
    Config();  // all defaults
    // Defined in config.cpp: a copy of every option is too much code for each file that makes one.
    Config(const Config&);
    Config(Config&&) noexcept;
    Config& operator=(const Config&);
    Config& operator=(Config&&) noexcept;
    ~Config();

#define ELMO_OPTION(type, key, default_value, group, verbs, role) type key = default_value;
#define ELMO_CHOICE(key, default_value, group, verbs, role, ...) std::string key = default_value;
#include "elmo/options.def"
#undef ELMO_OPTION
#undef ELMO_CHOICE
    // By key, only for options that were not set by assigning the member. See given() and
    // reason_of().
    std::map<std::string, OptionSource, std::less<>> sources = {};
};

inline constexpr std::string_view kOptionKeys[] = {
#define ELMO_OPTION(type, key, default_value, group, verbs, role) #key,
#define ELMO_CHOICE(key, default_value, group, verbs, role, ...) #key,
#include "elmo/options.def"
#undef ELMO_OPTION
#undef ELMO_CHOICE
};

// The key of an existing option: any other text does not compile.
class ELMO_API OptionKey {
  public:
    consteval OptionKey(const char* key) : key_(key) {
        for (const std::string_view known : kOptionKeys)
            if (known == key_) return;
        throw "no option has this key";
    }
    constexpr operator std::string_view() const { return key_; }

  private:
    std::string_view key_;
};

// The description of one option.
struct OptionInfo {
    std::string_view key;
    std::string_view type;  // "string", "integer", "number", "switch"
    std::string_view group;
    std::string verbs;   // letters of the verbs that have it (options.def)
    std::string common;  // of those whose short help shows it
    OptionRole role;
    std::vector<std::string> choices;  // its possible values; empty if it is not a choice
    std::string_view help;
    std::string default_value;
};

// All options, in the order of options.def.
ELMO_API const std::vector<OptionInfo>& options();
// The flag of a key: "batch_size" -> "--batch-size".
ELMO_API std::string flag_of(std::string_view key);

// Sets one key from text; it counts as given. ConfigError for an unknown key (with the nearest) or a
// malformed value; the message starts with `where`, for example "recipe.toml:12".
ELMO_API void set_option(Config& config, std::string_view key, std::string_view value,
                         std::string_view where = {});
// The value of a key as text that set_option takes back exactly.
ELMO_API std::string get_option(const Config& config, std::string_view key);

// Whether this value was given: on the command line, in a recipe, or by assigning the member. Assigning the
// value that a member already has is not noticed; set_option is.
ELMO_API bool given(const Config& config, std::string_view key);
// Where the value comes from, for people: "default", "given on the command line", "the run's recipe".
ELMO_API std::string reason_of(const Config& config, std::string_view key);
// Records the source of the key's current value.
ELMO_API void mark_option(Config& config, std::string_view key, Origin origin, std::string reason);
// Sets the path, or the format, of a copy, in a form that elmo reads, of what somebody named. Recipes and
// logs keep that of the original: the copy goes with the call.
ELMO_API void set_copied(Config& config, std::string_view key, const std::string& copy,
                         const std::string& original);
// Whether what the key was set to is only what a run names, though its origin is another: then a run says
// where its data is no longer what it was.
ELMO_API void mark_named_by_run(Config& config, std::string_view key, bool by_run = true);
// The value of a key as recipes keep it: of a copied path that of the original.
ELMO_API std::string original_value(const Config& config, std::string_view key);
// Every option with its value and the reason for it, in the order of options().
struct OptionReason {
    std::string_view key;
    std::string value, reason;
};
ELMO_API std::vector<OptionReason> explain(const Config& config);

// With the usual number for every one that is still `auto`: what counts where no data is trained on, in
// prediction, plans and benches.
ELMO_API Config with_usual_numbers(Config config);

// Applies a recipe (TOML, flat keys) on top of `config`: a file, or one of builtin_recipes() by name. Its
// keys count as given.
ELMO_API void load_recipe(Config& config, const std::filesystem::path& path);
// The same for the text of a recipe; messages start with `name`.
ELMO_API void parse_recipe(Config& config, const std::string& text, const std::string& name);
// The recipes of the source tree's recipes/ by name (without .toml) and text, ordered by name.
struct BuiltinRecipe {
    std::string_view name, text;
};
ELMO_API const std::vector<BuiltinRecipe>& builtin_recipes();
// The whole configuration as a recipe that load_recipe takes back exactly, grouped and commented.
ELMO_API std::string to_recipe(const Config& config);

// Checks what can be checked without data: ranges, names of modes. ConfigError names key and range.
ELMO_API void validate(const Config& config);

}  // namespace elmo
