// JSON from untrusted text: depth and size are bounded and every failure is a DataError with its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "io/input_folder.h"

namespace elmo {

// DataError "NAME:LINE:COLUMN: ..." for malformed text or nesting deeper than max_depth.
nlohmann::json parse_json(std::string_view text, const std::string& name, int max_depth = 32);

// The same for a file, of at most max_bytes.
nlohmann::json read_json(const std::filesystem::path& path, std::int64_t max_bytes = std::int64_t{32} << 20,
                         int max_depth = 32);
nlohmann::json read_json(const InputFolder& folder, const std::string& name,
                         std::int64_t max_bytes = std::int64_t{32} << 20);

// The value, if it has that type: a fraction or a number beyond int64 is not an integer. Otherwise false, and
// `out` is not changed.
template <class T>
bool get_exact(const nlohmann::json& value, T& out) {
    bool fits = false;
    if constexpr (std::is_same_v<T, std::string>)
        fits = value.is_string();
    else if constexpr (std::is_floating_point_v<T>)
        fits = value.is_number();
    else
        fits = value.is_number_integer() &&
               (!value.is_number_unsigned() ||
                value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    if (fits) value.get_to(out);
    return fits;
}

// As text, on one line without an indent. Bytes that are not UTF-8 become U+FFFD. `ascii`: other characters
// are escaped. Here and not where it is used, because every file that calls dump() or parse() itself compiles
// it for seconds.
std::string json_string(const nlohmann::json& value, int indent = -1, bool ascii = false);
std::string json_string(const nlohmann::ordered_json& value, int indent = -1, bool ascii = false);

// What json_string or to_json wrote: bounds are not checked. `discarded` if it is not JSON.
nlohmann::json own_json(std::string_view text);
nlohmann::ordered_json own_ordered_json(std::string_view text);

// The message of a parser exception, without its own numbering: "line 1, column 9: ...".
std::string json_reason(const nlohmann::json::exception& error);

}  // namespace elmo
