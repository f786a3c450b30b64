// Files that people have and elmo does not read: told by their first bytes, with the way to one that it does.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace elmo {

struct ReadOptions;

// What a file is converted for: rows of texts and labels, such rows as a table, or texts alone.
enum class ConvertedTo { kRows, kTable, kTexts };

// DataError that names what the file is and how to convert it, where it is Parquet, Arrow, a workbook, a
// pickle, a database, UTF-16 or a zip archive of several files. Standard input and what cannot be opened
// pass. The command reads the columns that `reading` names, where it has to name them.
void refuse_foreign_file(const std::filesystem::path& file, const ReadOptions* reading = nullptr,
                         ConvertedTo wanted = ConvertedTo::kRows);

// The same of texts to answer, and for a folder that Hugging Face's save_to_disk wrote.
void refuse_foreign_texts(const std::filesystem::path& path);

// Whether it is one of them.
bool is_foreign_file(const std::filesystem::path& file);

// What rows that validate are read with, which decides about their columns and format.
enum class Beside { kRows, kTable, kNothing };

// The same of such rows, a file or a folder that Hugging Face's save_to_disk wrote; and the advice about
// those that validated a run whose data was converted.
void refuse_foreign_validation(const std::filesystem::path& path, const ReadOptions& reading, Beside beside);
std::string conversion_of_validation(const std::filesystem::path& path, const ReadOptions& reading);

// The same by the first line of what was unpacked or came by standard input; also for a tar archive and any
// other bytes that are no text.
void refuse_foreign_line(std::string_view line, const std::filesystem::path& file);

// The same for a run, a folder that Hugging Face's save_to_disk wrote, or one of Parquet or Arrow files.
void refuse_foreign_folder(const std::filesystem::path& folder, const ReadOptions& reading);

// DataError for a folder, or one of folders, with a file per text.
void refuse_folder_of_texts(const std::filesystem::path& folder);

}  // namespace elmo
