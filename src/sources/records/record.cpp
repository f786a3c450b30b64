#include "sources/records/record.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

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
    stray_quotes += other.stray_quotes;
    null_labels += other.null_labels;
    return *this;
}

namespace {

// Windows-1252 where it differs from Latin-1: 0x80 to 0x9f. The five that it leaves open stay as they are.
constexpr char16_t kWindows1252[32] = {0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                       0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008d, 0x017d, 0x008f,
                                       0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                       0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178};

std::string_view from_latin1(std::string_view bytes, std::string& storage) {
    storage.clear();
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80) {
            storage += c;
            continue;
        }
        const char16_t point = byte < 0xa0 ? kWindows1252[byte - 0x80] : byte;
        if (point >= 0x800) {
            storage += static_cast<char>(0xe0 | point >> 12);
            storage += static_cast<char>(0x80 | (point >> 6 & 0x3f));
        } else {
            storage += static_cast<char>(0xc0 | point >> 6);
        }
        storage += static_cast<char>(0x80 | (point & 0x3f));
    }
    return storage;
}

}  // namespace

std::string utf8_of_latin1(std::string_view bytes) {
    std::string storage;
    if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
    from_latin1(bytes, storage);
    return storage;
}

bool holds_utf8(std::string_view bytes) {
    return std::ranges::any_of(bytes, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) &&
           simdjson::validate_utf8(bytes.data(), bytes.size());
}

Encoding encoding_of(const ReadOptions& reading) {
    return {reading.encoding == TextEncoding::kLatin1, reading.allow_invalid_utf8};
}

bool looks_like_latin1(std::string_view text) {
    bool high = false;
    while (!text.empty()) {
        const std::size_t bad = find_invalid_utf8(text);
        for (const char c : text.substr(0, bad))
            if (static_cast<unsigned char>(c) >= 0x80) return false;
        if (bad == text.npos) break;
        high = true;
        text.remove_prefix(bad + 1);
    }
    return high;
}

std::string_view valid_utf8(const Record& record, Encoding encoding, std::string& storage,
                            ImportCounts& counts) {
    std::string_view rest = record.bytes;
    if (simdjson::validate_utf8(rest.data(), rest.size())) return rest;
    if (encoding.latin1) return from_latin1(rest, storage);
    std::size_t bad = find_invalid_utf8(rest);
    if (!encoding.allow_invalid)
        fail(record, "UTF-8",
             fmt::format("byte 0x{:02x} at column {}", static_cast<unsigned char>(rest[bad]), bad + 1),
             looks_like_latin1(rest)
                 ? "it looks like Latin-1: read it with --encoding latin-1, or replace such bytes by U+FFFD "
                   "with --allow-invalid-utf8"
                 : "convert the file to UTF-8, or replace such bytes by U+FFFD with --allow-invalid-utf8");
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
