// UTF-8 and the properties of characters that tokenizers need, through utf8proc, with the classes that the
// Hugging Face library gives them (see unicode_tables.h for where the two differ).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace elmo::unicode {

bool is_ascii(std::string_view text);

// `text` itself when it is valid UTF-8, else `buffer` with every maximal invalid part replaced by U+FFFD.
std::string_view as_valid_utf8(std::string_view text, std::string& buffer);

// The character at `position` of valid UTF-8; moves `position` behind it.
inline char32_t decode(std::string_view text, std::size_t& position) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
    const char32_t lead = byte(0);
    if (lead < 0x80) {
        position += 1;
        return lead;
    }
    char32_t c = 0;
    if (lead < 0xe0) {
        c = (lead & 0x1f) << 6 | (byte(1) & 0x3f);
        position += 2;
    } else if (lead < 0xf0) {
        c = (lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
        position += 3;
    } else {
        c = (lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
        position += 4;
    }
    return c;
}

void append(char32_t c, std::string& out);
void append(std::u32string_view text, std::string& out);

bool is_space(char32_t c);            // White_Space
bool is_control(char32_t c);          // what BERT's clean_text removes
bool is_punctuation(char32_t c);      // what BERT splits off: P* and every ASCII symbol
bool is_cjk(char32_t c);              // what BERT puts spaces around
bool is_nonspacing_mark(char32_t c);  // what BERT strips as an accent
bool is_mark(char32_t c);             // M*
bool is_letter(char32_t c);           // \p{L}
bool is_number(char32_t c);           // \p{N}
bool is_word(char32_t c);             // \w

// Where the grapheme cluster (what a reader sees as one character) that starts at `begin` ends.
std::size_t grapheme_end(std::string_view text, std::size_t begin);

// Appends the lower case of `c` (one or two characters, independent of its neighbours).
void append_lower(char32_t c, std::u32string& out);

// Appends the canonical (or compatibility) decomposition of `text` in canonical order.
void append_decomposed(std::u32string_view text, bool compatibility, std::u32string& out);

// Composes decomposed text in place.
void compose(std::u32string& text);

}  // namespace elmo::unicode
