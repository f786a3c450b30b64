#include "formats/zip_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/packed/inflater.h"

namespace elmo {
namespace {

constexpr std::uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint32_t kCentral = 0x02014b50, kLocal = 0x04034b50;
constexpr std::int64_t kEndBytes = 22, kCentralBytes = 46, kLocalBytes = 30;

template <class T>
T number(std::span<const std::byte> bytes, std::int64_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);  // zip is little-endian, as this machine
    return value;
}

class MemberStream : public ByteStream {
  public:
    MemberStream(std::span<const std::byte> packed, const ZipMember& member, std::string where)
        : packed_(packed), member_(member), where_(std::move(where)), inflater_(Inflater::kRaw, where_) {}

    std::size_t read(char* out, std::size_t size) override {
        size = std::min(size, std::size_t{1} << 24);
        const std::size_t n = member_.method == 0 ? copy(out, size) : inflate_some(out, size);
        crc_ = ::crc32(crc_, reinterpret_cast<const Bytef*>(out), static_cast<uInt>(n));
        produced_ += static_cast<std::int64_t>(n);
        if (produced_ > member_.bytes) fail("is longer than the archive's directory says");
        if (n == 0 && size > 0) {
            if (produced_ != member_.bytes) fail("is shorter than the archive's directory says");
            if (crc_ != member_.crc) fail("has a wrong checksum");
        }
        return n;
    }

  private:
    [[noreturn]] void fail(const char* what) const {
        throw DataError(
            fmt::format("{}: the member '{}' {}: the file is damaged", where_, quoted(member_.name), what));
    }
    std::size_t copy(char* out, std::size_t size) {
        const std::size_t n = std::min(size, packed_.size());
        if (n > 0) std::memcpy(out, packed_.data(), n);
        packed_ = packed_.subspan(n);
        return n;
    }
    std::size_t inflate_some(char* out, std::size_t size) {
        while (!ended_) {
            const Inflater::Step step =
                inflater_.step({reinterpret_cast<const char*>(packed_.data()), packed_.size()}, out, size);
            packed_ = packed_.subspan(step.taken);
            if (step.error != nullptr) fail("cannot be decompressed");
            ended_ = step.ended;
            if (step.made > 0) return step.made;
            if (!ended_ && packed_.empty()) fail("ends too early");
        }
        return 0;
    }

    std::span<const std::byte> packed_;
    const ZipMember member_;
    std::string where_;
    Inflater inflater_;
    bool ended_ = false;
    std::uint32_t crc_ = 0;
    std::int64_t produced_ = 0;
};

}  // namespace

ZipFile::ZipFile(const std::filesystem::path& path) : ZipFile(MappedFile(path)) {}

ZipFile::ZipFile(MappedFile file) : file_(std::move(file)) {
    read_directory();
}

void ZipFile::damaged(std::string_view what) const {
    throw DataError(fmt::format("{}: expected a zip archive, found {}", file_.path().string(), what));
}

void ZipFile::read_directory() {
    const auto bytes = file_.bytes();
    const auto size = static_cast<std::int64_t>(bytes.size());
    std::int64_t end = size - kEndBytes;
    const std::int64_t first = std::max<std::int64_t>(0, end - 0xffff);  // a comment may follow
    while (end >= first && number<std::uint32_t>(bytes, end) != kEnd) --end;
    if (end < first) damaged("no directory at its end (is it truncated?)");
    std::int64_t count = number<std::uint16_t>(bytes, end + 10);
    std::int64_t offset = number<std::uint32_t>(bytes, end + 16);
    if (end >= 20 && number<std::uint32_t>(bytes, end - 20) == kLocator64) {
        const auto at = static_cast<std::int64_t>(number<std::uint64_t>(bytes, end - 12));
        if (at < 0 || at > size - 56 || number<std::uint32_t>(bytes, at) != kEnd64)
            damaged("a 64-bit directory that is not where it should be");
        count = static_cast<std::int64_t>(number<std::uint64_t>(bytes, at + 32));
        offset = static_cast<std::int64_t>(number<std::uint64_t>(bytes, at + 48));
    }
    for (std::int64_t i = 0; i < count; ++i) {
        if (offset < 0 || offset > size - kCentralBytes || number<std::uint32_t>(bytes, offset) != kCentral)
            damaged("a damaged directory");
        const std::int64_t name_bytes = number<std::uint16_t>(bytes, offset + 28);
        const std::int64_t extra_bytes = number<std::uint16_t>(bytes, offset + 30);
        const std::int64_t comment_bytes = number<std::uint16_t>(bytes, offset + 32);
        const std::int64_t name_at = offset + kCentralBytes, extra_at = name_at + name_bytes;
        if (extra_at + extra_bytes + comment_bytes > size) damaged("a damaged directory");
        ZipMember member;
        member.name.assign(reinterpret_cast<const char*>(bytes.data()) + name_at, name_bytes);
        member.method = number<std::uint16_t>(bytes, offset + 10);
        member.crc = number<std::uint32_t>(bytes, offset + 16);
        std::uint64_t fields[] = {number<std::uint32_t>(bytes, offset + 24),
                                  number<std::uint32_t>(bytes, offset + 20),
                                  number<std::uint32_t>(bytes, offset + 42)};  // bytes, packed, header
        // The zip64 field holds, in this order, those of the three that did not fit.
        for (std::int64_t at = extra_at; at + 4 <= extra_at + extra_bytes;) {
            const auto id = number<std::uint16_t>(bytes, at);
            const std::int64_t length = number<std::uint16_t>(bytes, at + 2);
            std::int64_t from = at + 4;
            const std::int64_t to = from + length;
            if (to > extra_at + extra_bytes) damaged("a damaged directory");
            for (std::uint64_t& field : fields)
                if (id == 1 && field == 0xffffffffu && from + 8 <= to) {
                    field = number<std::uint64_t>(bytes, from);
                    from += 8;
                }
            at = to;
        }
        for (const std::uint64_t field : fields)
            if (field > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 2))
                damaged("a damaged directory");
        member.bytes = static_cast<std::int64_t>(fields[0]);
        member.packed_bytes = static_cast<std::int64_t>(fields[1]);
        member.header_offset = static_cast<std::int64_t>(fields[2]);
        members_.push_back(std::move(member));
        offset = extra_at + extra_bytes + comment_bytes;
    }
}

const ZipMember* ZipFile::find(std::string_view name) const {
    const auto at = std::find_if(members_.begin(), members_.end(),
                                 [&](const ZipMember& member) { return member.name == name; });
    return at == members_.end() ? nullptr : &*at;
}

std::span<const std::byte> ZipFile::packed(const ZipMember& member) const {
    const auto bytes = file_.bytes();
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (member.header_offset > size - kLocalBytes ||
        number<std::uint32_t>(bytes, member.header_offset) != kLocal)
        damaged("a member that is not where the directory says");
    const std::int64_t begin = member.header_offset + kLocalBytes +
                               number<std::uint16_t>(bytes, member.header_offset + 26) +
                               number<std::uint16_t>(bytes, member.header_offset + 28);
    if (begin > size || member.packed_bytes > size - begin)
        damaged(fmt::format("the member '{}' cut off", quoted(member.name)));
    return bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(member.packed_bytes));
}

std::span<const std::byte> ZipFile::stored(const ZipMember& member) const {
    if (member.method != 0 || member.packed_bytes != member.bytes)
        throw DataError(fmt::format("{}: expected the member '{}' stored, found it compressed",
                                    file_.path().string(), quoted(member.name)));
    return packed(member);
}

std::unique_ptr<ByteStream> ZipFile::open(const ZipMember& member) const {
    const std::string where = file_.path().string();
    if (member.method != 0 && member.method != 8)
        throw DataError(fmt::format("{}: expected the member '{}' stored or deflated, found method {}", where,
                                    quoted(member.name), member.method));
    return std::make_unique<MemberStream>(packed(member), member, where);
}

bool ZipFile::is_zip(const std::filesystem::path& path) {
    char magic[4] = {};
    std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
    return std::string_view(magic, 4) == std::string_view("PK\x03\x04", 4);
}

}  // namespace elmo
