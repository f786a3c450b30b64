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

class ListParser {
  public:
    explicit ListParser(std::string_view inside) : rest_(inside) {}

    bool parse(bool numbers, std::vector<std::string>& out) {
        skip_space();
        while (!rest_.empty()) {
            const bool quoted = rest_.front() == '"' || rest_.front() == '\'';
            if (quoted ? !string(out) : !numbers || !number(out)) return false;
            const std::size_t after = rest_.size();
            skip_space();
            const bool spaced = rest_.size() < after;
            if (rest_.empty()) break;
            // NumPy puts nothing but space between items.
            if (rest_.front() == ',') {
                rest_.remove_prefix(1);
                skip_space();
            } else if (!spaced) {
                return false;
            }
        }
        return true;
    }

  private:
    void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size())); }

    bool number(std::vector<std::string>& out) {
        const std::size_t end = std::min(rest_.find_first_not_of("0123456789+-.eE"), rest_.size());
        std::string_view text = rest_.substr(0, end);
        rest_.remove_prefix(end);
        if (text.ends_with('.')) text.remove_suffix(1);  // NumPy's 1.
        double value = 0;
        const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (status != std::errc() || stop != text.data() + text.size()) return false;
        out.emplace_back(text);
        return true;
    }

    bool string(std::vector<std::string>& out) {
        const char quote = rest_.front();
        rest_.remove_prefix(1);
        std::string text;
        while (!rest_.empty()) {
            const char c = rest_.front();
            rest_.remove_prefix(1);
            if (c == quote) {
                if (const std::string_view name = trim(text); !name.empty()) out.emplace_back(name);
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
};

}  // namespace

bool parse_label_list(std::string_view cell, std::vector<std::string>& out) {
    out.clear();
    cell = trim(cell);
    if (cell == "set()") return true;
    if (cell.size() < 2) return false;
    const char open = cell.front(), close = cell.back();
    const bool square = open == '[' && close == ']';
    // Round and curly brackets stand around other things too: only strings make them a tuple or a set.
    if (!square && !(open == '(' && close == ')') && !(open == '{' && close == '}')) return false;
    if (ListParser(cell.substr(1, cell.size() - 2)).parse(square, out)) return true;
    out.clear();
    return false;
}

}  // namespace elmo
