// The files of a data set as they are at one moment. Labels and texts are read in passes of their own: a file
// that is replaced between two of them would give labels of the one and texts of the other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sources/layout.h"

namespace elmo {

class SourceStamps {
  public:
    explicit SourceStamps(const Layout& layout);
    // DataError, naming the file, if one has changed: another size, time of change or file.
    void require_unchanged() const;

  private:
    std::vector<std::pair<std::filesystem::path, std::string>> files_;
};

}  // namespace elmo
