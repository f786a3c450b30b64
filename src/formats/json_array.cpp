#include "formats/json_array.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {

JsonArrayReader::JsonArrayReader(ByteStream& stream, std::string name, std::int64_t max_element_bytes)
    : stream_(stream), name_(std::move(name)), max_element_bytes_(max_element_bytes) {}

// Reads more bytes after those held, and drops what was taken.
bool JsonArrayReader::fill() {
    constexpr std::size_t kBlock = std::size_t{64} << 10;
    if (at_ > 0) {
        buffer_.erase(0, at_);
        at_ = 0;
    }
    if (block_.empty()) block_.resize(kBlock);
    const std::size_t n = stream_.read(block_.data(), kBlock);
    buffer_.append(block_.data(), n);
    consumed_ += static_cast<std::int64_t>(n);
    return n > 0;
}

char JsonArrayReader::peek() {
    while (true) {
        at_ = std::min(buffer_.find_first_not_of(" \t\r\n", at_), buffer_.size());
        if (at_ < buffer_.size()) return buffer_[at_];
        if (!fill()) return 0;
    }
}

void JsonArrayReader::fail(std::string_view expected, std::string_view found) const {
    const std::int64_t byte = consumed_ - static_cast<std::int64_t>(buffer_.size() - at_);
    throw DataError(fmt::format("{}: element {}, byte {}: expected {}, found {}", name_, index_ + 1, byte,
                                expected, found));
}

std::optional<std::string_view> JsonArrayReader::next() {
    if (ended_) return std::nullopt;
    const auto found = [&](char c) {
        return c == 0 ? std::string("the end of the file (is it truncated?)")
                      : fmt::format("'{}'", quoted(std::string_view(buffer_).substr(at_, 20)));
    };
    if (!begun_) {
        char c = peek();
        while (c == '\xef' && buffer_.size() - at_ < 3 && fill()) {  // a mark may come in pieces
        }
        if (c == '\xef' && buffer_.compare(at_, 3, "\xef\xbb\xbf") == 0) {
            at_ += 3;
            c = peek();
        }
        if (c != '[') fail("a JSON array '['", found(c));
        ++at_;
        begun_ = true;
        c = peek();
        if (c == ']') ended_ = true;
    } else {
        const char c = peek();
        if (c == ']')
            ended_ = true;
        else if (c == ',')
            ++at_;
        else
            fail("',' or ']' after an element", found(c));
    }
    if (ended_) {
        ++at_;
        if (const char c = peek(); c != 0) fail("nothing after the array", found(c));
        return std::nullopt;
    }
    if (const char c = peek(); c != '{') fail("an object", found(c));

    std::size_t scanned = 0;  // bytes of the element looked at
    std::int64_t depth = 0;
    bool in_string = false;
    while (true) {
        for (; at_ + scanned < buffer_.size(); ++scanned) {
            const char c = buffer_[at_ + scanned];
            if (in_string) {
                if (c == '"') {
                    in_string = false;
                } else if (c == '\\') {
                    if (at_ + scanned + 1 == buffer_.size())
                        break;  // the escaped character has not been read yet
                    ++scanned;
                }
            } else if (c == '"') {
                in_string = true;
            } else if (c == '{' || c == '[') {
                ++depth;
            } else if ((c == '}' || c == ']') && --depth == 0) {
                const std::string_view element = std::string_view(buffer_).substr(at_, scanned + 1);
                if (c == ']') fail("'}' at the end of the object", "']'");
                at_ += scanned + 1;
                ++index_;
                return element;
            }
        }
        if (static_cast<std::int64_t>(scanned) > max_element_bytes_)
            fail(fmt::format("objects of at most {}", human_bytes(max_element_bytes_)),
                 "a longer one (is a bracket or a quote left open?)");
        if (!fill()) fail("the rest of an object", "the end of the file (is it truncated?)");
    }
}

}  // namespace elmo
