// The steps of resolving a configuration that need neither data nor a model. The order is: defaults, the
// recipe of a run that is used or continued, recipes, what was given; then names and autos. src/run/resolve.h
// has the rest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/config.h"

namespace elmo {

// What numbers usually are, where nothing is known that asks for others.
inline constexpr std::int64_t kUsualLength = 128, kUsualBatch = 128;
inline constexpr double kUsualEvalEvery = 1;
inline constexpr double kUsualEpochs = 10, kUsualHeadLr = 0.05, kUsualDropout = 0.5;

// Shards of a batch for that many ranks: every rank has one, and later runs may have twice as many. Groups of
// labels likewise, and more for many labels, of 131,072 each: they cost little. 1 for one rank.
std::int64_t usual_shards(std::int64_t ranks);
std::int64_t usual_groups(std::int64_t ranks, std::int64_t labels);

// The value of one option, and where it comes from.
void copy_option(Config& to, const Config& from, std::string_view key);
// Sets an option that the program chooses.
template <class T>
void choose_option(Config& config, OptionKey key, T Config::*member, const T& value, std::string reason) {
    config.*member = value;
    mark_option(config, key, Origin::kChosen, std::move(reason));
}

// ConfigError for the threshold of best F1, -1, among probabilities that are not calibrated.
void refuse_best_of_raw(double threshold, const std::string& probabilities);

// The recipe that a run was trained with: its values count as the run's, not as given.
Config read_run_recipe(const std::filesystem::path& file);
// The same for its text; messages start with `name`.
Config parse_run_recipe(const std::string& text, const std::string& name);

// JSON lines are recognised, and rows from memory are copied to them: that a run's data had this format says
// nothing about other data.
void forget_json_lines(Config& config, const Config& of_run);

// For users of a run: training settled how data is read and scored, so options that are not given come from
// its recipe: the paths of the data, every option of role kReading, the seed (which chooses validation
// rows), and propensities, unless `like` asks for another project's.
Config with_run_reading(Config config, const Config& of_run);

// Whether another value of the option makes other results: not of role kHarmless and kOutput, but for
// recompute = compressed or compact.
bool changes_results(const OptionInfo& option, const std::string& was, const std::string& value);

// The configuration of a continued run: the stored one, and what was given of role kHarmless and kOutput.
// ConfigError when an option that changes results was given with another value than the run has. `auto` means
// the run's own value if the run stores it.
Config with_stored_run(const Config& stored, const Config& given);

// Whether the option was given, and not by a recipe, which may have been made for other data.
bool is_of_call(const Config& config, std::string_view key);

// Whether an encoder's weights may have AdamW's state in 8 bits: those that are BF16, with compensation.
bool has_compensated_weights(const Config& config);

// Without the modes that a head's step may have besides its precision: compensation, weight dropout, another
// rounding or noise.
Config with_plain_head(Config config);
// The noise that auto is, where weights are rounded: a run says which it had, whatever auto is later.
Config with_head_noise(Config config);

// With the encoder that `auto` stands for, or the folder of one that is named as in the Hugging Face cache.
// Without data, `auto` beside a shape is the shape's encoder and stays. ConfigError where the call gives what
// the encoder of a folder has of its own.
Config with_encoder_folder(Config config);

// Options that were given and do nothing beside others: `with` says which. Linear has none of gradient steps,
// but for those on how texts are read.
struct UnusedOption {
    std::string_view key;
    std::string with;
};
std::vector<UnusedOption> unused_options(const Config& config);

}  // namespace elmo
