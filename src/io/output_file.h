// A file being written: a small buffer in front of write(2), every failure (a full disk above all) a
// DataError that names file, bytes and reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace elmo {

class OutputFile {
  public:
    enum class Open {
        kTruncate,   // create or empty
        kAppend,     // create or continue at the end
        kExclusive,  // create; DataError when it exists
    };

    OutputFile() = default;
    OutputFile(std::filesystem::path path, Open how);
    // Closes; bytes still buffered are lost unless flush() or close() came before.
    ~OutputFile();
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;

    bool is_open() const { return fd_ >= 0; }
    int descriptor() const { return fd_; }
    const std::filesystem::path& path() const { return path_; }
    // Messages name this file instead of path(): a temporary's target.
    void set_shown_path(std::filesystem::path shown) { shown_ = std::move(shown); }
    // Bytes appended so far, buffered ones included.
    std::int64_t size() const { return size_; }

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    // At a position, past the buffer. Not together with kAppend.
    void write_at(std::int64_t offset, std::span<const std::byte> bytes);
    // Reserves the disk space of the first `bytes`, so a full disk is an error now, not at the end. Does
    // nothing if the file system cannot.
    void reserve(std::int64_t bytes);

    void flush();  // to the kernel: survives the death of this process
    void sync();   // to the disk: survives the death of the machine
    void close();

  private:
    void write_through(std::span<const std::byte> bytes, std::int64_t offset);

    std::filesystem::path path_, shown_;
    int fd_ = -1;
    std::int64_t size_ = 0;
    std::string buffer_;
};

// Makes a rename in this folder survive the death of the machine.
void sync_folder(const std::filesystem::path& folder);

}  // namespace elmo
