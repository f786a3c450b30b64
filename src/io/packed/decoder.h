// Decompression in one pass with bounded memory: gzip, zstd, xz, bzip2, and zip archives of one file.
#pragma once

#include <memory>
#include <string_view>

#include "io/packed/raw_input.h"

namespace elmo {

class Decoder {
  public:
    explicit Decoder(RawInput& input) : input_(input) {}
    virtual ~Decoder() = default;
    // At least one byte into [out, out + size), or 0 at the end. DataError for data that is corrupt or ends
    // too early.
    virtual std::size_t read(char* out, std::size_t size) = 0;
    bool finished() const { return finished_; }

  protected:
    [[noreturn]] void truncated(std::string_view format) const;
    [[noreturn]] void corrupt(std::string_view format, std::string_view why) const;

    RawInput& input_;
    bool finished_ = false;
};

std::unique_ptr<Decoder> decode_gzip(RawInput& input);
std::unique_ptr<Decoder> decode_zstd(RawInput& input);
std::unique_ptr<Decoder> decode_xz(RawInput& input);
std::unique_ptr<Decoder> decode_bzip2(RawInput& input);
// The one file of the archive; folders and what macOS adds (__MACOSX/) are passed over. DataError where there
// are more, at the latest when the first of them ends.
std::unique_ptr<Decoder> decode_zip(RawInput& input);

// The decoder that the first bytes call for; null where they are of no known format. Waits for no more bytes
// than it takes to rule the formats out.
std::unique_ptr<Decoder> decoder_of(RawInput& input);

}  // namespace elmo
