#include "formats/zip_writer.h"

#include <zlib.h>

#include <limits>

namespace elmo {
namespace {

template <class T>
void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);  // zip is little-endian, as this machine
}

constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path) : file_(path, OutputFile::Open::kTruncate) {}

void ZipWriter::add(const std::string& name, const std::vector<std::span<const std::byte>>& pieces) {
    std::uint64_t size = 0;
    uLong crc = ::crc32(0, nullptr, 0);
    for (const auto piece : pieces) {
        size += piece.size();
        crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    }
    const auto offset = static_cast<std::uint64_t>(file_.size());
    // Sizes are always in the 64-bit field: readers take them from there if the short ones are full.
    std::string extra;
    put<std::uint16_t>(extra, 1);
    put<std::uint16_t>(extra, 16);
    put<std::uint64_t>(extra, size);
    put<std::uint64_t>(extra, size);
    const auto common = [&](std::uint16_t extra_bytes) {
        std::string fields;
        put<std::uint16_t>(fields, 45);
        put<std::uint16_t>(fields, 0);
        put<std::uint16_t>(fields, 0);
        put<std::uint16_t>(fields, 0);
        put<std::uint16_t>(fields, 0x21);  // 1 January 1980: the same bytes every time
        put<std::uint32_t>(fields, static_cast<std::uint32_t>(crc));
        put<std::uint32_t>(fields, kMost);
        put<std::uint32_t>(fields, kMost);
        put<std::uint16_t>(fields, static_cast<std::uint16_t>(name.size()));
        put<std::uint16_t>(fields, extra_bytes);
        return fields;
    };
    file_.write("PK\x03\x04" + common(20) + name + extra);
    for (const auto piece : pieces) file_.write(piece);

    put<std::uint64_t>(extra, offset);
    extra[2] = 24;
    directory_ += "PK\x01\x02";
    put<std::uint16_t>(directory_, 45);
    directory_ += common(28);
    put<std::uint16_t>(directory_, 0);
    put<std::uint16_t>(directory_, 0);
    put<std::uint16_t>(directory_, 0);
    put<std::uint32_t>(directory_, 0);
    put<std::uint32_t>(directory_, kMost);
    directory_ += name + extra;
    ++members_;
}

void ZipWriter::finish() {
    const auto at = static_cast<std::uint64_t>(file_.size());
    const auto count = static_cast<std::uint64_t>(members_);
    file_.write(directory_);
    std::string end = "PK\x06\x06";
    put<std::uint64_t>(end, 44);
    put<std::uint16_t>(end, 45);
    put<std::uint16_t>(end, 45);
    put<std::uint32_t>(end, 0);
    put<std::uint32_t>(end, 0);
    put<std::uint64_t>(end, count);
    put<std::uint64_t>(end, count);
    put<std::uint64_t>(end, directory_.size());
    put<std::uint64_t>(end, at);
    end += "PK\x06\x07";
    put<std::uint32_t>(end, 0);
    put<std::uint64_t>(end, at + directory_.size());
    put<std::uint32_t>(end, 1);
    end += "PK\x05\x06";
    put<std::uint32_t>(end, 0);
    put<std::uint16_t>(end, static_cast<std::uint16_t>(count));
    put<std::uint16_t>(end, static_cast<std::uint16_t>(count));
    put<std::uint32_t>(end, kMost);
    put<std::uint32_t>(end, kMost);
    put<std::uint16_t>(end, 0);
    file_.write(end);
    file_.close();
}

}  // namespace elmo
