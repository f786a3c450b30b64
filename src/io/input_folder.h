// A folder that is read, file by file, by name. Functions that take one are given a path, whose files are
// looked up when they are asked for, or a pinned folder.
//
// Pinned: all its files were opened at one moment, while the folder bore its name, and stay as they were. A
// writer that puts another folder in its place and removes this one (io/atomic_folder.h) changes nothing for
// who reads it: no file of the new one is ever taken for one of the old.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/mmap_file.h"

namespace elmo {

class InputFolder {
  public:
    InputFolder() = default;
    InputFolder(std::filesystem::path path) : path_(std::move(path)) {}  // NOLINT: a path is a folder

    // Opens `index` and the files that names(), given a folder of that file only, lists, all of one folder:
    // begins again when that is replaced meanwhile. What is not there is left out: has() says so. DataError
    // when the folder or a file cannot be opened, or a file is a symbolic link or no file at all; also what
    // names() throws.
    static InputFolder pin(const std::filesystem::path& path, const std::string& index,
                           const std::function<std::vector<std::string>(const InputFolder& opened)>& names);

    // As it was given, for messages; nothing is opened by it where the folder is pinned.
    const std::filesystem::path& path() const { return path_; }
    bool empty() const { return path_.empty(); }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

    bool has(const std::string& name) const;
    std::vector<std::string> names() const;
    // DataError when there is no such file, or it cannot be read.
    MappedFile map(const std::string& name) const;
    std::string read(const std::string& name) const;
    std::int64_t size(const std::string& name) const;
    std::uint64_t hash(const std::string& name) const;

    // Closes the files of a pinned folder, also for every copy of it: it holds none from then on. What is
    // mapped stays. Without it the disk space of a folder that was removed stays taken.
    void close();

  private:
    struct Files;
    int descriptor(const std::string& name) const;

    std::filesystem::path path_;
    std::shared_ptr<Files> files_;  // null: not pinned
};

}  // namespace elmo
