// A log of JSON objects, one per line; each is passed to the kernel before the next one starts.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "io/output_file.h"

namespace elmo {

class JsonLinesWriter {
  public:
    // Continues an existing file. First removes a last line that a crash or a full disk truncated, so the
    // file stays readable line by line. DataError if it ends in anything else than a truncated object.
    explicit JsonLinesWriter(const std::filesystem::path& path);

    // Keys in the order given. NaN and infinities become null, invalid UTF-8 becomes U+FFFD. DataError when
    // it cannot be written. Returns the line, without its end.
    std::string write(const nlohmann::ordered_json& object);
    const std::filesystem::path& path() const { return file_.path(); }

  private:
    OutputFile file_;
};

}  // namespace elmo
