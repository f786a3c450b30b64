// How one table is written, found from its first records: delimiter, quotes, header, and where the wanted
// columns are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sources/layout.h"
#include "sources/records/record_reader.h"

namespace elmo {

// How a column per label says which rows have it; nothing says that one does not, in both.
enum class FlagWriting {
    kDigits,  // 0, 1, true, false
    kWords,   // yes, no, y, n, t, f, x
};

struct TableShape {
    char delimiter = ',';
    bool quotes = true;  // fields may stand in double quotes
    bool allow_stray_quotes = false;
    bool has_header = false;
    int records_before_rows = 0;      // the header, and Excel's "sep=;"
    std::vector<std::string> names;   // of the columns
    std::vector<std::size_t> text;    // columns
    std::vector<std::size_t> labels;  // one, or where one_hot all of them; none where only texts are read
    bool one_hot = false;
    FlagWriting flags = FlagWriting::kDigits;  // where one_hot
    std::vector<std::size_t> blank;  // columns that '*' leaves out, as the first rows have nothing in them

    Framing framing() const;
    std::unique_ptr<RecordReader> open(const std::filesystem::path& file) const;
    void split(const Record& record, std::vector<std::string>& fields, std::int64_t* stray) const;
};

// The shape of a file by the layout's format, columns and what it says of the writing. What is left open
// there is what makes the header have the columns; a file that commas, or tabs in a TSV, make sense of is
// never read otherwise. DataError when there is no row at all or no header with the columns.
TableShape find_table_shape(const std::filesystem::path& file, const Layout& layout);

// The first records, split, at most about `most`: header first. Ends early where a record cannot be split.
using SampleRows = std::vector<std::vector<std::string>>;
SampleRows sample_rows(const std::filesystem::path& file, const TableShape& shape, std::size_t most);

// Whether the first record has the columns that are looked for.
bool has_header(const std::filesystem::path& file, const Layout& layout);

// Whether the columns of the training file have names, in a header or given: a TSV may have none.
bool has_named_columns(const Layout& layout);

// Names of the columns of 0 and 1 that are a file's labels; none where labels are written otherwise.
std::vector<std::string> flag_names(const std::filesystem::path& file, const Layout& layout);

// "sep=;", with which Excel's tables may begin.
bool is_separator_line(std::string_view line);

// Shapes without columns for each delimiter that the layout leaves open, the format's own first.
std::vector<TableShape> possible_shapes(const std::filesystem::path& file, const Layout& layout);

// Upper case is as good.
bool is_flag(std::string_view field, FlagWriting writing);
// Says that a row has the label.
bool is_set_flag(std::string_view field, FlagWriting writing);

}  // namespace elmo
