#include "sources/tables/label_lists.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "sources/tables/label_fields.h"

namespace elmo {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

void append_utf8(std::uint32_t point, std::string& out) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (point >> shift & 0x3f)); };
    if (point < 0x80) {
        out += static_cast<char>(point);
    } else if (point < 0x800) {
        out += static_cast<char>(0xc0 | point >> 6);
        tail(0);
    } else if (point < 0x10000) {
        out += static_cast<char>(0xe0 | point >> 12);
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xf0 | point >> 18);
        tail(12);
        tail(6);
        tail(0);
    }
}

// What stands between the brackets.
class ListParser {
  public:
    ListParser(std::string_view inside, FieldList& list) : rest_(inside), list_(list) {}

    // Strings, and where `numbers` says so numbers, with commas or, as NumPy has it, only space between them.
    bool parse_values(bool numbers) {
        skip_space();
        while (!rest_.empty()) {
            if (is_quoted() ? !string() : !null() && (!numbers || !number())) return false;
            const std::size_t after = rest_.size();
            skip_space();
            const bool spaced = rest_.size() < after;
            if (rest_.empty()) break;
            if (rest_.front() == ',') {
                rest_.remove_prefix(1);
                skip_space();
            } else if (!spaced) {
                return false;
            }
        }
        return true;
    }

    // Strings and words without quotes, with commas between them.
    bool parse_words() {
        skip_space();
        while (!rest_.empty()) {
            if (is_quoted() ? !string() : !null() && !word()) return false;
            skip_space();
            if (rest_.empty()) break;
            if (rest_.front() != ',') return false;
            rest_.remove_prefix(1);
            skip_space();
        }
        return true;
    }

    // What PostgreSQL writes: no blank stands outside of quotes, and a word without them has neither quotes
    // nor curly brackets nor backslashes. Colons and square brackets it may have.
    bool parse_array() {
        while (true) {
            if (rest_.empty() || (rest_.front() == '"' ? !string() : !null() && !element())) return false;
            if (rest_.empty()) return true;
            if (rest_.front() != ',') return false;
            rest_.remove_prefix(1);
        }
    }

  private:
    void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size())); }

    bool is_quoted() const { return rest_.front() == '"' || rest_.front() == '\''; }

    // A word alone between commas. Only as far as such words go: many values may follow without a comma.
    bool null() {
        constexpr std::size_t kLongest = 4;
        const std::string_view head = rest_.substr(0, kLongest + 1),
                               word = head.substr(0, head.find_first_of(", \t\r\n"));
        if (!is_null_word(word)) return false;
        const std::size_t after = std::min(rest_.find_first_not_of(kSpace, word.size()), rest_.size());
        if (after < rest_.size() && rest_[after] != ',') return false;
        rest_.remove_prefix(word.size());
        ++list_.nulls;
        return true;
    }

    bool word() {
        const std::string_view text = trim(rest_.substr(0, rest_.find(',')));
        if (text.empty() || text.back() == '\'' || text.find_first_of("[]{}\"") != text.npos ||
            text.find("...") != text.npos)
            return false;
        list_.items.emplace_back(text);
        rest_.remove_prefix(text.size());
        return true;
    }

    // Single quotes at an end are those of Python, and a bracket that is shut in another element opens a
    // list.
    bool element() {
        const std::string_view text = rest_.substr(0, rest_.find(','));
        if (text.empty() || text.front() == '\'' || text.back() == '\'' || text == "..." ||
            text.find_first_of("{}\"\\ \t\r\n\v\f") != text.npos ||
            std::ranges::count(text, '[') != std::ranges::count(text, ']'))
            return false;
        list_.items.emplace_back(text);
        rest_.remove_prefix(text.size());
        return true;
    }

    bool number() {
        const std::size_t end = std::min(rest_.find_first_not_of("0123456789+-.eE"), rest_.size());
        std::string_view text = rest_.substr(0, end);
        rest_.remove_prefix(end);
        if (text.ends_with('.')) text.remove_suffix(1);  // NumPy's 1.
        double value = 0;
        const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (status != std::errc() || stop != text.data() + text.size()) return false;
        list_.items.emplace_back(text);
        return true;
    }

    bool string() {
        const char quote = rest_.front();
        rest_.remove_prefix(1);
        std::string text;
        while (!rest_.empty()) {
            const char c = rest_.front();
            rest_.remove_prefix(1);
            if (c == quote) {
                if (const std::string_view name = trim(text); !name.empty()) list_.items.emplace_back(name);
                return true;
            }
            if (c != '\\')
                text += c;
            else if (!escape(text))
                return false;
        }
        return false;
    }

    bool escape(std::string& text) {
        if (rest_.empty()) return false;
        const char c = rest_.front();
        rest_.remove_prefix(1);
        static constexpr std::string_view kNames = "ntrbf", kValues = "\n\t\r\b\f";
        if (const std::size_t at = kNames.find(c); at != kNames.npos)
            text += kValues[at];
        else if (c == 'u' || c == 'x' || c == 'U')
            return code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
        else if (c == '"' || c == '\'' || c == '\\' || c == '/')
            text += c;
        else
            (text += '\\') += c;  // Python keeps what is no escape
        return true;
    }

    bool code_point(std::size_t digits, std::string& text) {
        std::uint32_t point = 0;
        if (!hex(digits, point)) return false;
        if (point >= 0xd800 && point < 0xdc00 && rest_.starts_with("\\u")) {  // half of a pair
            rest_.remove_prefix(2);
            std::uint32_t low = 0;
            if (!hex(4, low) || low < 0xdc00 || low >= 0xe000) return false;
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
        if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
        append_utf8(point, text);
        return true;
    }

    bool hex(std::size_t digits, std::uint32_t& value) {
        if (rest_.size() < digits) return false;
        const auto [stop, status] = std::from_chars(rest_.data(), rest_.data() + digits, value, 16);
        if (status != std::errc() || stop != rest_.data() + digits) return false;
        rest_.remove_prefix(digits);
        return true;
    }

    std::string_view rest_;
    FieldList& list_;
};

// a:1, b:true: so a dictionary may look.
bool has_value_behind_colon(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return false;
    const std::string_view value = text.substr(colon + 1);
    if (value == "true" || value == "false" || is_null_word(value)) return true;
    double number = 0;
    const auto [stop, status] = std::from_chars(value.data(), value.data() + value.size(), number);
    return status == std::errc() && stop == value.data() + value.size();
}

}  // namespace

bool has_lone_colon(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != ':') continue;
        if (i + 1 == text.size()) return false;
        if (text[i + 1] != ':') return true;
        ++i;
    }
    return false;
}

std::optional<FieldList> parse_label_list(std::string_view cell) {
    cell = trim(cell);
    FieldList values, words;
    values.certain = true;
    if (cell == "set()") return values;
    if (cell.size() < 2) return std::nullopt;
    const char open = cell.front(), close = cell.back();
    const bool square = open == '[' && close == ']', curly = open == '{' && close == '}';
    if (!square && !curly && !(open == '(' && close == ')')) return std::nullopt;
    const std::string_view inside = cell.substr(1, cell.size() - 2);
    // Round and curly brackets stand around other things too: one number does not make them a list.
    if (ListParser(inside, values).parse_values(square)) return values;
    const auto has_several = [](const FieldList& list) {
        return list.items.size() + static_cast<std::size_t>(list.nulls) > 1;
    };
    if (ListParser(inside, words).parse_words() &&
        !(curly && std::ranges::any_of(words.items, has_lone_colon))) {
        words.certain = has_several(words);
        return words;
    }
    FieldList array;
    if (!curly || !ListParser(inside, array).parse_array()) return std::nullopt;
    array.certain = has_several(array) && !std::ranges::all_of(array.items, has_value_behind_colon);
    return array;
}

}  // namespace elmo
