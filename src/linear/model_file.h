// The file of a linear model: linear.safetensors, whose metadata say what is in it. What is read is checked
// before it is used: no index of a damaged or foreign file leads anywhere.
#pragma once

#include <filesystem>

#include "io/input_folder.h"
#include "linear/linear_model.h"

namespace elmo {

inline constexpr const char* kLinearFile = "linear.safetensors";

void save_linear_model(const std::filesystem::path& folder, const LinearModel& model);
// DataError names the file and what is wrong with it; `num_labels` is what the checkpoint says.
LinearModel load_linear_model(const InputFolder& folder, std::int64_t num_labels);

}  // namespace elmo
