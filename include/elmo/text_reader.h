// Texts to predict or to tokenize, from a file (plain, gzip or zstd) or standard input.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "elmo/api.h"

namespace elmo {

struct Config;

// What the input calls a text; empty if it has no id.
struct TextId {
    std::string text;
    bool is_number = false;  // a number in JSON, of 64 bits, and to be written as one
};

class ELMO_API TextReader {
  public:
    // `path` "" or "-" is standard input. Of a file named .csv or .tsv the text_column is read, unless
    // `input` overrides it. Lines of a fastText or sparse file are read without their labels. A given
    // `format` says it for any name. Options used: format, input, text_column, id_column, columns, delimiter,
    // quotes, encoding, allow_invalid_utf8, allow_stray_quotes. DataError if a given id_column is not there;
    // its default may be missing.
    TextReader(const std::string& path, const Config& config);
    ~TextReader();
    TextReader(const TextReader&) = delete;
    TextReader& operator=(const TextReader&) = delete;

    // Up to `limit` texts, one per line; empty at the end. Returns fewer texts instead of waiting for
    // more input. DataError with file and line for invalid UTF-8 or a line that does not match
    // `input`.
    std::vector<std::string> next(std::int64_t limit);
    // Of the texts that the last next() returned.
    const std::vector<TextId>& ids() const;

    // Lines for people on what the texts of the last next() answered that no option did: after the first one,
    // the column of the texts, for example. "" where that is nothing.
    const std::string& detected() const;

    // For progress: bytes of the file taken so far, and its size (0 where unknown).
    std::int64_t bytes_read() const;
    std::int64_t total_bytes() const;

    // Rows in which invalid UTF-8 was replaced.
    std::int64_t replaced_utf8() const;
    // Rows of JSON lines whose id is an object or a list, and is left out: nobody asked for it by name.
    std::int64_t dropped_ids() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
