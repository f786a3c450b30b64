#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/text_util.h"
#include "text/unicode/unicode_tables.h"

namespace elmo::unicode {
namespace {

template <std::size_t N>
bool listed(const CodePointRange (&ranges)[N], char32_t c) {
    const auto* range =
        std::upper_bound(std::begin(ranges), std::end(ranges), c,
                         [](char32_t value, const CodePointRange& r) { return value < r.first; });
    return range != std::begin(ranges) && c <= range[-1].last;
}

utf8proc_category_t category(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

int combining_class(char32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// Bytes of the maximal prefix of text[position..] that could begin a character; at least 1.
std::size_t invalid_length(std::string_view text, std::size_t position) {
    const auto* s = reinterpret_cast<const unsigned char*>(text.data()) + position;
    const std::size_t left = text.size() - position;
    const unsigned char c = s[0];
    const std::size_t expected = c >= 0xc2 && c <= 0xdf   ? 2
                                 : c >= 0xe0 && c <= 0xef ? 3
                                 : c >= 0xf0 && c <= 0xf4 ? 4
                                                          : 1;
    std::size_t length = 1;
    for (; length < std::min(expected, left); ++length) {
        unsigned char low = 0x80, high = 0xbf;
        if (length == 1 && c == 0xe0) low = 0xa0;
        if (length == 1 && c == 0xed) high = 0x9f;
        if (length == 1 && c == 0xf0) low = 0x90;
        if (length == 1 && c == 0xf4) high = 0x8f;
        if (s[length] < low || s[length] > high) break;
    }
    return length;
}

}  // namespace

bool is_ascii(std::string_view text) {
    std::size_t i = 0;
    for (; i + 8 <= text.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + i, 8);
        if (word & 0x8080808080808080u) return false;
    }
    for (; i < text.size(); ++i)
        if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
    return true;
}

std::string_view as_valid_utf8(std::string_view text, std::string& buffer) {
    if (is_ascii(text)) return text;
    std::size_t bad = find_invalid_utf8(text);
    if (bad == std::string_view::npos) return text;
    buffer.clear();
    while (bad != std::string_view::npos) {
        buffer.append(text.substr(0, bad)).append("\xef\xbf\xbd");
        text.remove_prefix(bad + invalid_length(text, bad));
        bad = find_invalid_utf8(text);
    }
    buffer.append(text);
    return buffer;
}

void append(char32_t c, std::string& out) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

void append(std::u32string_view text, std::string& out) {
    for (const char32_t c : text) append(c, out);
}

bool is_space(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_control(char32_t c) {
    if (c < 0x80) return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    if (c == 0x890 || c == 0x891 || c == 0x8e2 || c == 0x110cd || (c >= 0x13430 && c <= 0x1343f))
        return false;
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    if (c == 0x166d || c == 0x111c9) return true;
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO && !listed(kNotPunctuation, c);
}

bool is_cjk(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

bool is_nonspacing_mark(char32_t c) {
    if (c < 0x300) return false;
    if (c == 0x1734) return true;
    return category(c) == UTF8PROC_CATEGORY_MN && !listed(kNotNonspacingMark, c);
}

bool is_mark(char32_t c) {
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
}

bool is_letter(char32_t c) {
    if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    const auto kind = category(c);
    return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) || listed(kAlsoLetter, c);
}

bool is_number(char32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    const auto kind = category(c);
    return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) || listed(kAlsoNumber, c);
}

bool is_word(char32_t c) {
    const auto kind = category(c);
    const bool circled_letter = (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
                                (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    return is_letter(c) || is_mark(c) || kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
           kind == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d || circled_letter;
}

std::size_t grapheme_end(std::string_view text, std::size_t begin) {
    std::size_t end = begin;
    char32_t last = decode(text, end);
    utf8proc_int32_t state = 0;
    while (end < text.size()) {
        std::size_t next_end = end;
        const char32_t next = decode(text, next_end);
        if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                             static_cast<utf8proc_int32_t>(next), &state))
            break;
        last = next;
        end = next_end;
    }
    return end;
}

void append_lower(char32_t c, std::u32string& out) {
    if (c < 0x80) {
        out.push_back(c >= 'A' && c <= 'Z' ? c + 32 : c);
    } else if (c == 0x130) {
        out.append({0x69, 0x307});
    } else if (c == 0x1c89 || c == 0xa7cc || c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4 || c == 0xa7da) {
        out.push_back(c + 1);
    } else if (c == 0xa7cb) {
        out.push_back(0x264);
    } else if (c == 0xa7dc) {
        out.push_back(0x19b);
    } else if (c >= 0x10d50 && c <= 0x10d65) {
        out.push_back(c + 0x20);
    } else if (c >= 0x16ea0 && c <= 0x16eb8) {
        out.push_back(c + 0x1b);
    } else {
        out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
}

void append_decomposed(std::u32string_view text, bool compatibility, std::u32string& out) {
    const std::size_t begin = out.size();
    const auto options = static_cast<utf8proc_option_t>(compatibility ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                                      : UTF8PROC_DECOMPOSE);
    bool marks = false;
    for (const char32_t c : text) {
        if (c < 0x80 || c == 0x11938) {
            out.push_back(c);
            continue;
        }
        utf8proc_int32_t parts[32];
        int boundary = 0;
        const auto count =
            utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options, &boundary);
        for (utf8proc_ssize_t i = 0; i < count; ++i) {
            out.push_back(static_cast<char32_t>(parts[i]));
            marks = marks || combining_class(out.back()) != 0;
        }
    }
    if (!marks) return;
    for (auto run = out.begin() + static_cast<std::ptrdiff_t>(begin); run != out.end();) {
        run = std::find_if(run, out.end(), [](char32_t c) { return combining_class(c) != 0; });
        const auto end = std::find_if(run, out.end(), [](char32_t c) { return combining_class(c) == 0; });
        std::stable_sort(run, end,
                         [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
        run = end;
    }
}

void compose(std::u32string& text) {
    const auto length = utf8proc_normalize_utf32(
        reinterpret_cast<utf8proc_int32_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (length >= 0) text.resize(static_cast<std::size_t>(length));
}

}  // namespace elmo::unicode
