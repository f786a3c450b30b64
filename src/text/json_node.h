// A JSON value together with its place, so that every error about untrusted JSON names the place.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace elmo {

using Json = nlohmann::json;

// DataError if `text` is not JSON, over 256 MiB, or nested deeper than any tokenizer needs.
Json parse_json(std::string_view text, const std::string& where);

struct JsonNode {
    const Json& json;
    std::string path;  // starts with the file

    [[noreturn]] void fail(std::string_view expected) const;
    // A component of another type than we know.
    [[noreturn]] void unsupported(std::string_view supported) const;

    bool has(const char* key) const;       // present and not null
    JsonNode at(const char* key) const;    // may be missing; then reading it fails
    JsonNode at(std::size_t index) const;  // below size()
    std::size_t size() const;              // of a list
    const std::string& string() const;
    const std::string& type() const;  // the string at "type"
    bool boolean(const char* key, bool otherwise) const;
    std::int64_t integer(std::int64_t low, std::int64_t high) const;
    std::int32_t id() const;
};

}  // namespace elmo
