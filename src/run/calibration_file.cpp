#include "run/calibration_file.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/links.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMethod = "platt";
constexpr const char* kChecksum = "xxh64";
constexpr const char* kLabelThresholds = "label_thresholds";

// Of all other keys, in the order of their names.
std::string checksum(nlohmann::json json) {
    json.erase(kChecksum);
    return hash_text(hash64(json_string(json)));
}

// Nothing if it is not sound: labels of the run, ascending, each with a probability.
std::optional<LabelThresholds> read_label_thresholds(const nlohmann::json& json, std::int64_t num_labels) {
    LabelThresholds own;
    json.at("labels").get_to(own.labels);
    json.at("thresholds").get_to(own.thresholds);
    bool sound = own.labels.size() == own.thresholds.size();
    visit_f1(own, [&](const char* key, double& value) { sound = sound && get_exact(json.at(key), value); });
    for (std::size_t i = 0; sound && i < own.labels.size(); ++i)
        sound = own.labels[i] >= 0 && own.labels[i] < num_labels &&
                (i == 0 || own.labels[i - 1] < own.labels[i]) && own.thresholds[i] >= 0 &&
                own.thresholds[i] <= 1;
    return sound ? std::optional(own) : std::nullopt;
}

}  // namespace

fs::path beside_checkpoint(const fs::path& folder, const std::string& kind, const std::string& ending) {
    std::error_code error;
    const fs::path whole = fs::absolute(folder, error).lexically_normal();
    const fs::path named = whole.has_filename() ? whole : whole.parent_path();
    return named.parent_path() / fmt::format("{}-{}.{}", kind, named.filename().string(), ending);
}

fs::path calibration_file(const fs::path& folder) {
    return beside_checkpoint(folder, "calibration", "json");
}

void write_calibration(const Checkpoint& checkpoint, const Calibration& calibration) {
    const fs::path& folder = checkpoint.folder();
    nlohmann::ordered_json json = {{"method", kMethod}, {"manifest_xxh64", checkpoint.manifest_hash()}};
    visit_numbers(calibration, [&](const char* key, const auto& value) { json[key] = value; });
    if (const auto& own = calibration.label_thresholds) {
        nlohmann::ordered_json& stored =
            json[kLabelThresholds] = {{"labels", own->labels}, {"thresholds", own->thresholds}};
        visit_f1(*own, [&](const char* key, double value) { stored[key] = value; });
    }
    json[kChecksum] = checksum(json);
    refuse_link(calibration_file(folder));
    write_file_atomically(calibration_file(folder), json_string(json, 2) + "\n");
}

Calibration parse_calibration(const nlohmann::json& json, const std::string& file, std::int64_t num_labels,
                              std::string& manifest) {
    Calibration calibration;
    bool sound = true;
    try {
        if (json.at("method") != kMethod)
            throw DataError(
                fmt::format("{}: expected method {}, found another; calibrate again", file, kMethod));
        if (json.contains(kChecksum) && json.at(kChecksum) != checksum(json))  // older ones have none
            throw DataError(
                fmt::format("{}: expected checksum {}, found {}; the file is damaged: calibrate again", file,
                            quoted(json_string(json.at(kChecksum), -1, true)), checksum(json)));
        json.at("manifest_xxh64").get_to(manifest);
        visit_numbers(calibration,
                      [&](const char* key, auto& value) { sound = sound && get_exact(json.at(key), value); });
        if (json.contains(kLabelThresholds)) {
            calibration.label_thresholds = read_label_thresholds(json.at(kLabelThresholds), num_labels);
            sound = sound && calibration.label_thresholds;
        }
    } catch (const nlohmann::json::exception&) {
        sound = false;
    }
    if (!sound)
        throw DataError(fmt::format(
            "{}: expected what 'elmo calibrate' writes, found something else; calibrate again", file));
    if (!std::isfinite(calibration.a) || !std::isfinite(calibration.b) || calibration.a <= 0)
        throw DataError(fmt::format("{}: expected a > 0 and a finite b, found {} and {}; calibrate again",
                                    file, calibration.a, calibration.b));
    return calibration;
}

std::optional<Calibration> read_calibration(const Context& context, const Checkpoint& checkpoint) {
    const fs::path& folder = checkpoint.folder();
    const fs::path file = calibration_file(folder);
    std::error_code error;
    refuse_link(file);
    if (!fs::exists(file, error)) return std::nullopt;
    std::string manifest;
    const Calibration calibration =
        parse_calibration(read_json(file), file.string(), checkpoint.state().labels, manifest);
    if (manifest != checkpoint.manifest_hash()) {
        context.warning(
            fmt::format("{} was made for other weights than those in {}: not used; calibrate again",
                        file.string(), folder.string()));
        return std::nullopt;
    }
    return calibration;
}

}  // namespace elmo
