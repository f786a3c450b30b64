// The texts that a file of answers belongs to: an 8-byte hash of each, in order. A continued call compares
// them with the texts that it reads, so it never appends to answers of other texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "io/mmap_file.h"
#include "io/output_file.h"

namespace elmo {

class AnsweredTexts {
  public:
    // The hashes in the file of an interrupted call; none if there is no file.
    explicit AnsweredTexts(std::filesystem::path file);

    std::int64_t count() const { return count_; }
    bool is(std::int64_t index, std::string_view text) const;

    // Drops everything after the first `count`, or creates the file; add() continues there.
    void keep(std::int64_t count);
    void add(std::string_view text);
    void flush() { out_.flush(); }
    void close() { out_.close(); }

  private:
    std::filesystem::path path_;
    MappedFile before_;
    std::int64_t count_ = 0;
    OutputFile out_;
};

}  // namespace elmo
