// Where values come from: who set an option, whether it was given, and the reasons that --explain prints.
#include "config/option_table.h"
#include "elmo/config.h"

namespace elmo {
namespace {

// The record of the key's current value; null if it was assigned, or never set.
const OptionSource* source_of(const Config& config, std::string_view key, const std::string& value) {
    const auto found = config.sources.find(key);
    return found == config.sources.end() || found->second.value != value ? nullptr : &found->second;
}

}  // namespace

bool given(const Config& config, std::string_view key) {
    const OptionInfo& option = options()[option_index(key, {})];
    const std::string value = get_option(config, key);
    if (const OptionSource* source = source_of(config, key, value))
        return source->origin == Origin::kGiven || source->origin == Origin::kRecipe;
    return config.sources.contains(option.key) || value != option.default_value;
}

std::string reason_of(const Config& config, std::string_view key) {
    if (const OptionSource* source = source_of(config, key, get_option(config, key))) return source->reason;
    return given(config, key) ? "given" : "default";
}

void mark_option(Config& config, std::string_view key, Origin origin, std::string reason) {
    const OptionInfo& option = options()[option_index(key, {})];
    config.sources.insert_or_assign(std::string(option.key),
                                    OptionSource{origin, std::move(reason), get_option(config, key)});
}

void set_copied(Config& config, std::string_view key, const std::string& copy, const std::string& original) {
    set_option(config, key, copy);
    mark_option(config, key, Origin::kGiven, "given");
    config.sources.find(key)->second.original = original;
}

void mark_named_by_run(Config& config, std::string_view key, bool by_run) {
    if (const auto found = config.sources.find(key); found != config.sources.end())
        found->second.named_by_run = by_run;
}

std::string original_value(const Config& config, std::string_view key) {
    std::string value = get_option(config, key);
    const OptionSource* source = source_of(config, key, value);
    return source == nullptr || source->original.empty() ? value : source->original;
}

std::vector<OptionReason> explain(const Config& config) {
    std::vector<OptionReason> reasons;
    for (const OptionInfo& option : options())
        reasons.push_back({option.key, get_option(config, option.key), reason_of(config, option.key)});
    return reasons;
}

}  // namespace elmo
