// elmo cache: the folders with caches in them, and the files in these that are elmo's.
#include <algorithm>
#include <filesystem>
#include <set>

#include "cache/cache_file.h"
#include "elmo/cache.h"
#include "elmo/error.h"
#include "sources/known_paths.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

bool is_hash(std::string_view text) {
    return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Cache files and parts of an import are named by a hash and what they hold, kept standard input by its hash.
bool is_own(const fs::directory_entry& entry) {
    std::error_code error;
    if (entry.symlink_status(error).type() != fs::file_type::regular) return false;
    const std::string name = entry.path().filename().string();
    if (name.starts_with("stdin-")) return is_hash(std::string_view(name).substr(6));
    static constexpr std::string_view kParts[] = {".labels",   ".tokens", ".filter", "names",
                                                  "tokenizer", ".part",   ".known",  ".augment"};
    return name.size() > 17 && is_hash(std::string_view(name).substr(0, 16)) && name[16] == '.' &&
           std::any_of(std::begin(kParts), std::end(kParts),
                       [&](std::string_view part) { return name.ends_with(part); });
}

std::vector<fs::path> own_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (is_own(*it)) files.push_back(it->path());
    return files;
}

std::set<fs::path> folders_of(const std::vector<std::string>& places) {
    std::set<fs::path> folders;
    const auto add = [&](const fs::path& folder) {
        std::error_code error;
        if (fs::is_directory(folder, error)) folders.insert(fs::weakly_canonical(folder, error));
    };
    const fs::path user = user_cache();
    for (const std::string& place : places) {
        std::error_code error;
        if (!fs::exists(place, error))
            throw DataError(place + ": expected a data set or a cache folder, found nothing there");
        const fs::path absolute = fs::absolute(place).lexically_normal();
        add(absolute);
        add((fs::is_directory(absolute, error) ? absolute : absolute.parent_path()) / ".elmo-cache");
        if (!user.empty()) add(user / hash_text(hash64(absolute.string())));
    }
    if (places.empty()) {
        add(".elmo-cache");
        std::error_code error;
        for (fs::directory_iterator it(user, error), end; !error && it != end; it.increment(error)) {
            add(it->path());
            add(it->path() / ".elmo-cache");
        }
    }
    return folders;
}

}  // namespace

CacheList list_caches(const std::vector<std::string>& places) {
    CacheList list;
    for (const fs::path& folder : folders_of(places)) {
        CacheUse use{folder.string()};
        for (const fs::path& file : own_files(folder)) {
            std::error_code error;
            const auto bytes = fs::file_size(file, error);
            if (error) continue;
            ++use.files;
            use.bytes += static_cast<std::int64_t>(bytes);
        }
        if (use.files == 0) continue;
        list.files += use.files;
        list.bytes += use.bytes;
        list.caches.push_back(std::move(use));
    }
    return list;
}

CacheList clear_caches(const std::vector<std::string>& places) {
    CacheList list = list_caches(places);
    for (const CacheUse& use : list.caches) {
        for (const fs::path& file : own_files(use.folder)) {
            std::error_code error;
            if (!fs::remove(file, error) && error)
                throw DataError(file.string() + ": cannot be removed: " + error.message());
        }
        std::error_code ignored;
        if (fs::path(use.folder).filename() == ".elmo-cache" && fs::is_empty(use.folder, ignored))
            fs::remove(use.folder, ignored);
    }
    return list;
}

}  // namespace elmo
