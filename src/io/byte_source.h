// The bytes of a file or of standard input, decompressed if they are gzip, zstd, xz, bzip2 or a zip
// archive of one file (detected from the first bytes, never from the name), in one pass with bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace elmo {

class RawInput;
class Decoder;

// How names of compressed files end, and the name without such an ending.
inline constexpr std::string_view kPackedEndings[] = {".gz", ".zst", ".xz", ".bz2", ".zip"};
std::string without_packed_ending(std::string name);

class ByteStream {
  public:
    virtual ~ByteStream() = default;
    // At least one byte into [out, out + size), or 0 at the end. DataError when the bytes cannot be had.
    virtual std::size_t read(char* out, std::size_t size) = 0;
};

class ByteSource : public ByteStream {
  public:
    // Path "-" is standard input; `name` is what messages call it. DataError when it cannot be opened or is a
    // folder.
    ByteSource(const std::filesystem::path& path, std::string name);
    ~ByteSource() override;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;

    // DataError too for compressed data that is corrupt or ends too early.
    std::size_t read(char* out, std::size_t size) override;

    // A read would not wait. Compressed bytes at hand may still not make a whole line: those are waited for.
    bool ready() const;
    bool is_compressed() const;

    // For progress: bytes of the file (compressed, where it is) taken so far and its size, 0 where unknown.
    std::int64_t total() const;
    std::int64_t taken() const;

  private:
    std::unique_ptr<RawInput> input_;
    std::unique_ptr<Decoder> decoder_;  // nothing for plain bytes
};

}  // namespace elmo
