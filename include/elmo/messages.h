// Small helpers for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/api.h"

namespace elmo {

// The candidate nearest to `word` by edit distance, or "" when none is near enough to suggest.
ELMO_API std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// " (did you mean 'x'?)" or "".
ELMO_API std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// 1.5 GiB, 312 MiB, 17 KiB.
ELMO_API std::string human_bytes(std::int64_t bytes);
// 1,234,567
ELMO_API std::string with_commas(std::int64_t value);
// "1 text", "2,000 texts".
ELMO_API std::string counted(std::int64_t count, std::string_view noun);

// Bytes 0x00-0x1f and invalid UTF-8 made visible, cut to `limit` characters: for quoting input in messages.
ELMO_API std::string quoted(std::string_view text, std::size_t limit = 60);
// For a std::string the unqualified name would otherwise mean std::quoted.
inline std::string quoted(const std::string& text, std::size_t limit = 60) {
    return quoted(std::string_view(text), limit);
}
inline std::string quoted(std::string& text, std::size_t limit = 60) {
    return quoted(std::string_view(text), limit);
}

// A name as it is typed in a shell: as it is, or in quotes where it has blanks or signs that mean something
// there.
ELMO_API std::string shell_word(std::string_view name);

// The text in a form that is safe on a terminal: control characters, which could move the cursor, change the
// title or fill the clipboard, and bytes that are not UTF-8 are written like \x1b. Line ends and tabs stay.
ELMO_API std::string for_terminal(std::string_view text);

// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are invalid), or npos.
ELMO_API std::size_t find_invalid_utf8(std::string_view text);

}  // namespace elmo
