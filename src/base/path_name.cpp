#include "base/path_name.h"

namespace elmo {

std::string path_name(const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
    return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace elmo
