#include "config/encoder_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

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

}  // namespace

bool is_encoder_folder(const std::string& encoder) {
    return encoder != "bag" && encoder != kLinearEncoder && encoder != "auto";
}

std::string encoder_folder(const std::string& encoder) {
    std::error_code ignored;
    if (!is_encoder_folder(encoder) || fs::exists(encoder, ignored)) return encoder;
    std::string name = "models--" + encoder;
    for (std::size_t at = name.find('/'); at != name.npos; at = name.find('/')) name.replace(at, 1, "--");
    const fs::path snapshots = hub_cache() / name / "snapshots";
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(snapshots, ignored))
        if (fs::exists(entry.path() / "config.json", ignored) &&
            (newest.empty() || fs::last_write_time(entry, ignored) > fs::last_write_time(newest, ignored)))
            newest = entry.path();
    if (!newest.empty()) return newest.string();
    throw ConfigError(
        fmt::format("encoder: expected linear, bag, a folder, or a model in the Hugging Face cache {}, found "
                    "no '{}'; give "
                    "--encoder FOLDER, or run: huggingface-cli download {}",
                    hub_cache().string(), quoted(encoder), quoted(encoder)));
}

}  // namespace elmo
