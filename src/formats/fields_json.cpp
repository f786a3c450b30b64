#include <charconv>
#include <nlohmann/json.hpp>

#include "elmo/fields.h"

namespace elmo {
namespace {

using Json = nlohmann::ordered_json;

bool is_plain(std::string_view text) {
    for (const char c : text)
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) return false;
    return true;
}

}  // namespace

void JsonLine::open(char bracket) {
    text_ += bracket;
}

void JsonLine::element() {
    if (text_.back() != '[' && text_.back() != '{') text_ += ',';
}

void JsonLine::key(std::string_view name) {
    element();
    write(name);
    text_ += ':';
}

void JsonLine::write(std::int64_t value) {
    text_ += std::to_string(value);
}

void JsonLine::write(double value) {
    text_ += Json(value).dump();
}

// The double that prints with the digits of the float.
void JsonLine::write(float value) {
    char buffer[64];
    const auto [end, status] = std::to_chars(buffer, buffer + sizeof buffer, value);
    double wide = 0;
    std::from_chars(buffer, end, wide);
    write(wide);
}

void JsonLine::write(std::string_view value) {
    if (is_plain(value))
        text_.append(1, '"').append(value).append(1, '"');
    else
        text_ += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace elmo
