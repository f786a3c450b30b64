#include "config/encoder_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

fs::path hub_cache() {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return fs::path(value != nullptr ? value : "");
    };
    if (const fs::path hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
    if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
    return variable("HOME") / ".cache/huggingface/hub";
}

// Where the folder of a run has its encoder; any other folder is itself.
std::string in_run(const fs::path& folder) {
    std::error_code ignored;
    if (fs::exists(folder / "config.json", ignored)) return folder.string();
    for (const char* which : {"best", "last"}) {
        if (fs::exists(folder / which / "config.json", ignored)) return (folder / which).string();
        if (fs::exists(folder / which / "manifest.json", ignored))
            throw ConfigError(
                fmt::format("encoder: {} is the run of a linear model or of a head on vectors, which has no "
                            "encoder; give another run, "
                            "a folder, or leave --encoder out",
                            folder.string()));
    }
    return folder.string();
}

// Whether it may be the name of a model, "NAME" or "OWNER/NAME", rather than a path.
bool is_hub_name(const std::string& encoder) {
    return !encoder.starts_with('/') && !encoder.starts_with('.') && !encoder.starts_with('~') &&
           !encoder.ends_with('/') && std::count(encoder.begin(), encoder.end(), '/') <= 1;
}

// The names under which the hub may have it: people leave out the owner of the models that they know best.
std::vector<std::string> hub_names(const std::string& encoder) {
    if (encoder.find('/') != encoder.npos) return {encoder};
    for (const char* start : {"all-", "multi-qa-", "paraphrase-", "msmarco-", "distiluse-"})
        if (encoder.starts_with(start)) return {"sentence-transformers/" + encoder, encoder};
    if (encoder == "mpnet-base") return {"microsoft/mpnet-base", encoder};
    return {encoder};
}

// Its newest snapshot with a configuration; empty where there is none.
fs::path cached(const std::string& hub_name) {
    std::error_code ignored;
    std::string name = "models--" + hub_name;
    for (std::size_t at = name.find('/'); at != name.npos; at = name.find('/')) name.replace(at, 1, "--");
    const fs::path snapshots = hub_cache() / name / "snapshots";
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(snapshots, ignored))
        if (fs::exists(entry.path() / "config.json", ignored) &&
            (newest.empty() || fs::last_write_time(entry, ignored) > fs::last_write_time(newest, ignored)))
            newest = entry.path();
    return newest;
}

}  // namespace

bool is_encoder_folder(const std::string& encoder) {
    return encoder != "bag" && encoder != kLinearEncoder && encoder != kVectorEncoder && encoder != "auto";
}

bool holds_tokenizer(const std::string& folder) {
    std::error_code error;
    for (const char* name :
         {"tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model"})
        if (fs::exists(fs::path(folder) / name, error)) return true;
    return false;
}

std::string encoder_folder(const std::string& encoder) {
    std::error_code ignored;
    if (!is_encoder_folder(encoder)) return encoder;
    if (fs::exists(encoder, ignored)) return in_run(encoder);
    if (!is_hub_name(encoder))
        throw ConfigError(fmt::format(
            "encoder: expected linear, bag, a folder, a run, or the name of a model, found no folder '{}'",
            quoted(encoder)));
    const std::vector<std::string> names = hub_names(encoder);
    for (const std::string& name : names)
        if (const fs::path snapshot = cached(name); !snapshot.empty()) return snapshot.string();
    throw ConfigError(
        fmt::format("encoder: expected linear, bag, a folder, or a model in the Hugging Face cache {}, found "
                    "no '{}'; give --encoder FOLDER, or run: hf download {}",
                    hub_cache().string(), quoted(encoder), quoted(names.front())));
}

}  // namespace elmo
