// Refuses symbolic links inside folders. A downloaded folder may hold links to any place, and reading or
// writing a name inside it must not lead out of it. (A link that the user names is followed.)
#pragma once

#include <fmt/format.h>

#include <filesystem>

#include "elmo/error.h"

namespace elmo {

// DataError when `path` itself, not a folder on the way to it, is a symbolic link.
inline void refuse_link(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)))
        throw DataError(
            fmt::format("{}: expected a file or folder of elmo's, found a symbolic link, which could lead "
                        "anywhere; put what it points to in its place, or remove it",
                        path.string()));
}

}  // namespace elmo
