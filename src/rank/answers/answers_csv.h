// Answers as a table: a CSV row per text, made of the finished lines of JSON.
//
// Columns: file (with several files), line, id and text (if the answers have them), labels, probabilities.
// The last two are JSON lists, in the same order: whatever a name contains, a reader gets it back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace elmo {

// By the name.
bool is_csv(const std::filesystem::path& file);
// ConfigError where the name says a format that answers are not written in.
void refuse_other_format(const std::filesystem::path& file);

// Replaces `csv` when it is complete.
void write_csv_answers(const std::filesystem::path& json_lines, const std::filesystem::path& csv);

// Rows below the header.
std::int64_t count_csv_answers(const std::filesystem::path& csv);

}  // namespace elmo
