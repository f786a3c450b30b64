// The calibration of a checkpoint: a file beside its folder, calibration-best.json for RUN/best. It holds the
// hash of the manifest, so it is never used with other weights.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "elmo/context.h"
#include "elmo/run.h"
#include "run/checkpoint.h"

namespace elmo {

std::filesystem::path calibration_file(const std::filesystem::path& checkpoint_folder);

void write_calibration(const Checkpoint& checkpoint, const Calibration& calibration);

// Nothing if there is none, or if it was made for other weights, which is reported. DataError if damaged.
std::optional<Calibration> read_calibration(const Context& context, const Checkpoint& checkpoint);

}  // namespace elmo
