// Any bytes as the calibration file of a run with ten labels, as they are and with a right checksum:
// probabilities of labels that exist, or an elmo::Error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "elmo/error.h"
#include "formats/json_text.h"
#include "io/checksum.h"
#include "run/calibration_file.h"

namespace {

constexpr std::int64_t kLabels = 10;

void read(const nlohmann::json& json) {
    std::string manifest;
    const elmo::Calibration calibration = elmo::parse_calibration(json, "fuzz", kLabels, manifest);
    if (!(calibration.a > 0) || !std::isfinite(calibration.b)) std::abort();
    if (!calibration.label_thresholds) return;
    for (const std::int64_t label : calibration.label_thresholds->labels)
        if (label < 0 || label >= kLabels) std::abort();
    if (calibration.label_thresholds->labels.size() != calibration.label_thresholds->thresholds.size())
        std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        nlohmann::json json =
            elmo::parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
        try {
            read(json);
        } catch (const elmo::Error&) {
        }
        if (!json.is_object()) return 0;
        json.erase("xxh64");
        json["xxh64"] = elmo::hash_text(elmo::hash64(json.dump()));
        read(json);
    } catch (const elmo::Error&) {
    }
    return 0;
}
