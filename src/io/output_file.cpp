#include "io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/file_error.h"

namespace elmo {
namespace {
constexpr std::size_t kBuffer = std::size_t{256} << 10;
// One write(2) moves at most 2 GiB; smaller pieces also keep a signal's delay short.
constexpr std::size_t kLargestWrite = std::size_t{64} << 20;
}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Open how) : path_(std::move(path)), shown_(path_) {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    if (how == Open::kTruncate) flags |= O_TRUNC;
    if (how == Open::kAppend) flags |= O_APPEND;
    if (how == Open::kExclusive) flags |= O_EXCL;
    fd_ = ::open(path_.c_str(), flags, 0666);
    if (fd_ < 0) throw_file_error(path_, "create");
}

OutputFile::~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      shown_(std::move(other.shown_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(std::exchange(other.size_, 0)),
      buffer_(std::move(other.buffer_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
    OutputFile taken(std::move(other));
    std::swap(path_, taken.path_);
    std::swap(shown_, taken.shown_);
    std::swap(fd_, taken.fd_);
    std::swap(size_, taken.size_);
    std::swap(buffer_, taken.buffer_);
    return *this;
}

// offset -1: at the file's own position.
void OutputFile::write_through(std::span<const std::byte> bytes, std::int64_t offset) {
    const std::size_t wanted = bytes.size();
    while (!bytes.empty()) {
        const std::size_t piece = std::min(bytes.size(), kLargestWrite);
        const ssize_t n =
            offset < 0 ? ::write(fd_, bytes.data(), piece) : ::pwrite(fd_, bytes.data(), piece, offset);
        if (n < 0) {
            if (errno == EINTR) continue;
            throw_file_error(
                shown_, fmt::format("write {} bytes ({} of them written)", wanted, wanted - bytes.size()));
        }
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        if (offset >= 0) offset += n;
    }
}

void OutputFile::write(std::span<const std::byte> bytes) {
    size_ += static_cast<std::int64_t>(bytes.size());
    if (buffer_.size() + bytes.size() > kBuffer) flush();
    if (bytes.size() >= kBuffer) {
        write_through(bytes, -1);
    } else {
        buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
}

void OutputFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    write_through(bytes, offset);
}

void OutputFile::reserve(std::int64_t bytes) {
    if (bytes <= 0) return;
    while (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) {
        if (errno == EINTR) continue;
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
            throw_file_error(shown_, fmt::format("set {} bytes of disk space aside", bytes));
        return;
    }
}

void OutputFile::flush() {
    // Forgotten first: after a failure the same bytes must not be written a second time.
    const std::string pending = std::exchange(buffer_, {});
    write_through(std::as_bytes(std::span(pending)), -1);
}

void OutputFile::sync() {
    flush();
    // EINVAL, EROFS: a device or pipe that has nothing to synchronise.
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS)
        throw_file_error(shown_, fmt::format("bring {} bytes to the disk", size_));
}

void OutputFile::close() {
    if (fd_ < 0) return;
    flush();
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR)
        throw_file_error(shown_, fmt::format("finish writing {} bytes", size_));
}

void sync_folder(const std::filesystem::path& folder) {
    const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw_file_error(folder, "open");
    const int error = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    if (error != 0 && error != EINVAL && error != EROFS) throw_file_error(folder, "bring to the disk", error);
}

}  // namespace elmo
