// JSON from untrusted text: depth and size are bounded and every failure is a DataError with its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace elmo {

// DataError "NAME:LINE:COLUMN: ..." for malformed text or nesting deeper than max_depth.
nlohmann::json parse_json(std::string_view text, const std::string& name, int max_depth = 32);

// The same for a file, of at most max_bytes.
nlohmann::json read_json(const std::filesystem::path& path, std::int64_t max_bytes = std::int64_t{32} << 20,
                         int max_depth = 32);

// What a parser exception says, without its own numbering: "line 1, column 9: ...".
std::string json_reason(const nlohmann::json::exception& error);

}  // namespace elmo
