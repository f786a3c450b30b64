#include "io/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "io/file_error.h"

namespace elmo {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
constexpr std::string_view kZstdSkippable = "\x2a\x4d\x18";  // after a byte from 0x50 to 0x5f

}  // namespace

// The file as it is, through one block.
class ByteSource::Input {
  public:
    Input(const std::filesystem::path& path, std::string name) : name_(std::move(name)) {
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
            block_ = std::make_unique_for_overwrite<char[]>(kBlock);
            refill();
        } catch (...) {
            ::close(fd_);
            throw;
        }
    }
    ~Input() { ::close(fd_); }

    // Bytes that are read but not taken yet.
    std::string_view held() const { return {block_.get() + begin_, end_ - begin_}; }
    void take(std::size_t n) { begin_ += n; }
    // False at the end of the file. The buffer must be empty.
    bool refill() {
        begin_ = 0;
        end_ = read_raw(block_.get(), kBlock);
        return end_ > 0;
    }
    // Reads more bytes after those held.
    bool extend() {
        const std::size_t n = read_raw(block_.get() + end_, kBlock - end_);
        end_ += n;
        return n > 0;
    }
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
    bool ready() const {
        struct pollfd poller {
            fd_, POLLIN, 0
        };
        return begin_ < end_ || ::poll(&poller, 1, 0) != 0;
    }
    const std::string& name() const { return name_; }
    std::int64_t total() const { return total_; }
    std::int64_t taken() const { return taken_; }
    // Of the next byte.
    std::int64_t position() const { return taken_ - static_cast<std::int64_t>(end_ - begin_); }

  private:
    std::string name_;
    int fd_ = -1;
    std::int64_t total_ = 0, taken_ = 0;
    std::unique_ptr<char[]> block_;
    std::size_t begin_ = 0, end_ = 0;
};

class ByteSource::Decoder {
  public:
    explicit Decoder(Input& input) : input_(input) {}
    virtual ~Decoder() = default;
    virtual std::size_t read(char* out, std::size_t size) = 0;
    bool finished() const { return finished_; }

  protected:
    Input& input_;
    bool finished_ = false;
};

class ByteSource::Gzip : public Decoder {
  public:
    explicit Gzip(Input& input) : Decoder(input) {
        if (::inflateInit2(&stream_, 15 + 16) != Z_OK)
            throw DataError(input.name() + ": cannot start decompression");
    }
    ~Gzip() override { ::inflateEnd(&stream_); }

    std::size_t read(char* out, std::size_t size) override {
        const auto room = static_cast<uInt>(std::min<std::size_t>(size, kBlock));
        while (!finished_) {
            if (input_.held().empty() && !input_.refill()) {
                if (!between_members_)
                    throw DataError(input_.name() + ": the gzip data ends too early: the file is truncated");
                finished_ = true;
                break;
            }
            if (between_members_ && !start_member()) continue;
            const std::string_view held = input_.held();
            stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(held.data()));
            stream_.avail_in = static_cast<uInt>(held.size());
            stream_.next_out = reinterpret_cast<Bytef*>(out);
            stream_.avail_out = room;
            const int status = ::inflate(&stream_, Z_NO_FLUSH);
            input_.take(held.size() - stream_.avail_in);
            if (status == Z_STREAM_END) {
                between_members_ = true;
            } else if (status != Z_OK && status != Z_BUF_ERROR) {
                throw DataError(fmt::format("{}: the gzip data is corrupt near byte {}: {}", input_.name(),
                                            input_.position(),
                                            stream_.msg != nullptr ? stream_.msg : "unknown error"));
            }
            if (stream_.avail_out < room) return room - stream_.avail_out;
        }
        return 0;
    }

  private:
    // After one gzip member: another follows (as pigz and bgzip write them), or zeros that pad the file.
    bool start_member() {
        const char first = input_.held().front();
        if (first == '\0') {
            input_.take(1);
            return false;
        }
        if (first != '\x1f')
            throw DataError(input_.name() + ": bytes that are not gzip follow the gzip data");
        ::inflateReset(&stream_);
        between_members_ = false;
        return true;
    }

    z_stream stream_{};
    bool between_members_ = false;
};

class ByteSource::Zstd : public Decoder {
  public:
    explicit Zstd(Input& input) : Decoder(input), stream_(::ZSTD_createDStream(), &::ZSTD_freeDStream) {
        if (!stream_) throw DataError(input.name() + ": cannot start decompression");
    }

    std::size_t read(char* out, std::size_t size) override {
        ZSTD_outBuffer room{out, std::min(size, kBlock), 0};
        while (!finished_) {
            // With a full buffer the stream may still hold decoded bytes that need no more input.
            if (!more_inside_ && input_.held().empty() && !input_.refill()) {
                if (inside_frame_)
                    throw DataError(input_.name() + ": the zstd data ends too early: the file is truncated");
                finished_ = true;
                break;
            }
            const std::string_view held = input_.held();
            ZSTD_inBuffer from{held.data(), held.size(), 0};
            const std::size_t status = ::ZSTD_decompressStream(stream_.get(), &room, &from);
            input_.take(from.pos);
            if (::ZSTD_isError(status))
                throw DataError(fmt::format("{}: the zstd data is corrupt near byte {}: {}", input_.name(),
                                            input_.position(), ::ZSTD_getErrorName(status)));
            inside_frame_ = status != 0;
            more_inside_ = inside_frame_ && room.pos == room.size;
            if (room.pos > 0) return room.pos;
        }
        return 0;
    }

  private:
    std::unique_ptr<ZSTD_DStream, decltype(&::ZSTD_freeDStream)> stream_;
    bool inside_frame_ = false, more_inside_ = false;
};

ByteSource::ByteSource(const std::filesystem::path& path, std::string name)
    : input_(std::make_unique<Input>(path, std::move(name))) {
    // Reads more only while the bytes so far could still become a magic number, so it does not wait for a
    // terminal.
    const auto begins = [&](std::string_view magic, std::size_t skipped) {
        while (true) {
            std::string_view held = input_->held();
            held.remove_prefix(std::min(skipped, held.size()));
            const std::size_t n = std::min(held.size(), magic.size());
            if (held.substr(0, n) != magic.substr(0, n)) return false;
            if (n == magic.size()) return true;
            if (!input_->extend()) return false;
        }
    };
    if (input_->held().empty()) return;
    const auto first = static_cast<unsigned char>(input_->held().front());
    if (begins(kGzip, 0))
        decoder_ = std::make_unique<Gzip>(*input_);
    else if (begins(kZstd, 0) ||
             (first >= 0x50 && first <= 0x5f && input_->held().size() > 1 && begins(kZstdSkippable, 1)))
        decoder_ = std::make_unique<Zstd>(*input_);
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(char* out, std::size_t size) {
    if (decoder_) return decoder_->read(out, size);
    const std::string_view held = input_->held();
    if (held.empty()) return input_->read_raw(out, size);
    const std::size_t n = std::min(size, held.size());
    std::memcpy(out, held.data(), n);
    input_->take(n);
    return n;
}

bool ByteSource::ready() const {
    return (decoder_ && decoder_->finished()) || input_->ready();
}
bool ByteSource::is_compressed() const {
    return decoder_ != nullptr;
}
std::int64_t ByteSource::total() const {
    return input_->total();
}
std::int64_t ByteSource::taken() const {
    return input_->taken();
}

}  // namespace elmo
