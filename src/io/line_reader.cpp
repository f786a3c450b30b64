#include "io/line_reader.h"

#include <algorithm>
#include <cstring>

#include "base/text_util.h"
#include "io/file_error.h"

namespace elmo {
namespace {
constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// A small file needs no whole block. What unpacks to more than it holds grows the buffer by its longest line.
std::size_t first_capacity(const ByteSource& source) {
    constexpr std::size_t kPacked = std::size_t{64} << 10;
    if (source.is_compressed()) return kPacked;
    return source.total() <= 0 ? kBlock : std::min(kBlock, static_cast<std::size_t>(source.total()) + 1);
}

}  // namespace

LineReader::LineReader(const std::filesystem::path& path, std::int64_t max_line_bytes)
    : name_(path == "-" ? "standard input" : path.string()),
      max_line_bytes_(max_line_bytes),
      source_(std::make_unique<ByteSource>(path, name_)),
      capacity_(first_capacity(*source_)),
      buffer_(std::make_unique<char[]>(capacity_ + kPadding)) {}

LineReader::~LineReader() = default;

// More bytes behind end_; false at the end of the file.
bool LineReader::fill() {
    if (begin_ > 0) {
        std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ == capacity_) {
        const std::size_t larger = capacity_ * 2;
        auto grown = std::make_unique_for_overwrite<char[]>(larger + kPadding);
        std::memcpy(grown.get(), buffer_.get(), end_);
        std::memset(grown.get() + larger, 0, kPadding);
        buffer_ = std::move(grown);
        capacity_ = larger;
    }
    const std::size_t n = source_->read(buffer_.get() + end_, capacity_ - end_);
    end_ += n;
    return n > 0;
}

std::optional<std::string_view> LineReader::next_line() {
    std::size_t searched = 0;  // bytes after begin_ known to hold no line end
    const char* newline = nullptr;
    while (true) {
        const std::size_t held = end_ - begin_;
        newline =
            static_cast<const char*>(std::memchr(buffer_.get() + begin_ + searched, '\n', held - searched));
        if (newline != nullptr || at_end_) break;
        searched = held;
        // Room for a byte order mark and "\r", which do not count.
        if (static_cast<std::int64_t>(held) > max_line_bytes_ + 4) break;
        if (!fill()) at_end_ = true;
    }
    const char* start = buffer_.get() + begin_;
    std::string_view line(start,
                          newline != nullptr ? static_cast<std::size_t>(newline - start) : end_ - begin_);
    if (newline == nullptr && (line.empty() || (line_number_ == 0 && line == kByteOrderMark)))
        return std::nullopt;
    ++line_number_;
    begin_ += line.size() + (newline != nullptr ? 1 : 0);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_number_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (static_cast<std::int64_t>(line.size()) > max_line_bytes_)
        fail(fmt::format("expected lines of at most {}, found a longer one", human_bytes(max_line_bytes_)));
    return line;
}

bool LineReader::ready() const {
    return at_end_ || std::memchr(buffer_.get() + begin_, '\n', end_ - begin_) != nullptr || source_->ready();
}

std::string LineReader::where() const {
    return fmt::format("{}:{}", name_, line_number_);
}

void LineReader::fail(std::string_view message) const {
    throw DataError(fmt::format("{}: {}", where(), message));
}

std::int64_t LineReader::bytes_read() const {
    return source_->taken();
}
std::int64_t LineReader::total_bytes() const {
    return source_->total();
}

}  // namespace elmo
