// A folder that is read, file by file, by name. Functions that take one accept a path, whose files are looked
// up on use, or a pinned folder.
//
// Pinned: all its files were opened at one moment, while the folder had its name, and do not change. If a
// writer puts another folder in its place and removes this one (io/atomic_folder.h), readers of the pinned
// folder see no file of the new one.
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

    // Opens `index` and the files that names() lists (it sees a folder with only that file), all from one
    // folder: starts again if the folder is replaced meanwhile. Absent files are left out, see has().
    // DataError if the folder or a file cannot be opened, or a file is a symbolic link or not a regular file;
    // also what names() throws.
    static InputFolder pin(const std::filesystem::path& path, const std::string& index,
                           const std::function<std::vector<std::string>(const InputFolder& opened)>& names);

    // As given, for messages; a pinned folder opens nothing through it.
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

    // Closes the files of a pinned folder, also for every copy of it. Mappings stay. Without this call the
    // disk space of a removed folder is not freed.
    void close();

  private:
    struct Files;
    int descriptor(const std::string& name) const;

    std::filesystem::path path_;
    std::shared_ptr<Files> files_;  // null: not pinned
};

}  // namespace elmo
