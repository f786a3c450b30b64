// What people call a file or folder.
#pragma once

#include <filesystem>
#include <string>

namespace elmo {

// The last name of a path, also of ".", "..", and of a folder given with its slash.
std::string path_name(const std::filesystem::path& path);

}  // namespace elmo
