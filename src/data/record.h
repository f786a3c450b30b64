// A record: the bytes of one row of a source file before they are understood, and where they came from so
// that an error can say so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace elmo {

struct Record {
    std::string_view bytes;  // without the line end
    std::int64_t line = 0;   // of its first byte, from 1
    std::string_view file;
};

// DataError "file:line: expected ..., found ...". `advice` follows after a semicolon when given.
[[noreturn]] void fail(const Record& record, std::string_view expected, std::string_view found,
                       std::string_view advice = {});

// What an import met and mended because a flag allowed it.
struct ImportCounts {
    std::int64_t replaced_utf8 = 0;  // rows in which invalid UTF-8 became U+FFFD
    std::int64_t merged_labels = 0;  // repeated label indices that were merged
    std::int64_t unsorted_rows = 0;  // rows whose label indices did not ascend

    ImportCounts& operator+=(const ImportCounts& other);
};

// The record's bytes as valid UTF-8: themselves, or `storage` with U+FFFD in place of what is invalid when
// that is allowed; DataError otherwise.
std::string_view valid_utf8(const Record& record, bool allow_invalid, std::string& storage,
                            ImportCounts& counts);

}  // namespace elmo
