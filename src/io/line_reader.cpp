#include "io/line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/text_util.h"
#include "io/file_error.h"

namespace elmo {
namespace {
constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
}  // namespace

// The bytes of the file, inflated where they are gzip.
class LineReader::Source {
  public:
    Source(const std::filesystem::path& path, const std::string& name) : name_(name) {
        fd_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd_ < 0) throw_file_error(name_, "open");
        try {
            struct stat info {};
            if (::fstat(fd_, &info) != 0) throw_file_error(name_, "open");
            if (S_ISDIR(info.st_mode)) throw DataError(name_ + ": expected a file, found a folder");
            if (S_ISREG(info.st_mode)) {
                total_ = info.st_size;
                ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
            }
            detect();
        } catch (...) {
            close();
            throw;
        }
    }
    ~Source() { close(); }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    // At least one byte into [out, out + size), or 0 at the end.
    std::size_t read(char* out, std::size_t size) {
        if (gzip_) return inflate_some(out, size);
        if (held_ > 0) {
            const std::size_t n = std::min(size, held_);
            std::memcpy(out, input_.get() + input_begin_, n);
            input_begin_ += n;
            held_ -= n;
            return n;
        }
        return read_raw(out, size);
    }

    // A read would not wait. Compressed bytes at hand may still not make a whole line: those are waited for.
    bool ready() const {
        if (held_ > 0 || finished_) return true;
        struct pollfd poller {
            fd_, POLLIN, 0
        };
        return ::poll(&poller, 1, 0) != 0;
    }

    std::int64_t total() const { return total_; }
    std::int64_t taken() const { return taken_; }

  private:
    std::size_t read_raw(char* out, std::size_t size) {
        while (true) {
            const ssize_t n = ::read(fd_, out, size);
            if (n >= 0) {
                taken_ += n;
                return static_cast<std::size_t>(n);
            }
            if (errno != EINTR) throw_file_error(name_, "read");
        }
    }

    // Compressed bytes not yet inflated are input_[input_begin_, + held_). False at the end of the file.
    bool refill() {
        input_begin_ = 0;
        held_ = read_raw(input_.get(), kBlock);
        return held_ > 0;
    }

    // Reads the first byte or two: only a first 0x1f asks for a second, so that a terminal is not waited for.
    void detect() {
        input_ = std::make_unique_for_overwrite<char[]>(kBlock);
        held_ = read_raw(input_.get(), kBlock);
        if (held_ == 1 && input_[0] == '\x1f') held_ += read_raw(input_.get() + 1, kBlock - 1);
        gzip_ = held_ >= 2 && input_[0] == '\x1f' && input_[1] == '\x8b';
        if (!gzip_) return;
        if (::inflateInit2(&stream_, 15 + 16) != Z_OK)
            throw DataError(name_ + ": cannot start decompression");
        stream_open_ = true;
    }

    std::size_t inflate_some(char* out, std::size_t size) {
        const auto room = static_cast<uInt>(std::min<std::size_t>(size, kBlock));
        while (!finished_) {
            if (held_ == 0 && !refill()) {
                if (!between_members_)
                    throw DataError(name_ + ": the gzip data ends too early: the file is truncated");
                finished_ = true;
                break;
            }
            if (between_members_ && !start_member()) continue;
            stream_.next_in = reinterpret_cast<Bytef*>(input_.get() + input_begin_);
            stream_.avail_in = static_cast<uInt>(held_);
            stream_.next_out = reinterpret_cast<Bytef*>(out);
            stream_.avail_out = room;
            const int status = ::inflate(&stream_, Z_NO_FLUSH);
            input_begin_ += held_ - stream_.avail_in;
            held_ = stream_.avail_in;
            if (status == Z_STREAM_END) {
                between_members_ = true;
            } else if (status != Z_OK && status != Z_BUF_ERROR) {
                throw DataError(fmt::format("{}: the gzip data is corrupt near byte {}: {}", name_,
                                            taken_ - static_cast<std::int64_t>(held_),
                                            stream_.msg != nullptr ? stream_.msg : "unknown error"));
            }
            if (stream_.avail_out < room) return room - stream_.avail_out;
        }
        return 0;
    }

    // After one gzip member: another follows (as pigz and bgzip write them), or zeros that pad the file.
    bool start_member() {
        if (input_[input_begin_] == '\0') {
            ++input_begin_;
            --held_;
            return false;
        }
        if (input_[input_begin_] != '\x1f')
            throw DataError(name_ + ": bytes that are not gzip follow the gzip data");
        ::inflateReset(&stream_);
        between_members_ = false;
        return true;
    }

    void close() {
        if (stream_open_) ::inflateEnd(&stream_);
        if (fd_ >= 0) ::close(fd_);
        stream_open_ = false;
        fd_ = -1;
    }

    std::string name_;
    int fd_ = -1;
    std::int64_t total_ = 0, taken_ = 0;
    std::unique_ptr<char[]> input_;
    std::size_t input_begin_ = 0, held_ = 0;
    bool gzip_ = false, stream_open_ = false, between_members_ = false, finished_ = false;
    z_stream stream_{};
};

LineReader::LineReader(const std::filesystem::path& path, std::int64_t max_line_bytes)
    : name_(path == "-" ? "standard input" : path.string()),
      max_line_bytes_(max_line_bytes),
      source_(std::make_unique<Source>(path, name_)),
      buffer_(std::make_unique<char[]>(kBlock + kPadding)),
      capacity_(kBlock) {}

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
