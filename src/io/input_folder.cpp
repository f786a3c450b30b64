#include "io/input_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/text_util.h"
#include "io/checksum.h"
#include "io/file_error.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// Opening a folder takes less time than writing one: so many replacements in a row are not an accident.
constexpr int kAttempts = 1000;

class Descriptor {
  public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    int number() const { return number_; }

  private:
    int number_;
};

// Whether the path still names the folder that was opened by it.
bool is_named(const Descriptor& folder, const fs::path& path) {
    struct stat opened {
    }, named{};
    return ::fstat(folder.number(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::int64_t size_of_file(int descriptor, const fs::path& path) {
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) throw_file_error(path, "read");
    if (!S_ISREG(info.st_mode))
        throw DataError(fmt::format("{}: expected a file, found something else", path.string()));
    return info.st_size;
}

std::string read_whole(int descriptor, const fs::path& path) {
    std::string text(static_cast<std::size_t>(size_of_file(descriptor, path)), '\0');
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t n =
            ::pread(descriptor, text.data() + done, text.size() - done, static_cast<off_t>(done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_file_error(path, "read");
        if (n == 0) break;  // cut short by somebody
        done += static_cast<std::size_t>(n);
    }
    text.resize(done);
    return text;
}

}  // namespace

struct InputFolder::Files {
    std::map<std::string, Descriptor> open;

    // False: no file of that name exists.
    bool add(const Descriptor& folder, const fs::path& path, const std::string& name) {
        // Without waiting for the writer of a pipe.
        Descriptor file(
            ::openat(folder.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (file.number() < 0 && errno == ENOENT) return false;
        if (file.number() < 0 && errno == ELOOP)
            throw DataError(fmt::format(
                "{}: expected a file, found a symbolic link, which could lead anywhere; put the file in "
                "its place",
                (path / name).string()));
        if (file.number() < 0) throw_file_error(path / name, "open");
        size_of_file(file.number(), path / name);
        open.emplace(name, std::move(file));
        return true;
    }
};

InputFolder InputFolder::pin(
    const fs::path& path, const std::string& index,
    const std::function<std::vector<std::string>(const InputFolder& opened)>& names) {
    for (int attempt = 1;; ++attempt) {
        InputFolder result(path);
        result.files_ = std::make_shared<Files>();
        const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (folder.number() < 0) throw_file_error(path, "open");
        bool all = result.files_->add(folder, path, index);
        if (all)
            for (const std::string& name : names(result))
                if (!result.files_->open.contains(name)) all &= result.files_->add(folder, path, name);
        if (all || attempt == kAttempts || is_named(folder, path)) return result;
    }
}

int InputFolder::descriptor(const std::string& name) const {
    const auto found = files_->open.find(name);
    if (found == files_->open.end()) throw_file_error(path_ / name, "open", ENOENT);
    return found->second.number();
}

bool InputFolder::has(const std::string& name) const {
    std::error_code error;
    return files_ ? files_->open.contains(name) : fs::exists(path_ / name, error);
}

std::vector<std::string> InputFolder::names() const {
    std::vector<std::string> names;
    if (files_) {
        for (const auto& [name, file] : files_->open) names.push_back(name);
        return names;
    }
    std::error_code error;
    for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error))
        names.push_back(it->path().filename().string());
    if (error)
        throw DataError(fmt::format("{}: cannot list the folder: {}", path_.string(), error.message()));
    return names;
}

MappedFile InputFolder::map(const std::string& name) const {
    return files_ ? MappedFile(path_ / name, descriptor(name)) : MappedFile(path_ / name);
}

std::string InputFolder::read(const std::string& name) const {
    return files_ ? read_whole(descriptor(name), path_ / name) : read_file(path_ / name);
}

std::int64_t InputFolder::size(const std::string& name) const {
    if (files_) return size_of_file(descriptor(name), path_ / name);
    std::error_code error;
    const auto size = fs::file_size(path_ / name, error);
    if (error) throw_file_error(path_ / name, "read", error.value());
    return static_cast<std::int64_t>(size);
}

std::uint64_t InputFolder::hash(const std::string& name) const {
    return files_ ? hash_file(descriptor(name), path_ / name) : hash_file(path_ / name);
}

void InputFolder::close() {
    if (files_) files_->open.clear();
}

}  // namespace elmo
