// The list of studies, and running one.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "data/kept_input.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "io/folder_lock.h"
#include "study/engines.h"
#include "study/study_files.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

struct Entry {
    const char* name;
    const char* summary;
    Study (*run)(const Context&, const StudyRequest&);
};

constexpr Entry kStudies[] = {
    {"memory", "memory of a step by segment and phase, and the peak against the number of labels",
     memory_study},
    {"histogram", "exponents of weights, inputs and gradients of the classifier while it trains",
     histogram_study},
    {"chunks", "time and memory of a step against the number of chunks", chunks_study},
    {"bits", "scores against exponent and mantissa bits of the classifier's weights, a training run per cell",
     bits_study},
    {"paper",
     "the ELMO paper's tables and figures, ours beside the paper's: memory as planned, scores if there is "
     "data",
     paper_study},
};

const Entry& entry_of(const StudyRequest& request) {
    std::vector<std::string> names;
    for (const Entry& entry : kStudies) {
        if (request.name == entry.name) return entry;
        names.emplace_back(entry.name);
    }
    throw ConfigError(fmt::format("study: expected {}, found '{}'{}", fmt::join(names, ", "),
                                  quoted(request.name), did_you_mean(request.name, names)));
}

// With what the study takes where nothing is given. Those of the paper take a recipe for each run.
Config with_defaults(const Context& context, const Entry& entry, const StudyRequest& request) {
    Config config = request.config;
    if (config.encoder == kLinearEncoder)
        throw ConfigError(
            "encoder: a study is about encoders that are trained in steps, found linear; give bag or a "
            "folder");
    if (entry.run == paper_study) return config;
    const auto choose = [&](OptionKey key, std::string Config::*member, const char* value,
                            const char* reason) {
        choose_option<std::string>(config, key, member, value, reason);
    };
    if (entry.run == memory_study && config.data.empty() && config.labels == 0 && config.shape.empty())
        choose("shape", &Config::shape, "amazon-3m", "what study memory plans where nothing is named");
    const bool has_shape = !config.shape.empty() && config.data.empty();  // and so an encoder
    if (config.encoder == "auto" && !has_shape)
        choose("encoder", &Config::encoder, "bag", "a study is about encoders that are trained in steps");
    if (entry.run == bits_study && config.head_kahan == "auto")
        choose("head_kahan", &Config::head_kahan, "0", "study bits compares formats alone");
    return with_kept_input(context, std::move(config));
}

}  // namespace

std::vector<StudyInfo> studies() {
    std::vector<StudyInfo> all;
    for (const Entry& entry : kStudies) all.push_back({entry.name, entry.summary});
    return all;
}

std::string setting(const StudyRequest& request, const std::string& name) {
    const auto found = request.settings.find(name);
    return found == request.settings.end() ? "" : found->second;
}

std::vector<std::int64_t> numbers_or(const StudyRequest& request, const std::string& name, std::int64_t least,
                                     std::vector<std::int64_t> defaults) {
    const std::string text = setting(request, name);
    if (text.empty()) return defaults;
    std::vector<std::int64_t> values;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        std::int64_t value = 0;
        const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || stop != word.data() + word.size() || value < least)
            throw ConfigError(
                fmt::format("{}: expected whole numbers of at least {} separated by commas, found '{}'", name,
                            least, quoted(word)));
        if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
        begin = end + 1;
    }
    return values;
}

std::vector<std::int64_t> values_or(const StudyRequest& request, std::vector<std::int64_t> defaults) {
    std::vector<std::int64_t> values = numbers_or(request, "values", 1, std::move(defaults));
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

void reset_peak_resident() {
    std::ofstream("/proc/self/clear_refs") << "5";
}

Config resolve_study(const Context& context, const StudyRequest& request) {
    const Entry& entry = entry_of(request);
    Config config = with_defaults(context, entry, request);
    if (entry.run == paper_study) return config;
    const bool trains = entry.run == histogram_study || entry.run == bits_study;
    config.resume = false;  // of the study, which is no run
    config = trains ? resolve_training(context, config) : resolve_plan(context, config);
    config.resume = request.config.resume;
    return config;
}

StudyFiles run_study(const Context& context, const StudyRequest& request) {
    const Entry& entry = entry_of(request);
    const Config& config = request.config;
    validate(config);
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the study, found none; give --out FOLDER");
    const fs::path folder = config.out;
    if (fs::exists(folder) && !fs::is_directory(folder))
        throw ConfigError(fmt::format("out: expected a folder, found the file {}", folder.string()));
    if (fs::exists(folder / "study.json") && !config.overwrite && !config.resume)
        throw ConfigError(fmt::format(
            "out: {} holds a study already; give --overwrite, --resume or another folder", folder.string()));
    const Config chosen = with_defaults(context, entry, request);
    fs::create_directories(folder);
    const FolderLock lock(folder);
    const StudyRequest complete{request.name, chosen, request.settings, request.command};
    return write_study(entry.run(context, complete), provenance_now(request.command), folder);
}

}  // namespace elmo
