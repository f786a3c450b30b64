#include "serve/json_body.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "elmo/messages.h"

namespace elmo {
namespace {

using simdjson::dom::element_type;

// Parsers keep their memory, several times the body's: one per thread for the usual bodies, a passing one for
// others.
constexpr std::size_t kKeptBytes = 256 << 10;
constexpr std::size_t kMostDepth = 32;

const char* found_type(const JsonValue& value) {
    switch (value.type()) {
        case element_type::ARRAY:
            return "a list";
        case element_type::OBJECT:
            return "an object";
        case element_type::INT64:
        case element_type::UINT64:
            return "a whole number";
        case element_type::DOUBLE:
            return "a number";
        case element_type::STRING:
            return "a text";
        case element_type::BOOL:
            return "true or false";
        default:
            return "null";
    }
}

[[noreturn]] void wrong_type(const std::string& where, const char* expected, const JsonValue& value) {
    throw BadField(where, fmt::format("expected {}, found {}", expected, found_type(value)));
}

JsonValue parse(simdjson::dom::parser& parser, std::string_view body) {
    JsonValue value;
    simdjson::error_code error = simdjson::SUCCESS;
    if (parser.capacity() < body.size() || parser.max_depth() != kMostDepth)
        error = parser.allocate(std::max<std::size_t>(body.size(), 64), kMostDepth);
    if (error == simdjson::SUCCESS) error = parser.parse(body.data(), body.size()).get(value);
    if (error == simdjson::EMPTY) throw BadField("", "body: expected a JSON object, found nothing");
    if (error == simdjson::UTF8_ERROR) throw BadField("", "body: expected UTF-8, found other bytes");
    if (error == simdjson::DEPTH_ERROR)
        throw BadField("", fmt::format("body: expected up to {} levels of JSON, found more", kMostDepth));
    if (error != simdjson::SUCCESS)
        throw BadField("", fmt::format("body: expected JSON: {}", simdjson::error_message(error)));
    return value;
}

}  // namespace

void read_body(std::string_view body, const Fields& fields) {
    thread_local simdjson::dom::parser kept;
    simdjson::dom::parser passing;
    const JsonValue value = parse(body.size() <= kKeptBytes ? kept : passing, body);
    if (value.type() != element_type::OBJECT) wrong_type("", "a JSON object as the body", value);
    read_object(value, "", fields);
}

void read_object(const JsonValue& value, const std::string& where, const Fields& fields) {
    if (value.type() != element_type::OBJECT) wrong_type(where, "an object", value);
    const std::string before = where.empty() ? "" : where + ".";
    std::vector<bool> seen(fields.size());
    for (const simdjson::dom::key_value_pair& member : simdjson::dom::object(value)) {
        const std::string_view key = member.key;
        const auto field =
            std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == key; });
        if (field == fields.end()) {
            std::vector<std::string> known;
            for (const auto& [name, take] : fields) known.emplace_back(name);
            const std::string name = quoted(key);
            throw BadField(before + name, "no such field is known" + did_you_mean(name, known));
        }
        const auto index = static_cast<std::size_t>(field - fields.begin());
        if (seen[index])
            throw BadField(before + std::string(key), "expected this field once, found it twice");
        seen[index] = true;
        field->second(member.value, before + std::string(key));
    }
}

void read_list(const JsonValue& value, const std::string& where, std::size_t limit, const TakeField& take) {
    if (value.type() != element_type::ARRAY) wrong_type(where, "a list", value);
    std::size_t index = 0;
    std::string there = where + '[';
    const std::size_t opened = there.size();
    for (const JsonValue element : simdjson::dom::array(value)) {
        if (index == limit)
            throw BadField(where, fmt::format("expected up to {} elements, found more", limit));
        there.resize(opened);
        fmt::format_to(std::back_inserter(there), FMT_COMPILE("{}]"), index++);
        take(element, there);
    }
}

std::string text_of(const JsonValue& value, const std::string& where) {
    if (value.type() != element_type::STRING) wrong_type(where, "a text", value);
    return std::string(std::string_view(value));
}

std::int64_t integer_of(const JsonValue& value, const std::string& where, std::int64_t least,
                        std::int64_t most) {
    std::int64_t number = 0;
    if (value.type() == element_type::UINT64)  // beyond every int64
        number = most + 1;
    else if (value.type() == element_type::INT64)
        number = std::int64_t(value);
    else
        wrong_type(where, "a whole number", value);
    if (number < least || number > most)
        throw BadField(where, fmt::format("expected a whole number from {} to {}, found {}", least, most,
                                          value.type() == element_type::UINT64 ? "a larger one"
                                                                               : std::to_string(number)));
    return number;
}

bool switch_of(const JsonValue& value, const std::string& where) {
    if (value.type() != element_type::BOOL) wrong_type(where, "true or false", value);
    return bool(value);
}

double number_of(const JsonValue& value, const std::string& where) {
    switch (value.type()) {
        case element_type::DOUBLE:
            return double(value);
        case element_type::INT64:
            return static_cast<double>(std::int64_t(value));
        case element_type::UINT64:
            return static_cast<double>(std::uint64_t(value));
        default:
            wrong_type(where, "a number", value);
    }
}

std::vector<std::string> texts_of(const JsonValue& value, const std::string& where, std::size_t limit) {
    std::vector<std::string> texts;
    if (value.type() == element_type::ARRAY)
        texts.reserve(std::min(limit, simdjson::dom::array(value).size()));
    read_list(value, where, limit, [&](const JsonValue& element, const std::string& there) {
        texts.push_back(text_of(element, there));
    });
    return texts;
}

std::vector<WantedLabel> labels_of(const JsonValue& value, const std::string& where, std::size_t limit) {
    std::vector<WantedLabel> labels;
    read_list(value, where, limit, [&](const JsonValue& element, const std::string& there) {
        if (element.type() == element_type::INT64)
            labels.emplace_back(std::int64_t(element));
        else if (element.type() == element_type::STRING)
            labels.emplace_back(std::string(std::string_view(element)));
        else
            wrong_type(there, "the name or the number of a label", element);
    });
    if (labels.empty()) throw BadField(where, "expected labels, found none");
    return labels;
}

}  // namespace elmo
