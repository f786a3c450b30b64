// The list of studies, and running one.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "elmo/error.h"
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

StudyFiles run_study(const Context& context, const StudyRequest& request) {
    std::vector<std::string> names;
    for (const Entry& entry : kStudies) {
        names.push_back(entry.name);
        if (request.name != entry.name) continue;
        const Config& config = request.config;
        validate(config);
        if (config.encoder == kLinearEncoder)
            throw ConfigError(
                "encoder: a study is about encoders that are trained in steps, found linear; give bag or a "
                "folder");
        if (config.out.empty())
            throw ConfigError("out: expected a folder for the study, found none; give --out FOLDER");
        const fs::path folder = config.out;
        if (fs::exists(folder) && !fs::is_directory(folder))
            throw ConfigError(fmt::format("out: expected a folder, found the file {}", folder.string()));
        if (fs::exists(folder / "study.json") && !config.overwrite && !config.resume)
            throw ConfigError(
                fmt::format("out: {} holds a study already; give --overwrite, --resume or another folder",
                            folder.string()));
        fs::create_directories(folder);
        const FolderLock lock(folder);
        StudyRequest chosen = request;  // studies are about encoders that are trained in steps
        const bool has_recipes = entry.run == paper_study;  // which name encoders
        if (config.encoder == "auto" && !has_recipes) chosen.config.encoder = "bag";
        return write_study(entry.run(context, chosen), provenance_now(request.command), folder);
    }
    throw ConfigError(fmt::format("study: expected {}, found '{}'{}", fmt::join(names, ", "),
                                  quoted(request.name), did_you_mean(request.name, names)));
}

}  // namespace elmo
