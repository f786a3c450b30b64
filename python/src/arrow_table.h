// Rows of Arrow tables, taken through Arrow's C interface: texts go from the table's own memory to the data
// set without becoming Python objects. pyarrow, polars, DuckDB and Hugging Face `datasets` speak it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "elmo/dataset.h"

namespace elmo::python {

// What is read of a table.
struct TableColumns {
    std::vector<std::string> texts;  // joined by a space; all but the first may be null
    std::string labels;              // lists of names or whole numbers, or one of them
    bool allow_null = false;         // rows may have null for their labels, or among them
    bool cut_categories = false;     // a text that is a category is read as a field, too
};

// Calls take(row) for every row of the stream (an ArrowArrayStream*), and between() after each piece of it.
// `first` is the number of rows before, for messages. Returns how many rows there were. DataError for columns
// that are not there, types that are no texts or labels, and nulls that are not allowed.
std::int64_t read_arrow_stream(void* stream, const TableColumns& columns, std::int64_t first,
                               const std::function<void(const Row&)>& take,
                               const std::function<void()>& between);

}  // namespace elmo::python
