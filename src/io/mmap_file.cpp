#include "io/mmap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "io/file_error.h"

namespace elmo {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw_file_error(path_, "open");
    try {
        map(fd);
    } catch (...) {
        ::close(fd);
        throw;
    }
    ::close(fd);
}

MappedFile::MappedFile(std::filesystem::path path, int descriptor) : path_(std::move(path)) {
    map(descriptor);
}

void MappedFile::map(int descriptor) {
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) throw_file_error(path_, "map");
    if (!S_ISREG(info.st_mode))
        throw DataError(fmt::format("{}: expected a file, found something else", path_.string()));
    if (info.st_size == 0) return;
    void* address =
        ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) throw_file_error(path_, "map");
    data_ = static_cast<std::byte*>(address);
    size_ = info.st_size;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(size_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    MappedFile taken(std::move(other));
    std::swap(path_, taken.path_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
}

void MappedFile::advise(Access access) const {
    if (data_ == nullptr) return;
    int advice = MADV_NORMAL;
    if (access == Access::kSequential) advice = MADV_SEQUENTIAL;
    if (access == Access::kRandom) advice = MADV_RANDOM;
    if (access == Access::kSoon) advice = MADV_WILLNEED;
    if (access == Access::kDone) advice = MADV_DONTNEED;
    ::madvise(data_, static_cast<std::size_t>(size_), advice);
}

void MappedFile::drop(std::span<const std::byte> part) const {
    const std::byte* const end = data_ + size_;
    if (part.empty() || part.data() < data_ || part.data() + part.size() > end) return;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t before =
        static_cast<std::size_t>(part.data() - data_) % page;  // a mapping begins at a page
    ::madvise(const_cast<std::byte*>(part.data()) - before, before + part.size(), MADV_DONTNEED);
}

}  // namespace elmo
