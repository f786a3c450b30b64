// The paths of rows from memory: temporary folders that hold them for the time of a call, and the names by
// which runs call them later.
#pragma once

#include <filesystem>
#include <string_view>

namespace elmo {

// How these names begin. Six letters and digits follow for a folder, one or two hashes of the rows for a run.
inline constexpr std::string_view kRowsPrefix = "elmo-rows-";

// Whether it is such a folder or name, or train.jsonl or test.jsonl in one. Files of people that begin so are
// not.
bool is_rows_path(const std::filesystem::path& path);

}  // namespace elmo
