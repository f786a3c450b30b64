// Detects formats from the first lines of a file.
#pragma once

#include <filesystem>
#include <optional>

#include "sources/layout.h"

namespace elmo {

// One of sparse, fasttext, jsonl, tsv and csv. Between the last two a tab decides, then the name.
// ConfigError when the lines look like none.
DataFormat detect_format(const std::filesystem::path& file);

// fasttext or sparse, where the first lines of a file leave no doubt that labels stand in them.
std::optional<DataFormat> labelled_lines(const std::filesystem::path& file);

// The line is 'N D L', or labels and features of the old sparse format.
bool is_sparse_header(std::string_view line);
bool is_sparse_row(std::string_view line);

// The name without the ending of a compressed file, in lower case.
std::string plain_name(const std::filesystem::path& file);

}  // namespace elmo
