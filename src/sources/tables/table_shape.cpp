#include "sources/tables/table_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/quoting.h"

namespace elmo {
namespace {

constexpr std::size_t kSampleBytes = std::size_t{4} << 20;
constexpr std::size_t kLookedAt = 200;  // looked at to tell what columns hold

std::size_t column(const std::vector<std::string>& names, std::string_view name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Whether the field is one of the words, which are in lower case.
bool is_word(std::string_view field, std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [&](std::string_view word) {
        return std::ranges::equal(field, word, [](char c, char of_word) {
            return std::tolower(static_cast<unsigned char>(c)) == of_word;
        });
    });
}

// Digits, unless no column has such a flag that is set and one has a word for it.
FlagWriting flag_writing(const SampleRows& rows, const std::vector<std::size_t>& columns) {
    const auto has_set = [&](FlagWriting writing) {
        return std::ranges::any_of(columns, [&](std::size_t i) {
            const auto is_given = [&](const auto& row) { return i < row.size(); };
            return std::ranges::any_of(
                       rows,
                       [&](const auto& row) { return is_given(row) && is_set_flag(row[i], writing); }) &&
                   std::ranges::all_of(
                       rows, [&](const auto& row) { return !is_given(row) || is_flag(row[i], writing); });
        });
    };
    return !has_set(FlagWriting::kDigits) && has_set(FlagWriting::kWords) ? FlagWriting::kWords
                                                                          : FlagWriting::kDigits;
}

// Finds the columns of flags that `pattern`, a beginning with a star behind it, stands for.
void find_flag_columns(const std::filesystem::path& file, TableShape& shape, std::string_view pattern) {
    std::vector<std::size_t> columns, found, blank;
    bool zeros = false;
    const std::string_view beginning = pattern.substr(0, pattern.size() - 1);
    for (std::size_t i = 0; i < shape.names.size(); ++i)
        if (std::ranges::count(shape.text, i) == 0 && shape.names[i].starts_with(beginning))
            columns.push_back(i);
    SampleRows rows = sample_rows(file, shape, kLookedAt);
    shape.flags = flag_writing(rows, columns);
    if (!beginning.empty()) rows.clear();
    for (const std::size_t i : columns) {
        // A star alone leaves out what holds other things: numbers of rows, dates.
        const bool flags = std::ranges::all_of(
            rows, [&](const auto& row) { return i >= row.size() || is_flag(row[i], shape.flags); });
        if (!flags || shape.names[i].empty()) continue;
        bool filled = rows.empty();
        for (const auto& row : rows) {
            if (i >= row.size() || trim(row[i]).empty()) continue;
            filled = true;
            zeros = zeros || !is_set_flag(row[i], shape.flags);
        }
        (filled ? found : blank).push_back(i);
    }
    // Where others have a 0 or no, a label that no row has would have it too; else nothing may stand for it.
    if (!zeros) {
        found.insert(found.end(), blank.begin(), blank.end());
        std::ranges::sort(found);
        blank.clear();
    }
    shape.labels = std::move(found);
    shape.blank = std::move(blank);
    shape.one_hot = true;
}

// Finds the layout's columns among the names; false where one is missing.
bool find_columns(const std::filesystem::path& file, const Layout& layout, TableShape& shape) {
    shape.text.clear();
    shape.labels.clear();
    for (const std::string& name : layout.text_columns) shape.text.push_back(column(shape.names, name));
    for (const std::size_t at : shape.text)
        if (at == shape.names.size()) return false;
    const std::string& label = layout.label_column;
    if (label.empty()) return true;
    if (const std::size_t at = column(shape.names, label); at < shape.names.size())
        shape.labels = {at};
    else if (label.ends_with('*'))
        find_flag_columns(file, shape, label);
    return !shape.labels.empty();
}

// "'text' in columns 1 and 3" where a column that is read has the name of a later one; else "".
std::string repeated_column(const TableShape& shape) {
    std::unordered_map<std::string_view, std::size_t> first_of;
    const auto is_read = [&](std::size_t at) {
        return std::binary_search(shape.labels.begin(), shape.labels.end(), at) ||
               std::count(shape.text.begin(), shape.text.end(), at) > 0;
    };
    for (std::size_t i = 0; i < shape.names.size(); ++i)
        if (const std::size_t first = first_of.try_emplace(shape.names[i], i).first->second;
            first < i && is_read(first))
            return fmt::format("'{}' in columns {} and {}", quoted(shape.names[i]), first + 1, i + 1);
    return {};
}

void refuse_repeated_columns(const Record& header, const TableShape& shape) {
    if (const std::string repeated = repeated_column(shape); !repeated.empty())
        fail(header, "each column once", repeated, "rename one of them");
}

// "Klassen (W/F/S)" for "Klassen"; "" where no name begins with it, or several do.
std::string longer_name(const std::string& name, const std::vector<std::string>& names) {
    const auto begins = [&](const std::string& other) { return other.starts_with(name); };
    return std::ranges::count_if(names, begins) == 1 ? *std::ranges::find_if(names, begins) : std::string();
}

// What is most likely meant by those columns that are not among the names; "" where nothing is.
std::string meant_columns(const std::vector<std::string>& wanted, const std::vector<std::string>& names) {
    std::string meant;
    for (const std::string& name : wanted) {
        if (std::find(names.begin(), names.end(), name) != names.end() ||
            !columns_inside(name, names).empty())
            continue;
        const std::string near = did_you_mean(name, names), longer = longer_name(name, names);
        meant +=
            near.empty() && !longer.empty() ? fmt::format(" (did you mean '{}'?)", quoted(longer)) : near;
    }
    return meant;
}

std::string list_of(const std::vector<std::string>& names) {
    return fmt::format("'{}'", fmt::join(names, "' and '"));
}

// What to give where another delimiter than the layout's makes a shape that `fits`; "" where none does.
template <class Fits>
std::string delimiter_advice(const std::filesystem::path& file, Layout layout, const Fits& fits) {
    const char used = std::exchange(layout.table.delimiter, 0);
    if (used == 0) return {};
    for (TableShape& shape : possible_shapes(file, layout))
        if (shape.delimiter != used && fits(shape)) {
            const auto name = [](char delimiter) {
                return delimiter == '\t' ? std::string("tabs") : fmt::format("'{}'", delimiter);
            };
            return fmt::format("columns are separated by {}, not by {}: give --delimiter {}",
                               name(shape.delimiter), name(used),
                               shape.delimiter == '\t' ? std::string("tab") : name(shape.delimiter));
        }
    return {};
}

// What is most likely wrong with a first line that lacks the columns.
std::string header_advice(const std::filesystem::path& file, const Layout& layout, std::string_view line,
                          const TableShape& shape) {
    if (line.find('\0') != line.npos) return "it looks like UTF-16: convert the file to UTF-8";
    if (!layout.table.latin1 && find_invalid_utf8(line) != line.npos && looks_like_latin1(line))
        return "it looks like Latin-1: read it with --encoding latin-1";
    if (trim(line).find('\r') != line.npos) return std::string(kLoneCarriageReturns);
    if (trim(line).empty()) return "its first line is empty: remove it";
    if (layout.format == DataFormat::kTsv && layout.table.needs_header && shape.names.size() == 2 &&
        !layout.label_column.empty())
        return "where the file has no header, leave --text-column and --label-column out, or name its "
               "columns "
               "with --columns";
    if (const std::string joined = joining_advice(layout.text_columns, shape.names, "column");
        !joined.empty())
        return joined;
    if (const std::string one = one_column_advice(layout.label_column, shape.names, "column"); !one.empty())
        return one + "; where they hold 0 and 1, remove other columns of 0 and 1 and give --label-column '*'";
    if (file != layout.train.text && !layout.train.text.empty())
        return fmt::format(
            "it is read with the columns of {}: rename its columns, or move it elsewhere, where 'elmo eval "
            "RUN FILE --text-column ... --label-column ...' scores it by itself and 'elmo predict RUN FILE' "
            "answers one that has no labels",
            layout.train.text.string());
    return layout.label_column.empty()
               ? "name the column with --text-column, or all of a file without a header with --columns"
               : "name the columns with --text-column and --label-column ('*' for one column of 0 and 1 per "
                 "label), or all of a file without a header with --columns";
}

[[noreturn]] void refuse_header(const std::filesystem::path& file, const Layout& layout, const Record& first,
                                const TableShape& shape) {
    const auto is_there = [&](const std::string& name) {
        return column(shape.names, name) < shape.names.size();
    };
    if (layout.label_column.ends_with('*') && std::ranges::all_of(layout.text_columns, is_there))
        fail(
            first, fmt::format("columns of 0 and 1 for the labels '{}'", quoted(layout.label_column)), "none",
            "write 1 where a row has the label that a column is named by, and 0 or nothing where it has not");
    std::vector<std::string> wanted = layout.text_columns;
    if (!layout.label_column.empty()) wanted.push_back(layout.label_column);
    const std::string other = delimiter_advice(file, layout, [&](TableShape& with) {
        return find_columns(file, layout, with) || (shape.names.size() == 1 && with.names.size() > 1);
    });
    fail(first,
         fmt::format("{}a header with the column{} {}",
                     layout.format == DataFormat::kCsv || layout.table.needs_header
                         ? ""
                         : "'text<TAB>label,label' or ",
                     wanted.size() == 1 ? "" : "s", list_of(wanted)) +
             meant_columns(wanted, shape.names),
         fmt::format("'{}'", quoted(first.bytes)),
         other.empty() ? header_advice(file, layout, first.bytes, shape) : other);
}

// Whether a column that is looked for is there: then the first line is a header, with another one missing.
bool has_wanted_column(const Layout& layout, const TableShape& shape) {
    return std::ranges::any_of(shape.names, [&](const std::string& name) {
        return name == layout.label_column ||
               std::ranges::find(layout.text_columns, name) != layout.text_columns.end();
    });
}

// But for blanks around them, and capitals.
bool is_same_word(std::string_view a, std::string_view b) {
    a = trim(a), b = trim(b);
    return std::ranges::equal(
        a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// A file without a header: its columns are named by the layout.
TableShape shape_without_header(const std::filesystem::path& file, const Layout& layout,
                                const std::vector<TableShape>& shapes, const Record& first) {
    const std::vector<std::string>& names = layout.table.columns;
    std::optional<TableShape> found;
    for (TableShape shape : shapes) {
        if (shape.names.size() != names.size()) continue;
        shape.has_header = std::ranges::equal(shape.names, names, is_same_word);  // beside a file without one
        if (!shape.has_header) --shape.records_before_rows;
        shape.names = names;
        // A comma inside of a text may make as many fields as a semicolon, but not in every row.
        const SampleRows rows = sample_rows(file, shape, kLookedAt);
        const bool fits = std::all_of(rows.begin(), rows.end(),
                                      [&](const auto& row) { return row.size() == names.size(); });
        if (fits || !found) found = std::move(shape);
        if (fits) break;
    }
    if (!found) {
        const std::string other = delimiter_advice(
            file, layout, [&](const TableShape& with) { return with.names.size() == names.size(); });
        fail(first, fmt::format("{} fields, as --columns names", names.size()),
             fmt::format("{} in '{}'", shapes.front().names.size(), quoted(first.bytes)),
             other.empty() ? "name every column of the file, in order" : other);
    }
    if (find_columns(file, layout, *found)) {
        if (const std::string repeated = repeated_column(*found); !repeated.empty())
            throw ConfigError(
                fmt::format("columns: expected each name once, found {}; rename one of them", repeated));
        return *found;
    }
    std::vector<std::string> wanted = layout.text_columns;
    if (!layout.label_column.empty()) wanted.push_back(layout.label_column);
    throw ConfigError(
        fmt::format("columns: expected {} among the names{}, found {}; name the columns with "
                    "--text-column and --label-column",
                    list_of(wanted), meant_columns(wanted, names), list_of(names)));
}

}  // namespace

bool is_set_flag(std::string_view field, FlagWriting writing) {
    field = trim(field);
    return writing == FlagWriting::kDigits ? is_word(field, {"1", "1.0", "true"})
                                           : is_word(field, {"yes", "y", "t", "x"});
}

bool is_flag(std::string_view field, FlagWriting writing) {
    if (is_set_flag(field, writing)) return true;
    field = trim(field);
    return field.empty() || (writing == FlagWriting::kDigits ? is_word(field, {"0", "0.0", "false"})
                                                             : is_word(field, {"no", "n", "f"}));
}

Framing TableShape::framing() const {
    return !quotes ? Framing::kObjects : allow_stray_quotes ? Framing::kCsvStray : Framing::kCsv;
}

std::unique_ptr<RecordReader> TableShape::open(const std::filesystem::path& file) const {
    auto reader = std::make_unique<RecordReader>(file, framing(), delimiter);
    for (int i = 0; i < records_before_rows; ++i) reader->next();
    return reader;
}

void TableShape::split(const Record& record, std::vector<std::string>& fields, std::int64_t* stray) const {
    std::int64_t ignored = 0;
    if (!quotes)
        split_plain(record, delimiter, fields);
    else
        split_csv(record, fields, delimiter,
                  !allow_stray_quotes ? nullptr
                  : stray != nullptr  ? stray
                                      : &ignored);
}

SampleRows sample_rows(const std::filesystem::path& file, const TableShape& shape, std::size_t most) {
    SampleRows rows;
    try {
        const auto reader = shape.open(file);
        std::size_t bytes = 0;
        while (rows.size() < most && bytes < kSampleBytes) {
            const auto record = reader->next();
            if (!record) break;
            bytes += record->bytes.size();
            std::vector<std::string> fields;
            shape.split(*record, fields, nullptr);
            rows.push_back(std::move(fields));
        }
    } catch (const DataError&) {  // the import says it better
    }
    return rows;
}

bool is_separator_line(std::string_view line) {
    return line.size() == 5 && line.starts_with("sep=");
}

std::vector<TableShape> possible_shapes(const std::filesystem::path& file, const Layout& layout) {
    const bool tsv = layout.format == DataFormat::kTsv;
    std::string delimiters = tsv ? "\t,;|" : ",;\t|";
    TableShape shape;
    shape.allow_stray_quotes = layout.table.allow_stray_quotes;
    shape.quotes = layout.table.quotes != QuoteChoice::kNone;
    RecordReader lines(file, Framing::kLines);
    if (const auto line = lines.next(); line && is_separator_line(line->bytes)) {
        delimiters = line->bytes[4];  // as Excel writes it
        shape.records_before_rows = 1;
    }
    if (layout.table.delimiter != 0) delimiters = layout.table.delimiter;
    std::vector<TableShape> shapes;
    for (const char delimiter : delimiters) {
        TableShape candidate = shape;
        candidate.delimiter = delimiter;
        // Tabs need no quotes, so that texts may begin with one: only what cannot be else is quoting.
        if (delimiter == '\t' && tsv && layout.table.quotes == QuoteChoice::kAuto)
            candidate.quotes = looks_quoted(file, delimiter);
        const SampleRows first = sample_rows(file, candidate, 1);
        if (!first.empty()) candidate.names = first[0];
        if (layout.table.latin1)
            for (std::string& name : candidate.names) name = utf8_of_latin1(name);
        ++candidate.records_before_rows;
        candidate.has_header = true;
        shapes.push_back(std::move(candidate));
    }
    return shapes;
}

bool has_named_columns(const Layout& layout) {
    return layout.format != DataFormat::kTsv || !layout.table.columns.empty() ||
           find_table_shape(layout.train.text, layout).has_header;
}

std::vector<std::string> flag_names(const std::filesystem::path& file, const Layout& layout) {
    std::vector<std::string> names;
    const bool is_table = layout.format == DataFormat::kTsv || layout.format == DataFormat::kCsv;
    if (!is_table || !layout.label_column.ends_with('*')) return names;
    const TableShape shape = find_table_shape(file, layout);
    if (shape.one_hot)
        for (const std::size_t at : shape.labels) names.push_back(shape.names[at]);
    return names;
}

bool has_header(const std::filesystem::path& file, const Layout& layout) {
    for (TableShape shape : possible_shapes(file, layout))
        if (find_columns(file, layout, shape)) return true;
    return false;
}

TableShape find_table_shape(const std::filesystem::path& file, const Layout& layout) {
    const std::vector<TableShape> shapes = possible_shapes(file, layout);
    RecordReader reader(file, shapes.front().framing(), shapes.front().delimiter);
    for (int i = 1; i < shapes.front().records_before_rows; ++i) reader.next();
    const auto first = reader.next();
    if (!first) throw DataError(fmt::format("{}: expected rows, found an empty file", file.string()));
    if (!layout.table.columns.empty()) return shape_without_header(file, layout, shapes, *first);
    for (TableShape shape : shapes) {
        if (find_columns(file, layout, shape)) {
            refuse_repeated_columns(*first, shape);
            // These become labels, which are UTF-8; other names are only compared.
            for (const std::size_t at : shape.labels)
                if (shape.one_hot && find_invalid_utf8(shape.names[at]) != std::string::npos)
                    fail(*first, "UTF-8", fmt::format("'{}'", quoted(shape.names[at])),
                         "convert the file to UTF-8, or read it with --encoding latin-1");
            return shape;
        }
        if (layout.format != DataFormat::kTsv || layout.table.needs_header || shape.delimiter != '\t' ||
            shape.names.size() != 2 || has_wanted_column(layout, shape))
            continue;
        shape.has_header = false;
        --shape.records_before_rows;
        shape.text = {0};
        shape.labels = {1};
        return shape;
    }
    const TableShape& likely =
        *std::ranges::max_element(shapes, {}, [](const TableShape& shape) { return shape.names.size(); });
    std::vector<std::string> fields;
    if (likely.names.empty()) likely.split(*first, fields, nullptr);  // says what is wrong with the line
    refuse_header(file, layout, *first, likely);
}

}  // namespace elmo
