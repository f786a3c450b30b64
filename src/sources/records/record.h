// A record: the bytes of one row of a source file before they are understood, and where they came from so
// that an error can say so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/views.h"

namespace elmo {

// Advice where a quote in a CSV file stands behind a backslash.
inline constexpr std::string_view kBackslashAdvice =
    "quotes are escaped by backslashes here: CSV doubles them, so write \"\" for each \\\"";

struct Record {
    std::string_view bytes;  // without the line end
    std::int64_t line = 0;   // of its first byte, from 1
    std::string_view file;
};

// DataError "file:line: expected ..., found ...". `advice` follows after a semicolon when given.
[[noreturn]] void fail(const Record& record, std::string_view expected, std::string_view found,
                       std::string_view advice = {});

// What an import repaired because a flag allowed it.
struct ImportCounts {
    std::int64_t replaced_utf8 = 0;  // rows in which invalid UTF-8 became U+FFFD
    std::int64_t merged_labels = 0;  // repeated label indices that were merged
    std::int64_t unsorted_rows = 0;  // rows whose label indices did not ascend
    std::int64_t stray_quotes = 0;   // rows of a table with quotes inside a field that has none around it
    std::int64_t null_labels = 0;    // rows whose labels are null, or a word for it, or missing

    ImportCounts& operator+=(const ImportCounts& other);
};

// How the bytes of a source are characters.
struct Encoding {
    bool latin1 = false;         // of what is no UTF-8: hardly any text of Latin-1 is UTF-8 by accident
    bool allow_invalid = false;  // U+FFFD in place of what is not UTF-8
};
Encoding encoding_of(const ReadOptions& reading);

// The record's bytes as valid UTF-8: themselves, or `storage` with what was converted or mended. DataError
// for invalid UTF-8 that is not allowed; it says so when the bytes look like Latin-1.
std::string_view valid_utf8(const Record& record, Encoding encoding, std::string& storage,
                            ImportCounts& counts);

// Of bytes that are UTF-8 already, themselves.
std::string utf8_of_latin1(std::string_view bytes);

// UTF-8 with characters beyond ASCII.
bool holds_utf8(std::string_view bytes);

// The text, which is not valid UTF-8, holds no UTF-8 beyond ASCII at all: its high bytes are those of
// Latin-1 (or of Windows-1252, which Latin-1 is read as).
bool looks_like_latin1(std::string_view text);

}  // namespace elmo
