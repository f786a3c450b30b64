#include "io/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "io/checksum.h"
#include "io/file_error.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// A name may have 255 bytes, and a temporary's name is longer than its target's: a long name is cut and a
// hash is added.
constexpr std::size_t kLongName = 200;

std::string prefix_of(const fs::path& target, const std::string& kind) {
    std::string name = target.filename().string();
    if (name.size() > kLongName) name = name.substr(0, kLongName - 17) + "~" + hash_text(hash64(name));
    return fmt::format(".{}.{}-", name, kind);
}

// Exactly the names that temporary_name() makes, so no file of the user can match.
bool is_temporary(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return false;
    name.remove_prefix(prefix.size());
    const std::size_t dash = name.find('-');
    return dash != 0 && dash != std::string_view::npos && dash + 1 < name.size() && name.rfind('-') == dash &&
           name.find_first_not_of("0123456789-") == std::string_view::npos;
}

}  // namespace

fs::path temporary_name(const fs::path& target, const std::string& kind) {
    static std::atomic<int> counter{0};
    while (true) {
        const auto name = fmt::format("{}{}-{}", prefix_of(target, kind), ::getpid(), counter++);
        fs::path path = target.parent_path() / name;
        struct stat info {};
        if (::lstat(path.c_str(), &info) == 0) continue;
        if (errno == ENOENT) return path;
        throw_file_error(target, "create");  // a folder that cannot be searched, a loop of links
    }
}

bool lock_temporary(int descriptor, const fs::path& temporary) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    struct stat opened {
    }, named{};
    return ::fstat(descriptor, &opened) == 0 && ::stat(temporary.c_str(), &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::vector<fs::path> list_temporaries(const fs::path& target, const std::string& kind) {
    std::vector<fs::path> found;
    const std::string prefix = prefix_of(target, kind);
    std::error_code error;
    const fs::path folder = target.parent_path().empty() ? fs::path(".") : target.parent_path();
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (is_temporary(it->path().filename().string(), prefix)) found.push_back(it->path());
    return found;
}

bool is_temporary_folder(const fs::path& folder) {
    constexpr std::string_view kMark = ".tmp-";
    const std::string name = folder.filename().string();
    const std::size_t mark = name.rfind(kMark);
    return mark != name.npos && mark > 0 && is_temporary(name, name.substr(0, mark + kMark.size())) &&
           name.front() == '.';
}

bool is_abandoned(const fs::path& temporary) {
    const int fd = ::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const bool abandoned = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    ::close(fd);
    return abandoned;
}

void remove_abandoned(const fs::path& target) noexcept {
    try {
        for (const auto& path : list_temporaries(target, "tmp")) {
            const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
            if (fd < 0) continue;
            // Removed while the lock is held: a writer that has just made it sees the lock or the loss.
            if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
                std::error_code ignored;
                fs::remove_all(path, ignored);
            }
            ::close(fd);
        }
    } catch (...) {
        // Best effort: what stays is removed next time.
    }
}

fs::path resolve_target(const fs::path& target) {
    if (target.filename().empty() || target.filename() == "." || target.filename() == "..") {
        fs::path plain = fs::absolute(target).lexically_normal();
        if (plain.filename().empty()) plain = plain.parent_path();
        if (plain.filename().empty()) throw DataError(fmt::format("{}: cannot be replaced", target.string()));
        return resolve_target(plain);
    }
    std::error_code error;
    const fs::path followed = fs::canonical(target, error);
    return error ? target : followed;
}

}  // namespace elmo
