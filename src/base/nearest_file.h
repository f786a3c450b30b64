// For a path where nothing is: the file or folder that was probably meant.
#pragma once

#include <filesystem>
#include <string>

namespace elmo {

// " (did you mean 'data.csv'?)" with the entry of the same folder whose name, without its ending, is nearest;
// "" where none is near.
std::string did_you_mean_file(const std::filesystem::path& path);

}  // namespace elmo
