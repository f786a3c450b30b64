// A zip archive written member by member, stored and not compressed, of any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/output_file.h"

namespace elmo {

class ZipWriter {
  public:
    explicit ZipWriter(const std::filesystem::path& path);

    // The pieces, one after another.
    void add(const std::string& name, const std::vector<std::span<const std::byte>>& pieces);
    void finish();

  private:
    OutputFile file_;
    std::string directory_;
    std::int64_t members_ = 0;
};

}  // namespace elmo
