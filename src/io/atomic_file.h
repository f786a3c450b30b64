// A file that appears complete or not at all.
//
// Guarantee: at any moment, even after a kill or a loss of power, the target is either exactly what it was
// before or exactly what was written. The bytes go to a temporary beside the target. commit() syncs them,
// renames the temporary over the target and syncs the rename (inside an AtomicFolder, whose commit() syncs
// all of its files, it only renames). Without commit() the temporary is removed; the next writer of the same
// target removes one that a killed process left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "io/output_file.h"

namespace elmo {

class AtomicFile {
  public:
    // What becomes of a target that is a symbolic link: what it points to is written, or a file takes its
    // place.
    enum class Links { kFollowed, kReplaced };
    // DataError if the target's folder does not exist or is not writable.
    explicit AtomicFile(const std::filesystem::path& target, Links links = Links::kFollowed);
    ~AtomicFile();
    AtomicFile(AtomicFile&&) noexcept = default;
    AtomicFile& operator=(AtomicFile&&) = delete;

    const std::filesystem::path& target() const { return target_; }

    // As OutputFile: a DataError names target, bytes and reason; the old target stays.
    void write(std::span<const std::byte> bytes) { file_.write(bytes); }
    void write(std::string_view text) { file_.write(text); }
    void write_at(std::int64_t offset, std::span<const std::byte> bytes) { file_.write_at(offset, bytes); }
    void reserve(std::int64_t bytes) { file_.reserve(bytes); }

    // Once, after the last write. When it throws, the old target stays.
    void commit();
    // The same under a name that was not known before, in the target's folder.
    void commit_as(const std::filesystem::path& target);

  private:
    std::filesystem::path target_;
    OutputFile file_;
};

// The whole content in one call.
void write_file_atomically(const std::filesystem::path& target, std::string_view content);

}  // namespace elmo
