// A zip archive that is read in place: its directory, and each member as a stream (stored or deflated, zip64
// too). Sizes and offsets in the archive are checked before they are used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/byte_source.h"
#include "io/mmap_file.h"

namespace elmo {

struct ZipMember {
    std::string name;
    int method = 0;  // 0 stored, 8 deflated
    std::uint32_t crc = 0;
    std::int64_t packed_bytes = 0, bytes = 0;
    std::int64_t header_offset = 0;
};

class ZipFile {
  public:
    // DataError if the file is not a zip archive or its directory is damaged.
    explicit ZipFile(const std::filesystem::path& path);
    explicit ZipFile(MappedFile file);

    const std::vector<ZipMember>& members() const { return members_; }
    const ZipMember* find(std::string_view name) const;  // nullptr when absent
    // Valid while the ZipFile lives. Reading throws DataError for damage, a wrong checksum at the end
    // included.
    std::unique_ptr<ByteStream> open(const ZipMember& member) const;

    // The bytes of a member that is not compressed, in the mapped file; its checksum is not looked at.
    // DataError if it is compressed or damaged.
    std::span<const std::byte> stored(const ZipMember& member) const;
    // The file, whose bytes stay where they are.
    MappedFile take_file() && { return std::move(file_); }

    // Whether the file starts like a zip archive.
    static bool is_zip(const std::filesystem::path& path);

  private:
    void read_directory();
    std::span<const std::byte> packed(const ZipMember& member) const;
    [[noreturn]] void damaged(std::string_view what) const;

    MappedFile file_;
    std::vector<ZipMember> members_;
};

}  // namespace elmo
