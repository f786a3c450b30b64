// Lines of a text file, plain or compressed (io/byte_source.h), streamed through one buffer: memory is
// bounded by the longest line, not by the size of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/byte_source.h"

namespace elmo {

class LineReader {
  public:
    static constexpr std::int64_t kDefaultMaxLine = std::int64_t{64} << 20;
    // This many bytes after the end of a returned line may be read (their content is undefined), as SIMD
    // parsers need.
    static constexpr std::size_t kPadding = 64;

    // Path "-" is standard input. DataError when the file cannot be opened or is a folder.
    explicit LineReader(const std::filesystem::path& path, std::int64_t max_line_bytes = kDefaultMaxLine);
    ~LineReader();
    LineReader(const LineReader&) = delete;
    LineReader& operator=(const LineReader&) = delete;

    // The next line without its end ("\n" or "\r\n"), valid until the next call; nothing after the last.
    // The last line need not end in "\n". A UTF-8 byte order mark before line 1 is left out.
    // DataError for a read error, corrupt or truncated compressed data, a line longer than the limit.
    std::optional<std::string_view> next_line();

    // False if the next line would have to wait for a pipe or a terminal.
    bool ready() const;

    // Number of the line last returned, from 1; 0 before the first.
    std::int64_t line_number() const { return line_number_; }
    const std::string& name() const { return name_; }
    // "FILE:LINE", as messages open.
    std::string where() const;
    // DataError "FILE:LINE: message".
    [[noreturn]] void fail(std::string_view message) const;

    // For progress: bytes of the file (compressed, where it is) taken so far and its size, 0 where unknown.
    std::int64_t bytes_read() const;
    std::int64_t total_bytes() const;

  private:
    bool fill();

    std::string name_;
    std::int64_t max_line_bytes_;
    std::unique_ptr<ByteSource> source_;
    std::size_t capacity_;
    std::unique_ptr<char[]> buffer_;
    std::size_t begin_ = 0, end_ = 0;  // what is in the buffer and not yet returned
    bool at_end_ = false;
    std::int64_t line_number_ = 0;
};

}  // namespace elmo
