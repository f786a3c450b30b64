#include "text/json_node.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "text/spec.h"

namespace elmo {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
constexpr int kMaxDepth = 32;

}  // namespace

// Nesting is checked before parsing, so no recursive code sees a deep document.
Json parse_json(std::string_view text, const std::string& where) {
    if (text.size() > kMaxBytes)
        throw DataError(fmt::format("{}: expected at most {}, found {}", where, human_bytes(kMaxBytes),
                                    human_bytes(static_cast<std::int64_t>(text.size()))));
    int depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > kMaxDepth)
                throw DataError(fmt::format("{}: JSON nested deeper than {} levels", where, kMaxDepth));
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    try {
        return Json::parse(text);
    } catch (const Json::exception& error) {
        throw DataError(
            fmt::format("{}: expected JSON: {}", where, quoted(std::string_view(error.what()), 200)));
    }
}

void JsonNode::fail(std::string_view expected) const {
    std::string value;
    if (json.is_primitive() && !json.is_null() && !json.is_discarded())
        value = fmt::format(" {}", quoted(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
    throw DataError(fmt::format("{}: expected {}, found {}{}", path, expected,
                                json.is_discarded() ? "nothing" : json.type_name(), value));
}

bool JsonNode::has(const char* key) const {
    return json.is_object() && json.contains(key) && !json[key].is_null();
}

JsonNode JsonNode::at(const char* key) const {
    static const Json missing(Json::value_t::discarded);
    if (!json.is_object()) fail("an object");
    const auto found = json.find(key);
    return {found == json.end() ? missing : *found, path + "." + key};
}

JsonNode JsonNode::at(std::size_t index) const {
    return {json[index], fmt::format("{}[{}]", path, index)};
}

const std::string& JsonNode::string() const {
    if (!json.is_string()) fail("a string");
    return json.get_ref<const std::string&>();
}

bool JsonNode::boolean(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json[key].is_boolean()) at(key).fail("true or false");
    return json[key].get<bool>();
}

std::int64_t JsonNode::integer(std::int64_t low, std::int64_t high) const {
    const std::string expected = fmt::format("an integer from {} to {}", low, high);
    if (!json.is_number_integer()) fail(expected);
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(high))
        fail(expected);
    const auto value = json.get<std::int64_t>();
    if (value < low || value > high) fail(expected);
    return value;
}

std::int32_t JsonNode::id() const {
    return static_cast<std::int32_t>(integer(0, kMaxTokenId));
}

std::size_t JsonNode::size() const {
    if (!json.is_array()) fail("a list");
    return json.size();
}

const std::string& JsonNode::type() const {
    return at("type").string();
}

void JsonNode::unsupported(std::string_view supported) const {
    throw DataError(fmt::format("{}: '{}' is not supported; supported: {}", path, quoted(type()), supported));
}

}  // namespace elmo
