// The elements of one huge JSON array, one after another, from a stream: memory is bounded by the largest
// element. Only brackets and quotes delimit elements; the caller parses them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/byte_source.h"

namespace elmo {

class JsonArrayReader {
  public:
    // Messages start with `name`. DataError for an element larger than `max_element_bytes`.
    JsonArrayReader(ByteStream& stream, std::string name,
                    std::int64_t max_element_bytes = std::int64_t{64} << 20);

    // The next object of the array as its bytes, valid until the next call; nothing after the closing
    // bracket. DataError, naming element and byte, for anything but '[ {...}, {...} ]'.
    std::optional<std::string_view> next();

    std::int64_t index() const { return index_; }          // of the element last returned, from 0
    std::int64_t bytes_read() const { return consumed_; }  // of the stream, decompressed

  private:
    bool fill();
    // The next byte that is not white space, without taking it; 0 at the end.
    char peek();
    [[noreturn]] void fail(std::string_view expected, std::string_view found) const;

    ByteStream& stream_;
    std::string name_;
    std::int64_t max_element_bytes_;
    std::string block_, buffer_;
    std::size_t at_ = 0;         // in buffer_
    std::int64_t consumed_ = 0;  // bytes read from the stream
    std::int64_t index_ = -1;
    bool begun_ = false, ended_ = false;
};

}  // namespace elmo
