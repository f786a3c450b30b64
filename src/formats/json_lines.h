// A log of JSON objects, one a line, each in the kernel's hands before the next begins.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/output_file.h"

namespace elmo {

class JsonLinesWriter {
  public:
    // Continues an existing file. A last line that a crash or a full disk tore is cut off first, so that the
    // file stays readable line by line. DataError when it ends in something else than a torn object.
    explicit JsonLinesWriter(const std::filesystem::path& path);

    // Keys in the order given. NaN and infinities become null, invalid UTF-8 becomes U+FFFD. DataError when
    // it cannot be written.
    void write(const nlohmann::ordered_json& object);
    const std::filesystem::path& path() const { return file_.path(); }

  private:
    OutputFile file_;
};

}  // namespace elmo
