// XXH64 (Collet's xxHash, 64 bits): detects damaged files at memory speed. Not for security.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace elmo {

// The hash of everything given to update(), in pieces of any size.
class Hash64 {
  public:
    explicit Hash64(std::uint64_t seed = 0);
    void update(std::span<const std::byte> bytes);
    void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
    std::uint64_t digest() const;

  private:
    std::uint64_t seed_;
    std::array<std::uint64_t, 4> lanes_;
    std::array<std::byte, 32> pending_{};
    std::size_t num_pending_ = 0;
    std::uint64_t length_ = 0;
};

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);
// The hash of a file's bytes; DataError when it cannot be read.
std::uint64_t hash_file(const std::filesystem::path& path);
// The same for an open file, which stays open; `path` is for messages.
std::uint64_t hash_file(int descriptor, const std::filesystem::path& path);
// 16 lower-case hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace elmo
