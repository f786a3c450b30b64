#include "io/packed/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/error.h"

namespace elmo {
namespace {

// The file begins so, after `skipped` bytes. More is read only while what is there could still become this
// magic number, so that a terminal is not waited for.
bool begins(RawInput& input, std::string_view magic, std::size_t skipped = 0) {
    while (true) {
        std::string_view held = input.held();
        held.remove_prefix(std::min(skipped, held.size()));
        const std::size_t n = std::min(held.size(), magic.size());
        if (held.substr(0, n) != magic.substr(0, n)) return false;
        if (n == magic.size()) return true;
        if (!input.extend()) return false;
    }
}

bool begins_as_zstd(RawInput& input) {
    if (begins(input, "\x28\xb5\x2f\xfd")) return true;
    const auto first = static_cast<unsigned char>(input.held().front());
    // A frame to be skipped.
    return first >= 0x50 && first <= 0x5f && input.held().size() > 1 && begins(input, "\x2a\x4d\x18", 1);
}

// "BZh", the block size, and the mark of a block or of an empty file: words may begin with BZh.
bool begins_as_bzip2(RawInput& input) {
    if (!begins(input, "BZh")) return false;
    return begins(input, "\x31\x41\x59\x26\x53\x59", 4) || begins(input, "\x17\x72\x45\x38\x50\x90", 4);
}

}  // namespace

void Decoder::truncated(std::string_view format) const {
    throw DataError(
        fmt::format("{}: the {} data ends too early: the file is truncated", input_.name(), format));
}

void Decoder::corrupt(std::string_view format, std::string_view why) const {
    throw DataError(fmt::format("{}: the {} data is corrupt near byte {}: {}", input_.name(), format,
                                input_.position(), why));
}

std::unique_ptr<Decoder> decoder_of(RawInput& input) {
    if (input.held().empty()) return nullptr;
    if (begins(input, "\x1f\x8b")) return decode_gzip(input);
    if (begins_as_zstd(input)) return decode_zstd(input);
    if (begins(input, std::string_view("\xfd"
                                       "7zXZ\0",
                                       6)))
        return decode_xz(input);
    if (begins_as_bzip2(input)) return decode_bzip2(input);
    if (begins(input, "PK\x03\x04")) return decode_zip(input);
    return nullptr;
}

}  // namespace elmo
