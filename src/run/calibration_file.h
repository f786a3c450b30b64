// The calibration of a checkpoint: a file beside its folder, calibration-best.json for RUN/best. It holds the
// hash of the manifest, so it is never used with other weights.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "elmo/context.h"
#include "elmo/run.h"
#include "run/checkpoint.h"

namespace elmo {

// A file that belongs to a checkpoint: RUN/index-best.safetensors for RUN/best, "index" and "safetensors".
std::filesystem::path beside_checkpoint(const std::filesystem::path& checkpoint_folder,
                                        const std::string& kind, const std::string& ending);
std::filesystem::path calibration_file(const std::filesystem::path& checkpoint_folder);

void write_calibration(const Checkpoint& checkpoint, const Calibration& calibration);

// What the file holds, for a run of that many labels; `manifest` becomes the hash of the weights that it is
// for. DataError if damaged.
Calibration parse_calibration(const nlohmann::json& json, const std::string& file, std::int64_t num_labels,
                              std::string& manifest);

// Nothing if there is none, or if it was made for other weights, which is reported. DataError if damaged.
std::optional<Calibration> read_calibration(const Context& context, const Checkpoint& checkpoint);

}  // namespace elmo
