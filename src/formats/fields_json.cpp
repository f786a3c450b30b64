#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "elmo/fields.h"
#include "elmo/messages.h"

namespace elmo {
namespace {

using Json = nlohmann::ordered_json;

// Written as it is.
bool is_plain(std::string_view text) {
    bool ascii = true;
    for (const unsigned char c : text) {
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) return false;
        ascii = ascii && c < 0x80;
    }
    return ascii || find_invalid_utf8(text) == std::string_view::npos;
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
    char digits[24];
    text_.append(digits, std::to_chars(digits, std::end(digits), value).ptr);
}

void JsonLine::write(double value) {
    text_ += Json(value).dump();  // null where it is not finite
}

// In the form of a double, with the float's own digits: as a double it would have more of them.
void JsonLine::write(float value) {
    if (!std::isfinite(value) || value == 0) return write(static_cast<double>(value));
    char scientific[32];
    char* const end =
        std::to_chars(scientific, std::end(scientific), std::abs(value), std::chars_format::scientific).ptr;
    char* const mark = std::find(scientific, end, 'e');  // 1.5e-07
    int exponent = 0;
    std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, exponent);
    if (value < 0) text_ += '-';
    if (exponent < -4 || exponent >= std::numeric_limits<double>::digits10) {
        text_.append(scientific, end);
        return;
    }
    const auto count = static_cast<int>(std::remove(scientific, mark, '.') - scientific);
    const int before = exponent + 1;  // digits before the point
    if (before <= 0)
        text_.append("0.").append(static_cast<std::size_t>(-before), '0').append(scientific, count);
    else if (before < count)
        text_.append(scientific, before).append(1, '.').append(scientific + before, count - before);
    else
        text_.append(scientific, count).append(static_cast<std::size_t>(before - count), '0').append(".0");
}

void JsonLine::write(std::string_view value) {
    if (is_plain(value))
        text_.append(1, '"').append(value).append(1, '"');
    else
        text_ += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace elmo
