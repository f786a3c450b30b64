// What the first rows of a plain file say about options that nobody gave: which columns hold text and labels,
// and how labels are written. A guess is made where the evidence leaves no doubt, and is said.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "config/views.h"
#include "sources/layout.h"

namespace elmo {

// Completes the layout of a plain file: names of columns where the file lacks the usual ones and has one that
// must be meant, the separator of labels or that they are lists (those of other files of the data set too).
// What was found is in layout.detected. Reads a bounded beginning of the training file; what is wrong with
// that is left to the import.
void settle_reading(const ReadOptions& reading, Layout& layout);
// DataError for JSON lines of one object that holds the columns of all rows: it would be read as one row.
void refuse_columns_in_one_object(const Layout& layout);

// Whether the labels of a row stand in a field of text that separators cut, rather than as items of a JSON
// list.
bool has_label_fields(const Layout& layout);

// Whether a field of the first rows is a word for null, and nothing else.
bool has_null_fields(const Layout& layout);

// Of JSON lines, whose texts may lack every key but the first: those that no text of the first rows has, each
// with what may be meant, "'meta.titel' (did you mean 'meta.title'?)".
std::vector<std::string> missing_text_keys(const Layout& layout);

// What the first rows of a table from memory say about the columns that nobody named: of rows as a file would
// have them, names first. `text_columns` are those of reading.text_column.
std::vector<DetectedOption> detect_table_columns(const ReadOptions& reading,
                                                 const std::vector<std::string>& text_columns,
                                                 const std::vector<std::vector<std::string>>& first_rows);

// The one of these names that columns of texts usually have; "" where none is, or several are.
std::string usual_text_column(const std::vector<std::string>& names);
// Whether a column of that name numbers the rows, so that it holds neither texts nor labels.
bool numbers_rows(const std::string& column);
// Whether there is such a name for texts and one for labels.
bool has_usual_columns(const std::vector<std::string>& names);

// How label fields are written, from a sample of them: "list"; one of ; and | where no field has a comma and
// the pieces recombine as labels do; "" where nothing speaks against a comma.
std::string guess_separator(const std::vector<std::string>& fields);
// Whether the pieces of these fields between `separator` recombine as labels do.
bool recombines(const std::set<std::string>& fields, char separator);
// The same as guess_separator for a file that is read as the data of a run was: "" unless no field has what
// separates labels there and the pieces between something else recombine.
std::string guess_other_separator(const std::vector<std::string>& fields, const std::string& of_run);

}  // namespace elmo
