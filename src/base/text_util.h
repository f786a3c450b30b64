// Small helpers for strings, files and messages that several layers need. Those that the program also needs
// are in elmo/messages.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "elmo/messages.h"

namespace elmo {

// The whole file; DataError naming it when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// "512", "64KiB", "2GiB", "1.5G": a number of bytes. ConfigError otherwise.
std::int64_t parse_bytes(std::string_view text);
// "20%" or "0.2": from 0 to 1. ConfigError otherwise.
double parse_share(std::string_view text);

}  // namespace elmo
