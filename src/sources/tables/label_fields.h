// Label names and columns inside the fields of plain files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sources/records/record.h"

namespace elmo {

// Appends the names in `field`, cut at `separator` ("" cuts nowhere), spaces around them and empty ones left
// out.
void split_labels(std::string_view field, std::string_view separator, std::vector<std::string>& out);

// 'title+content' -> title, content. ConfigError for an empty name.
std::vector<std::string> split_columns(std::string_view columns);

// The fields of a record between tabs, as they stand.
void split_tsv(const Record& record, std::vector<std::string>& fields);
// The fields of a CSV record (RFC 4180: quoted fields, "" inside them is one quote). DataError for text
// after a closing quote or an open quote.
void split_csv(const Record& record, std::vector<std::string>& fields);

}  // namespace elmo
