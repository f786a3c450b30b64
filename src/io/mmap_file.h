// A file mapped into memory: read without copying, paged in as it is touched. Used for the data cache,
// checkpoints and the head at prediction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace elmo {

// Owns one mapping; move-only, and a move keeps the addresses. If another process truncates the file while it
// is mapped, touching the lost part ends this process with SIGBUS. elmo itself replaces files and never
// truncates them.
class MappedFile {
  public:
    // kDone: the pages leave this process's memory until they are touched again.
    enum class Access { kNormal, kSequential, kRandom, kSoon, kDone };

    MappedFile() = default;
    // DataError when the file is missing, unreadable or not a regular file. An empty file maps to an empty
    // span.
    explicit MappedFile(std::filesystem::path path);
    // The same for an open file, which stays open; `path` is for messages.
    MappedFile(std::filesystem::path path, int descriptor);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    const std::filesystem::path& path() const { return path_; }
    std::int64_t size() const { return size_; }
    std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

    // A hint to the kernel about what comes next; never fails.
    void advise(Access access) const;
    // kDone of the pages that hold these bytes; nothing for bytes that are not of this file.
    void drop(std::span<const std::byte> part) const;

  private:
    void map(int descriptor);

    std::filesystem::path path_;
    std::byte* data_ = nullptr;
    std::int64_t size_ = 0;
};

}  // namespace elmo
