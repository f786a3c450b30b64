// One file of the binary cache: named arrays one after another, then a footer that lists them, their source
// (the key) and their checksums. Written as a stream, read as a mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/views.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/mmap_file.h"

namespace elmo {

// What a cache file was made from, as readable lines. Two keys are equal if every source file has the same
// size and time of change and every relevant option has the same value.
class CacheKey {
  public:
    // `part` names what the file holds, "train.labels" for example.
    CacheKey(const std::filesystem::path& data, std::string part);

    void add(std::string_view name, std::string_view value);
    // An absent file is part of the key too: it may appear later.
    void add_file(const std::filesystem::path& file);

    const std::string& text() const { return text_; }
    // Differs between data sets, parts and options, not between versions of the source files, so that a
    // changed source replaces the old cache file.
    std::string file_name() const;

  private:
    std::string part_;
    std::string text_;     // everything
    std::string options_;  // all but sizes and times
};

struct CacheSection {
    std::string name;
    std::int64_t element_bytes = 0;
    std::int64_t offset = 0;  // multiple of 64
    std::int64_t count = 0;
    std::uint64_t hash = 0;
};

// The file appears under its name only at commit().
class CacheWriter {
  public:
    CacheWriter(const std::filesystem::path& folder, const CacheKey& key);

    // Opens a section; append() then adds to it until the next begin().
    template <class T>
    void begin(std::string name) {
        begin_section(std::move(name), sizeof(T));
    }
    template <class T>
    void append(std::span<const T> values) {
        append_bytes(std::as_bytes(values), sizeof(T));
    }
    template <class T>
    void section(std::string name, const std::vector<T>& values) {
        begin<T>(std::move(name));
        append(std::span<const T>(values));
    }
    void commit();

  private:
    void begin_section(std::string name, std::int64_t element_bytes);
    void append_bytes(std::span<const std::byte> bytes, std::int64_t element_bytes);
    void end_section();

    AtomicFile file_;
    std::string key_;
    std::int64_t size_ = 0;
    std::vector<CacheSection> sections_;
    Hash64 hash_;
};

class CacheFile {
  public:
    // Maps and checks the file that `key` names. Nothing when it is absent, was made from other sources or
    // is damaged in any way (`why` gives the reason).
    static std::optional<CacheFile> open(const std::filesystem::path& folder, const CacheKey& key,
                                         std::string* why = nullptr);
    // The file just committed; DataError when it cannot be opened.
    static CacheFile read_back(const std::filesystem::path& folder, const CacheKey& key);

    // The section of that name; DataError when it is missing or of another type.
    template <class T>
    std::span<const T> section(std::string_view name) const {
        const auto bytes = section_bytes(name, sizeof(T));
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
    // A section of one element; DataError when it has another number of them.
    template <class T>
    const T& value(std::string_view name) const {
        const auto values = section<T>(name);
        if (values.size() != 1) inconsistent(name);
        return values[0];
    }
    // DataError: the content of the section is impossible, though its checksum is right.
    [[noreturn]] void inconsistent(std::string_view name) const;
    std::int64_t bytes() const { return file_.size(); }

  private:
    std::span<const std::byte> section_bytes(std::string_view name, std::int64_t element_bytes) const;
    bool read_footer(const std::string& key, std::string& why);

    MappedFile file_;
    std::vector<CacheSection> sections_;
};

// The options that affect characters.
void add_encoding(const ReadOptions& reading, CacheKey& key);

// The folder of a data set's cache: reading.cache if given, else .elmo-cache in the data's folder if that is
// writable, else a separate folder under $XDG_CACHE_HOME/elmo or ~/.cache/elmo. Creates it.
std::filesystem::path cache_folder(const std::string& configured, const std::filesystem::path& data);

// A folder under $XDG_CACHE_HOME/elmo or ~/.cache/elmo. Creates it.
std::filesystem::path user_cache_folder(const std::string& name);

}  // namespace elmo
