#include "sources/known_paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text_util.h"
#include "config/rows_path.h"
#include "elmo/error.h"
#include "io/checksum.h"
#include "io/file_error.h"
#include "sources/foreign.h"
#include "sources/layout.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// The path as it may stand in a command that people copy, whoever made the run that names it.
std::string path_in_command(const std::string& path) {
    const bool plain =
        std::none_of(path.begin(), path.end(), [](unsigned char c) { return c < ' ' || c == 127; });
    return plain ? shell_word(path) : "PATH";
}

// What tells this very file or folder from all others on this machine; "" where there is none.
std::string identity_of(const fs::path& path) {
    struct statx info {};
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) return "";
    // Without a time of birth, or in the image of a machine that has none but 0, there is only a number that
    // can be guessed.
    if ((info.stx_mask & STATX_BTIME) == 0 || info.stx_btime.tv_sec == 0) return "";
    return fmt::format("{} {}.{}", info.stx_ino, info.stx_btime.tv_sec, info.stx_btime.tv_nsec);
}

// Random bytes that only this user knows, made when they are first needed; "" where they cannot be kept.
std::string secret_of_user(bool make) {
    using Secret = std::array<char, 32>;
    const fs::path folder = user_cache(), file = folder / "known.key";
    if (folder.empty()) return "";
    Secret secret;
    const auto opened = [&](int flags) { return ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600); };
    if (const int there = opened(O_RDONLY); there >= 0) {
        const ssize_t got = ::read(there, secret.data(), secret.size());
        ::close(there);
        return got == std::ssize(secret) ? std::string(secret.data(), secret.size()) : "";
    }
    std::error_code ignored;
    if (!make || ::getrandom(secret.data(), secret.size(), 0) != std::ssize(secret)) return "";
    fs::create_directories(folder, ignored);
    const int made = opened(O_WRONLY | O_CREAT | O_EXCL);
    if (made < 0) return "";
    const bool whole = ::write(made, secret.data(), secret.size()) == std::ssize(secret);
    ::close(made);
    if (!whole) ::unlink(file.c_str());
    return whole ? std::string(secret.data(), secret.size()) : "";
}

// Names of marks, each of which is enough: by the path and the file itself, and by the path and the user's
// secret, so that a file which replaced another one under its name stays known.
std::vector<std::string> marks_of(const fs::path& path, bool make_secret) {
    const fs::path absolute = fs::absolute(path).lexically_normal();
    std::vector<std::string> marks;
    for (const std::string& unknown : {identity_of(path), secret_of_user(make_secret)})
        if (!unknown.empty())
            marks.push_back(hash_text(hash64(absolute.string() + "\n" + unknown)) + ".known");
    return marks;
}

bool is_marked(const fs::path& path, const std::vector<fs::path>& places) {
    const std::vector<std::string> marks = marks_of(path, false);
    return std::ranges::any_of(places, [&](const fs::path& place) {
        return std::ranges::any_of(marks, [&](const std::string& mark) {
            std::error_code error;
            return fs::symlink_status(place / mark, error).type() == fs::file_type::regular;
        });
    });
}

void mark_path(const fs::path& folder, const fs::path& path) {
    if (path.empty() || is_rows_path(path)) return;
    for (const std::string& mark : marks_of(path, true)) {
        const fs::path file = folder / mark;
        const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (descriptor < 0) throw_file_error(file, "create");
        ::close(descriptor);
    }
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
    mark_path(cache_folder, reading.data);
    mark_path(cache_folder, parse_validation(reading).file);
    if (reading.filter != "auto" && reading.filter != "none") mark_path(cache_folder, reading.filter);
}

void mark_known_originals(const fs::path& cache_folder, const ReadOptions& reading) {
    mark_path(cache_folder, reading.data_original);
    mark_path(cache_folder, reading.validation_original.empty() ? parse_validation(reading).file
                                                                : fs::path(reading.validation_original));
    mark_path(cache_folder, reading.test_original);
}

bool is_known_path(const ReadOptions& reading, const std::string& path) {
    // Of a head on vectors from elsewhere there is no data.
    return !reading.data.empty() && is_marked(path, cache_places(reading.cache, reading.data));
}

std::string gone_data_of_run(const std::string& path) {
    return fmt::format("{}: no such file or folder, but the run was trained on it; {}name the data", path,
                       fs::path(path).is_relative()
                           ? "the path is from the folder where training was started: go there, or "
                           : "");
}

void require_known_path(const ReadOptions& reading, const std::string& path, bool of_run,
                        const std::string& key) {
    if (!of_run || is_known_path(reading, path)) return;
    // A file that lay beside the data of the run has its mark there, whatever data is read now. Whoever made
    // the run cannot make a mark, so it does not matter where one lies.
    if (key != "data" && is_marked(path, cache_places({}, path))) return;
    std::error_code error;
    const bool is_gone = !fs::exists(path, error);
    if (is_gone && is_rows_path(path))
        throw DataError(
            key == "data"
                ? fmt::format("{}: the run was trained on rows from memory, which are gone; write them, or "
                              "others, to a file and name it with --data",
                              path)
                : fmt::format("{}: those of the run were rows from memory, which are gone; write them, or "
                              "others, to a file and name it with {}",
                              key, flag_of(key)));
    if (key == "data" && is_gone) throw DataError(gone_data_of_run(path));
    const std::string shown = path_in_command(path);
    throw ConfigError(fmt::format(
        "{0}: expected a path that you name or that was read as data here before, found '{1}', which only "
        "the "
        "run names; a run may come from anybody: if it is the right one, {2}",
        key, quoted(path),
        key == "data" ? fmt::format("name it with --data {}", shown)
        : key == "validation" && fs::is_directory(path, error)
            ? conversion_of_validation(path, reading)
            : fmt::format("give --set {}={}", key, shown)));
}

}  // namespace elmo
