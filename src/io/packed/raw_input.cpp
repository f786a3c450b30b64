#include "io/packed/raw_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/nearest_file.h"
#include "io/file_error.h"

namespace elmo {

RawInput::RawInput(const std::filesystem::path& path, std::string name) : name_(std::move(name)) {
    fd_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0 && errno == ENOENT)
        throw DataError(name_ + ": cannot open: " + std::strerror(errno) + did_you_mean_file(path));
    if (fd_ < 0) throw_file_error(name_, "open");
    try {
        struct stat info {};
        if (::fstat(fd_, &info) != 0) throw_file_error(name_, "open");
        if (S_ISDIR(info.st_mode)) throw DataError(name_ + ": expected a file, found a folder");
        if (S_ISREG(info.st_mode)) {
            total_ = info.st_size;
            ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
        }
        // A small file needs no more; one without a known size may be of any.
        if (total_ > 0) size_ = std::min(kBlock, static_cast<std::size_t>(total_) + 1);
        block_ = std::make_unique_for_overwrite<char[]>(size_);
        refill();
    } catch (...) {
        ::close(fd_);
        throw;
    }
}

RawInput::~RawInput() {
    ::close(fd_);
}

bool RawInput::refill() {
    begin_ = 0;
    end_ = read_raw(block_.get(), size_);
    return end_ > 0;
}

bool RawInput::extend() {
    if (begin_ > 0) {
        std::memmove(block_.get(), block_.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    const std::size_t n = read_raw(block_.get() + end_, size_ - end_);
    end_ += n;
    return n > 0;
}

std::size_t RawInput::read_raw(char* out, std::size_t size) {
    while (true) {
        const ssize_t n = ::read(fd_, out, size);
        if (n >= 0) {
            taken_ += n;
            return static_cast<std::size_t>(n);
        }
        if (errno != EINTR) throw_file_error(name_, "read");
    }
}

bool RawInput::ready() const {
    struct pollfd poller {
        fd_, POLLIN, 0
    };
    return begin_ < end_ || ::poll(&poller, 1, 0) != 0;
}

}  // namespace elmo
