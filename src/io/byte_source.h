// The bytes of a file or of standard input, decompressed if they are gzip or zstd (detected from the first
// bytes, never from the name), in one pass with bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace elmo {

class ByteStream {
  public:
    virtual ~ByteStream() = default;
    // At least one byte into [out, out + size), or 0 at the end. DataError if the bytes cannot be read.
    virtual std::size_t read(char* out, std::size_t size) = 0;
};

class ByteSource : public ByteStream {
  public:
    // Path "-" is standard input; messages use `name`. DataError if it cannot be opened or is a folder.
    ByteSource(const std::filesystem::path& path, std::string name);
    ~ByteSource() override;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;

    // DataError too for compressed data that is corrupt or ends too early.
    std::size_t read(char* out, std::size_t size) override;

    // A read would not wait. Available compressed bytes may still not make a whole line; reading one may then
    // wait.
    bool ready() const;
    bool is_compressed() const;

    // For progress: bytes of the file (compressed, where it is) taken so far and its size, 0 where unknown.
    std::int64_t total() const;
    std::int64_t taken() const;

  private:
    class Input;
    class Decoder;
    class Gzip;
    class Zstd;
    std::unique_ptr<Input> input_;
    std::unique_ptr<Decoder> decoder_;  // nothing for plain bytes
};

}  // namespace elmo
