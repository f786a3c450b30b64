#include "data/record.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {

void fail(const Record& record, std::string_view expected, std::string_view found, std::string_view advice) {
    throw DataError(fmt::format("{}:{}: expected {}, found {}{}{}", record.file, record.line, expected, found,
                                advice.empty() ? "" : "; ", advice));
}

ImportCounts& ImportCounts::operator+=(const ImportCounts& other) {
    replaced_utf8 += other.replaced_utf8;
    merged_labels += other.merged_labels;
    unsorted_rows += other.unsorted_rows;
    return *this;
}

std::string_view valid_utf8(const Record& record, bool allow_invalid, std::string& storage,
                            ImportCounts& counts) {
    std::string_view rest = record.bytes;
    if (simdjson::validate_utf8(rest.data(), rest.size())) return rest;
    std::size_t bad = find_invalid_utf8(rest);
    if (!allow_invalid)
        fail(record, "UTF-8",
             fmt::format("byte 0x{:02x} at column {}", static_cast<unsigned char>(rest[bad]), bad + 1),
             "convert the file to UTF-8, or replace such bytes by U+FFFD with --allow-invalid-utf8");
    storage.clear();
    for (; bad != std::string_view::npos; bad = find_invalid_utf8(rest)) {
        storage.append(rest.substr(0, bad)).append("\xef\xbf\xbd");
        rest.remove_prefix(bad + 1);
    }
    storage.append(rest);
    ++counts.replaced_utf8;
    return storage;
}

}  // namespace elmo
