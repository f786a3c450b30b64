// Which texts a file of answers answers: a hash of each, in their order, 8 bytes each. A continued call
// compares them with the texts that it reads, so that answers to other texts are never joined to its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "io/mmap_file.h"
#include "io/output_file.h"

namespace elmo {

class AnsweredTexts {
  public:
    // Those that the file of an interrupted call speaks of; none where there is no file.
    explicit AnsweredTexts(std::filesystem::path file);

    std::int64_t count() const { return count_; }
    bool is(std::int64_t index, std::string_view text) const;

    // Forgets what comes after the first `count`, or makes the file; add() continues there.
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
