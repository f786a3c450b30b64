// Standard output: the results and nothing else, written whole or refused with an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "elmo/elmo.h"

namespace elmo::cli {

// The reader of our output has gone: the program ends silently.
struct OutputClosed {};

// OutputClosed when the reader has gone, DataError when the output cannot be written (a full disk).
void write_stdout(std::string_view text);
void flush_stdout();

// A result as one line.
template <HasFields T>
void write_json(const T& result) {
    write_stdout(to_json(result) + "\n");
}
// Columns aligned by their widest cell: the first to the left, the others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows);
// Names and values, a pair per line.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string aligned(const Facts& facts);

// 1:05, 2:03:04; tenths below a minute.
std::string duration_text(double seconds);

// Measured memory; if it is far above the plan on a GPU, also why: it follows from what the card has free.
std::string measured_memory(std::int64_t bytes, const MemoryReport& planned);

}  // namespace elmo::cli
