#include "cache/cache_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "elmo/error.h"
#include "formats/json_text.h"

namespace elmo {
namespace {

constexpr std::string_view kMagic = "elmo.cac";
constexpr int kVersion = 5;
constexpr std::int64_t kAlignment = 64;

// The last bytes of the file.
struct Trailer {
    char magic[8];
    std::int64_t footer_offset;
    std::int64_t footer_bytes;
    std::uint64_t footer_hash;
};

}  // namespace

CacheKey::CacheKey(const std::filesystem::path& data, std::string part) : part_(std::move(part)) {
    add("version", fmt::format("{}", kVersion));
    add("data", std::filesystem::absolute(data).lexically_normal().string());
    add("part", part_);
}

void CacheKey::add(std::string_view name, std::string_view value) {
    const std::string line = fmt::format("{} {}={}\n", name, value.size(), value);
    text_ += line;
    options_ += line;
}

void CacheKey::add_file(const std::filesystem::path& file) {
    struct stat info {};
    const std::string path = std::filesystem::absolute(file).lexically_normal().string();
    options_ += fmt::format("file {}={}\n", path.size(), path);
    if (::stat(file.c_str(), &info) != 0)
        text_ += fmt::format("file {}={} absent\n", path.size(), path);
    else
        text_ += fmt::format("file {}={} {} bytes, changed {}.{:09}\n", path.size(), path, info.st_size,
                             info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string CacheKey::file_name() const {
    return fmt::format("{}.{}", hash_text(hash64(options_)), part_);
}

void add_encoding(const ReadOptions& reading, CacheKey& key) {
    key.add("encoding", reading.encoding == TextEncoding::kLatin1 ? "latin-1 where no utf-8" : "utf-8");
    key.add("allow_invalid_utf8", reading.allow_invalid_utf8 ? "1" : "0");
}

CacheWriter::CacheWriter(const std::filesystem::path& folder, const CacheKey& key)
    : file_(folder / key.file_name(), AtomicFile::Links::kReplaced), key_(key.text()) {}

void CacheWriter::begin_section(std::string name, std::int64_t element_bytes) {
    end_section();
    static constexpr std::byte kZeros[kAlignment] = {};
    const std::int64_t padding = (kAlignment - size_ % kAlignment) % kAlignment;
    file_.write(std::span(kZeros).first(padding));
    size_ += padding;
    sections_.push_back({std::move(name), element_bytes, size_, 0, 0});
    hash_ = Hash64();
}

void CacheWriter::append_bytes(std::span<const std::byte> bytes, std::int64_t element_bytes) {
    if (sections_.empty() || sections_.back().element_bytes != element_bytes)
        throw Error("cache: append of another type than the section's");
    file_.write(bytes);
    hash_.update(bytes);
    size_ += static_cast<std::int64_t>(bytes.size());
}

void CacheWriter::end_section() {
    if (sections_.empty()) return;
    CacheSection& section = sections_.back();
    section.count = (size_ - section.offset) / section.element_bytes;
    section.hash = hash_.digest();
}

void CacheWriter::commit() {
    end_section();
    nlohmann::json footer{{"key", key_}, {"sections", nlohmann::json::array()}};
    for (const CacheSection& s : sections_)
        footer["sections"].push_back({{"name", s.name},
                                      {"element_bytes", s.element_bytes},
                                      {"offset", s.offset},
                                      {"count", s.count},
                                      {"hash", s.hash}});
    // Paths need not be UTF-8; invalid bytes are replaced on both sides of the comparison.
    const std::string text = json_string(footer, -1, true);
    Trailer trailer{{}, size_, static_cast<std::int64_t>(text.size()), hash64(text)};
    std::memcpy(trailer.magic, kMagic.data(), sizeof trailer.magic);
    file_.write(text);
    file_.write(std::as_bytes(std::span(&trailer, 1)));
    file_.commit();
}

bool CacheFile::read_footer(const std::string& key, std::string& why) {
    const auto bytes = file_.bytes();
    Trailer trailer;
    why = "it is damaged";
    if (bytes.size() < sizeof trailer) return false;
    std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof trailer, sizeof trailer);
    const auto end = static_cast<std::int64_t>(bytes.size() - sizeof trailer);
    if (std::memcmp(trailer.magic, kMagic.data(), sizeof trailer.magic) != 0 || trailer.footer_offset < 0 ||
        trailer.footer_offset > end || trailer.footer_bytes != end - trailer.footer_offset)
        return false;
    const auto footer_bytes = bytes.subspan(trailer.footer_offset, trailer.footer_bytes);
    if (hash64(footer_bytes) != trailer.footer_hash) return false;
    const auto footer = parse_json({reinterpret_cast<const char*>(footer_bytes.data()), footer_bytes.size()},
                                   file_.path().string());
    const auto wanted = json_string(nlohmann::json(key), -1, true);
    if (json_string(footer.at("key"), -1, true) != wanted) {
        why = "the data or the options have changed";
        return false;
    }
    std::int64_t next = 0;  // each is hashed: none of the same bytes as another
    for (const auto& s : footer.at("sections")) {
        for (const char* number : {"element_bytes", "offset", "count", "hash"})
            if (!s.at(number).is_number_integer()) return false;
        CacheSection section{s.at("name"), s.at("element_bytes"), s.at("offset"), s.at("count"),
                             s.at("hash")};
        if (section.element_bytes < 1 || section.offset < next || section.offset > trailer.footer_offset ||
            section.offset % kAlignment != 0 || section.count < 0 ||
            section.count > (trailer.footer_offset - section.offset) / section.element_bytes)
            return false;
        if (hash64(bytes.subspan(section.offset, section.count * section.element_bytes)) != section.hash)
            return false;
        next = section.offset + section.count * section.element_bytes;
        sections_.push_back(std::move(section));
    }
    return true;
}

std::optional<CacheFile> CacheFile::open(const std::filesystem::path& folder, const CacheKey& key,
                                         std::string* why) {
    CacheFile cache;
    std::string reason = "there is none";
    bool good = false;
    const std::filesystem::path path = folder / key.file_name();
    std::error_code ignored;
    // A data set from somebody else may bring a cache along: its links lead nowhere.
    if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)) &&
        !std::filesystem::is_symlink(path, ignored)) {
        try {
            cache.file_ = MappedFile(path);
            good = cache.read_footer(key.text(), reason);
        } catch (const std::exception& error) {
            reason = error.what();
        }
    }
    if (why != nullptr) *why = reason;
    if (!good) return std::nullopt;
    return cache;
}

CacheFile CacheFile::read_back(const std::filesystem::path& folder, const CacheKey& key) {
    std::string why;
    auto file = open(folder, key, &why);
    if (!file)
        throw DataError(fmt::format("{}: the cache just written cannot be read back: {}",
                                    (folder / key.file_name()).string(), why));
    return std::move(*file);
}

void CacheFile::inconsistent(std::string_view name) const {
    throw DataError(
        fmt::format("{}: the cache is inconsistent in '{}'; delete the file", file_.path().string(), name));
}

std::span<const std::byte> CacheFile::section_bytes(std::string_view name, std::int64_t element_bytes) const {
    for (const CacheSection& section : sections_)
        if (section.name == name && section.element_bytes == element_bytes)
            return file_.bytes().subspan(section.offset, section.count * section.element_bytes);
    throw DataError(fmt::format("{}: expected an array '{}' of {}-byte elements, found none; delete the file",
                                file_.path().string(), name, element_bytes));
}

}  // namespace elmo
