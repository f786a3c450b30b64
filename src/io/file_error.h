// One shape for the errors of system calls on files: "FILE: cannot WHAT: REASON".
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "elmo/error.h"

namespace elmo {

[[noreturn]] inline void throw_file_error(const std::filesystem::path& path, std::string_view what,
                                          int error = errno) {
    throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(error)));
}

}  // namespace elmo
