// The folder of a data set's binary cache.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache_file.h"
#include "elmo/error.h"
#include "sources/known_paths.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

bool make_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// A folder without any write bit is meant to stay unchanged, even if root could write to it.
bool is_meant_to_be_written(const fs::path& folder) {
    struct stat info {};
    return ::stat(folder.c_str(), &info) == 0 && (info.st_mode & 0222) != 0 &&
           ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

fs::path cache_folder(const std::string& configured, const fs::path& data) {
    if (!configured.empty()) {
        if (!make_folder(configured))
            throw ConfigError(
                fmt::format("cache: expected a folder that can be written, found '{}'", configured));
        return configured;
    }
    const std::vector<fs::path> places = cache_places(configured, data);
    const fs::path home = places.front().parent_path();
    // A link there may have come with the data: nobody has named where it leads.
    std::error_code error;
    if (is_meant_to_be_written(home) && !fs::is_symlink(places.front(), error) && make_folder(places.front()))
        return places.front();
    if (places.size() < 2 || !make_folder(places.back()))
        throw ConfigError(
            fmt::format("neither {} nor the user's cache folder can be written; name a folder with --cache",
                        places.front().string()));
    return places.back();
}

fs::path user_cache_folder(const std::string& name) {
    const fs::path user = user_cache();
    if (user.empty() || !make_folder(user / name))
        throw ConfigError("the user's cache folder cannot be written; name a folder with --cache");
    return user / name;
}

}  // namespace elmo
