// The fields of a JSON body, checked one by one: every complaint names its field.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <simdjson.h>

#include "elmo/error.h"

namespace elmo {

// A request that cannot be answered; what() is "FIELD: reason", or the reason where it is the whole body's.
class BadField : public ConfigError {
  public:
    BadField(std::string field, const std::string& reason)
        : ConfigError(field.empty() ? reason : field + ": " + reason), field_(std::move(field)) {}
    const std::string& field() const { return field_; }

  private:
    std::string field_;
};

using JsonValue = simdjson::dom::element;

// Takes the value of a field; `where` names it in messages.
using TakeField = std::function<void(const JsonValue& value, const std::string& where)>;
using Fields = std::vector<std::pair<std::string_view, TakeField>>;

// Parses the body, which must be an object, and gives each of its fields to the function of that name.
// BadField for malformed JSON (invalid UTF-8 and too much depth included) and for a field that is not listed,
// or is there twice.
void read_body(std::string_view body, const Fields& fields);
// The same of an object inside it.
void read_object(const JsonValue& value, const std::string& where, const Fields& fields);
// Calls take for each element of a list, at most `limit`.
void read_list(const JsonValue& value, const std::string& where, std::size_t limit, const TakeField& take);

std::string text_of(const JsonValue& value, const std::string& where);
std::int64_t integer_of(const JsonValue& value, const std::string& where, std::int64_t least,
                        std::int64_t most);
double number_of(const JsonValue& value, const std::string& where);
bool switch_of(const JsonValue& value, const std::string& where);
std::vector<std::string> texts_of(const JsonValue& value, const std::string& where, std::size_t limit);
// A label as a request names it: by a text, its name or else its number, or by a JSON number, which is no
// name.
using WantedLabel = std::variant<std::string, std::int64_t>;
std::vector<WantedLabel> labels_of(const JsonValue& value, const std::string& where, std::size_t limit);

}  // namespace elmo
