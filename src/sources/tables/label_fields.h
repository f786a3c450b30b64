// Label names and columns inside the fields of plain files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sources/layout.h"
#include "sources/records/record.h"

namespace elmo {

// Without white space at its ends.
std::string_view trim(std::string_view text);

// Appends the names in `field`, cut at `separator` ("" cuts nowhere), spaces around them and empty ones left
// out.
void split_labels(std::string_view field, std::string_view separator, std::vector<std::string>& out);

// Appends the names in a label field as `cells` says it is written. DataError where fields are lists and this
// one is none.
void read_label_field(const Record& record, std::string_view field, const LabelCells& cells,
                      std::vector<std::string>& out, ImportCounts& counts);

// null, None, nan, NA and their like: what programs write for a value that is not there.
bool is_null_word(std::string_view field);

// 'title+content' -> title, content. ConfigError for an empty name.
std::vector<std::string> split_columns(std::string_view columns);

// The columns that somebody wrote as one, 'title,body' or 'title body': those of `names` between what is no
// +; none unless there are several, and all are among the names.
std::vector<std::string> columns_inside(std::string_view column, const std::vector<std::string>& names);
// What to do where text columns are written so: "+ joins columns: --text-column title+body"; "" where none
// is.
std::string joining_advice(const std::vector<std::string>& text_columns,
                           const std::vector<std::string>& names, std::string_view kind);
// The same for a column of labels, of which there is one.
std::string one_column_advice(std::string_view label_column, const std::vector<std::string>& names,
                              std::string_view kind);

// What to do about a file whose first line holds a carriage return: old Macs' line ends.
inline constexpr std::string_view kLoneCarriageReturns =
    "its lines end in a carriage return alone: write line feeds instead, as tr '\\r' '\\n' does";

// The fields of a record between delimiters, as they stand.
void split_plain(const Record& record, char delimiter, std::vector<std::string>& fields);
// The fields of a CSV record (RFC 4180: quoted fields, "" inside them is one quote). DataError for text
// after a closing quote or an open quote; with `stray` quotes inside a field are text, as Python has it, and
// the row is counted there.
void split_csv(const Record& record, std::vector<std::string>& fields, char delimiter = ',',
               std::int64_t* stray = nullptr);

}  // namespace elmo
