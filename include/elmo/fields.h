// The fields of a result, listed once. visit_fields(result, visit) calls visit(name, value) for every field
// of a result, in order; it is defined beside each struct. Its users are JSON (to_json, what `--json`
// prints), bindings and servers.
//
// A value is a bool, a number, a text, nullptr if there is none, a std::vector or std::array of values, or
// something that visit_fields lists in turn: another result or a FieldGroup.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/api.h"

namespace elmo {

// Fields without a struct: `list(visit)` calls visit(name, value) for each.
template <typename List>
struct FieldGroup {
    List list;
};
template <typename List>
FieldGroup(List) -> FieldGroup<List>;

template <typename List, typename Visit>
void visit_fields(const FieldGroup<List>& group, Visit&& visit) {
    group.list(visit);
}

struct AnyField {
    template <typename T>
    void operator()(std::string_view, const T&) const {}
};
template <typename T>
concept HasFields = requires(const T& value, AnyField visit) {
    visit_fields(value, visit);
};

// Writes one line of JSON. Bytes that are not UTF-8 become U+FFFD, numbers that are not finite become null.
class ELMO_API JsonLine {
  public:
    template <typename T>
    void value(const T& value);
    const std::string& text() const { return text_; }

  private:
    void open(char bracket);
    void close(char bracket) { text_ += bracket; }
    void key(std::string_view name);
    void element();
    void write(std::nullptr_t) { text_ += "null"; }
    void write(bool value) { text_ += value ? "true" : "false"; }
    void write(std::int64_t value);
    void write(double value);
    void write(float value);  // with as few digits as the float needs
    void write(std::string_view value);

    std::string text_;
};

template <typename T>
void JsonLine::value(const T& value) {
    if constexpr (std::same_as<T, std::nullptr_t>) {  // it would count as a text
        write(nullptr);
    } else if constexpr (HasFields<T>) {
        open('{');
        visit_fields(value, [this](std::string_view name, const auto& field) {
            key(name);
            this->value(field);
        });
        close('}');
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
        write(std::string_view(value));
    } else if constexpr (requires { value.begin(); }) {
        open('[');
        for (const auto& item : value) {
            element();
            this->value(item);
        }
        close(']');
    } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
        write(static_cast<std::int64_t>(value));
    } else {
        write(value);
    }
}

// One line of JSON, without the end of the line.
template <HasFields T>
std::string to_json(const T& result) {
    JsonLine line;
    line.value(result);
    return line.text();
}

}  // namespace elmo
