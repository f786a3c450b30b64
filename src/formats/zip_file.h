// A zip archive that is read in place: its directory, and each member as a stream (stored or deflated, zip64
// too). Sizes and offsets in the archive are checked before they are used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
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

    const std::vector<ZipMember>& members() const { return members_; }
    const ZipMember* find(std::string_view name) const;  // nullptr when absent
    // Valid while the ZipFile lives. Reading throws DataError for damage, a wrong checksum at the end
    // included.
    std::unique_ptr<ByteStream> open(const ZipMember& member) const;

    // Whether the file starts like a zip archive.
    static bool is_zip(const std::filesystem::path& path);

  private:
    void read_directory();
    [[noreturn]] void damaged(std::string_view what) const;

    MappedFile file_;
    std::vector<ZipMember> members_;
};

}  // namespace elmo
