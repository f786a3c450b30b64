#include "sources/known_paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/checksum.h"
#include "io/file_error.h"
#include "sources/layout.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// "" where there is no such file or folder.
std::string mark_of(const fs::path& path) {
    struct statx info {};
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME | STATX_MTIME, &info) != 0) return "";
    // A file system without times of birth has at least that of the last change, but a folder's changes with
    // every cache that is made in it.
    const bool born = (info.stx_mask & STATX_BTIME) != 0;
    const statx_timestamp time = born                     ? info.stx_btime
                                 : S_ISREG(info.stx_mode) ? info.stx_mtime
                                                          : statx_timestamp{};
    return hash_text(hash64(fmt::format("{}\n{} {}.{}", fs::absolute(path).lexically_normal().string(),
                                        info.stx_ino, time.tv_sec, time.tv_nsec))) +
           ".known";
}

}  // namespace

fs::path user_cache() {
    if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0')
        return fs::path(xdg) / "elmo";
    if (const char* tilde = std::getenv("HOME"); tilde != nullptr && *tilde != '\0')
        return fs::path(tilde) / ".cache" / "elmo";
    return {};
}

std::vector<fs::path> cache_places(const std::string& configured, const fs::path& data) {
    if (!configured.empty()) return {configured};
    const fs::path absolute = fs::absolute(data).lexically_normal();
    std::error_code error;
    std::vector<fs::path> places = {(fs::is_directory(absolute, error) ? absolute : absolute.parent_path()) /
                                    ".elmo-cache"};
    if (const fs::path user = user_cache(); !user.empty())
        places.push_back(user / hash_text(hash64(absolute.string())));
    return places;
}

void mark_known_paths(const fs::path& cache_folder, const ReadOptions& reading) {
    std::vector<fs::path> paths = {reading.data, parse_validation(reading).file};
    if (reading.filter != "auto" && reading.filter != "none") paths.push_back(reading.filter);
    for (const fs::path& path : paths) {
        const std::string mark = path.empty() ? "" : mark_of(path);
        if (mark.empty()) continue;
        const fs::path file = cache_folder / mark;
        const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (descriptor < 0) throw_file_error(file, "create");
        ::close(descriptor);
    }
}

bool is_known_path(const ReadOptions& reading, const std::string& path) {
    const std::string mark = mark_of(path);
    const auto places = cache_places(reading.cache, reading.data);
    return !mark.empty() && std::any_of(places.begin(), places.end(), [&](const fs::path& place) {
        std::error_code error;
        return fs::symlink_status(place / mark, error).type() == fs::file_type::regular;
    });
}

void require_known_path(const ReadOptions& reading, const std::string& path, bool of_run,
                        const std::string& key) {
    if (!of_run || is_known_path(reading, path)) return;
    throw ConfigError(fmt::format(
        "{0}: expected a path that you name or that was read as data here before, found '{1}', which only "
        "the "
        "run names; a run may come from anybody: if it is the right one, {2}",
        key, quoted(path), key == "data" ? "name it as DATA" : fmt::format("give --set {}={}", key, path)));
}

}  // namespace elmo
