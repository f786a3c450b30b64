#include "rank/scored_rows.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/path_name.h"
#include "base/text_util.h"
#include "batches/batcher.h"
#include "config/resolve.h"
#include "elmo/error.h"
#include "io/checksum.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// The files of training and test rows.
Layout rows_of(Config config) {
    config.validation = "0";
    config.filter = "none";
    return find_layout(config);
}

bool have_equal_bytes(const fs::path& a, const fs::path& b) {
    std::error_code error;
    return fs::file_size(a, error) == fs::file_size(b, error) && !error && hash_file(a) == hash_file(b);
}

bool is_own_data(const Layout& layout, const Config& config, const Config& of_run) {
    if (is_named_by_run(config, of_run)) return true;
    const bool same_name = path_name(config.data) == path_name(of_run.data);
    std::error_code error;
    fs::path own;
    try {
        own = files_with_nothing_held_out(of_run).train.labels;
    } catch (const Error&) {  // the run came from elsewhere, or its data is gone
        return same_name;
    }
    if (layout.train.labels.empty() || own.empty()) return false;
    // From another folder than that of the training its path may lead to another file.
    return (same_name && fs::path(of_run.data).is_relative()) ||
           fs::equivalent(layout.train.labels, own, error) || have_equal_bytes(layout.train.labels, own);
}

// Where the rows that are asked for are not there.
std::string advice(const ReadOptions& reading, const Dataset& dataset, SplitName asked) {
    if (asked != SplitName::kValidation) return "give data that has them, or score others with --split";
    if (const double share = parse_validation(reading).share; share > 0)
        return fmt::format(
            "a share of {} holds out none of {}: train with a larger --validation, or give rows as "
            "--validation FILE",
            share, counted(dataset.train().rows(), "training row"));
    return "train with --validation above 0, or give rows as --validation FILE";
}

// A copy of the run's training file without the test rows that it had beside it. The run's own data has none
// if they were never there, or are gone: then rows to score are asked for.
bool is_copy_without_test_rows(const Config& config, const Config& of_run) {
    return !is_named_by_run(config, of_run) && rows_of(config).test.labels.empty();
}

}  // namespace

bool is_named_by_run(const Config& config, const Config& of_run) {
    std::error_code error;
    const std::string named = original_value(config, "data");
    return named == of_run.data || fs::equivalent(named, of_run.data, error);
}

Layout files_with_nothing_held_out(Config config) {
    config.test_share = 0;
    return rows_of(std::move(config));
}

Config with_scored_split(Config config, const Config& of_run, bool known) {
    if (config.split == "all") return with_nothing_held_out(std::move(config));
    if (config.split != "auto") return config;
    const Layout layout = files_with_nothing_held_out(config);
    const bool own = known || is_own_data(layout, config, of_run);
    const auto choose_test = [&](const char* reason) {
        choose_option<std::string>(config, "split", &Config::split, "test", reason);
    };
    if (own && !known && is_copy_without_test_rows(config, of_run))
        return with_all_rows(std::move(config), kNothingHeldOut);
    if (known)
        choose_test("most of the data's rows trained the run: those that it held out");
    else if (own && elmo::given(config, "test_share") && config.test_share > 0 &&
             config.test_share != of_run.test_share)
        choose_test("test_share is given");
    else if (own)
        choose_test(are_held_out_otherwise(config, of_run) ? kHeldOutOtherwise : kOwnData);
    else if (given(config, "test_share") && config.test_share > 0)
        choose_test("test_share is given");
    else if (!layout.test.labels.empty())
        choose_test(kOwnTestRows);
    else
        return with_all_rows(std::move(config), kOtherData);
    return config;
}

Config with_nothing_held_out(Config config) {
    const char* reason = "all rows are scored";
    choose_option(config, "test_share", &Config::test_share, 0.0, reason);
    choose_option<std::string>(config, "validation", &Config::validation, "0", reason);
    return config;
}

Config with_all_rows(Config config, const std::string& reason) {
    choose_option<std::string>(config, "split", &Config::split, "all", reason);
    return with_nothing_held_out(std::move(config));
}

bool is_own_data(const Config& config, const Config& of_run) {
    return is_own_data(files_with_nothing_held_out(config), config, of_run);
}

bool is_runs_own_split(const Config& config, const Config& of_run) {
    for (const OptionKey key :
         {OptionKey("test_share"), OptionKey("validation"), OptionKey("seed"), OptionKey("equal_texts")})
        if (original_value(config, key) != get_option(of_run, key)) return false;
    return config.split != "all" && is_own_data(config, of_run);
}

bool is_test_file_of_run(const Config& config, const Config& of_run) {
    const fs::path file = files_with_nothing_held_out(config).train.labels;
    fs::path own;
    try {
        own = files_with_nothing_held_out(of_run).test.labels;
    } catch (const Error&) {  // the run came from elsewhere, or its data is gone
    }
    std::error_code error;
    return !own.empty() && (fs::equivalent(file, own, error) || have_equal_bytes(file, own));
}

bool are_held_out_otherwise(const Config& config, const Config& of_run) {
    if (config.text_column == of_run.text_column || config.split == "all" || config.split == "train")
        return false;
    const Layout layout = rows_of(config);
    return layout.format >= DataFormat::kTsv && layout.splits_by_hash() && is_own_data(config, of_run);
}

std::vector<SplitName> splits_for(SplitChoice choice) {
    switch (choice) {
        case SplitChoice::kAuto:
        case SplitChoice::kTest:
            return {SplitName::kTest};
        case SplitChoice::kTrain:
            return {SplitName::kTrain};
        case SplitChoice::kValidation:
            return {SplitName::kTrain, SplitName::kValidation};
        case SplitChoice::kAll:
            break;
    }
    return {std::begin(kAllSplits), std::end(kAllSplits)};
}

std::vector<ScoredRows> choose_rows(const ReadOptions& reading, const Dataset& dataset) {
    const auto whole = [&](SplitName name) {
        const Split& split = dataset.split(name);
        return ScoredRows{&split, name, all_rows(split.rows())};
    };
    std::vector<ScoredRows> parts;
    const SplitName asked = splits_for(reading.split).back();
    if (reading.split == SplitChoice::kAll) {
        for (const SplitName name : kAllSplits) parts.push_back(whole(name));
    } else if (asked == SplitName::kValidation && !dataset.validation().present && dataset.train().present) {
        // Validation rows without a file of their own are among the training rows.
        const Split& train = dataset.train();
        parts.push_back(
            {&train, SplitName::kTrain, split_validation(reading, train.rows(), train.tokens).validation});
    } else {
        parts.push_back(whole(asked));
    }
    std::erase_if(parts, [](const ScoredRows& part) { return part.rows.empty(); });
    if (parts.empty())
        throw DataError(fmt::format("{}: expected {} rows to score, found none; {}", reading.data_name,
                                    name_of(asked), advice(reading, dataset, asked)));
    return parts;
}

}  // namespace elmo
