// One field of a CSV line (RFC 4180): in quotes where it has to be.
#pragma once

#include <string>
#include <string_view>

namespace elmo {

inline std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
    std::string field = "\"";
    for (const char c : text) {
        if (c == '"') field += '"';
        field += c;
    }
    return field + '"';
}

}  // namespace elmo
