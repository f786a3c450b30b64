#include "arrow_table.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "elmo/error.h"
#include "elmo/messages.h"

namespace elmo::python {
namespace {

// The structs of https://arrow.apache.org/docs/format/CDataInterface.html, whose layout is fixed for all
// time.
struct ArrowSchema {
    const char *format, *name, *metadata;
    std::int64_t flags, n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};
struct ArrowArray {
    std::int64_t length, null_count, offset, n_buffers, n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
    int (*get_next)(ArrowArrayStream*, ArrowArray*);
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};

// Released when it goes, once it is filled.
template <typename T>
struct Owned : T {
    Owned() : T() {}
    ~Owned() {
        if (this->release != nullptr) this->release(this);
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
};

// A column: its type and its memory. Rows are counted from the start of the array's own window.
struct Column {
    const ArrowSchema* schema;
    const ArrowArray* array;

    std::string_view format() const { return schema->format; }
    Column child(std::int64_t i = 0) const { return {schema->children[i], array->children[i]}; }
    template <typename T>
    T value(int buffer, std::int64_t row) const {
        T result;
        std::memcpy(&result,
                    static_cast<const char*>(array->buffers[buffer]) + (array->offset + row) * sizeof(T),
                    sizeof(T));
        return result;
    }
    bool is_null(std::int64_t row) const {
        if (format() == "n") return true;
        if (array->null_count == 0 || array->n_buffers == 0 || array->buffers[0] == nullptr) return false;
        const std::int64_t bit = array->offset + row;
        return ((static_cast<const unsigned char*>(array->buffers[0])[bit / 8] >> (bit % 8)) & 1) == 0;
    }
};

std::optional<std::int64_t> whole_number(const Column& column, std::int64_t row) {
    if (column.format().size() != 1) return std::nullopt;
    switch (column.format()[0]) {
        case 'c':
            return column.value<std::int8_t>(1, row);
        case 'C':
            return column.value<std::uint8_t>(1, row);
        case 's':
            return column.value<std::int16_t>(1, row);
        case 'S':
            return column.value<std::uint16_t>(1, row);
        case 'i':
            return column.value<std::int32_t>(1, row);
        case 'I':
            return column.value<std::uint32_t>(1, row);
        case 'l':
            return column.value<std::int64_t>(1, row);
        case 'L':
            return static_cast<std::int64_t>(column.value<std::uint64_t>(1, row));
        default:
            return std::nullopt;
    }
}

template <typename Offset>
std::string_view string_between(const Column& column, std::int64_t row) {
    const auto begin = column.value<Offset>(1, row), end = column.value<Offset>(1, row + 1);
    return {static_cast<const char*>(column.array->buffers[2]) + begin,
            static_cast<std::size_t>(end - begin)};
}

// A "string view": up to 12 bytes in place, longer ones in one of the further buffers.
std::string_view string_viewed(const Column& column, std::int64_t row) {
    const char* view = static_cast<const char*>(column.array->buffers[1]) + (column.array->offset + row) * 16;
    std::int32_t parts[4];  // length, then prefix, buffer and offset
    std::memcpy(parts, view, sizeof parts);
    const auto length = static_cast<std::size_t>(parts[0]);
    if (length <= 12) return {view + 4, length};
    return {static_cast<const char*>(column.array->buffers[2 + parts[2]]) + parts[3], length};
}

// Nothing where the column holds something else than strings.
std::optional<std::string_view> string_at(const Column& column, std::int64_t row) {
    if (column.format() == "u") return string_between<std::int32_t>(column, row);
    if (column.format() == "U") return string_between<std::int64_t>(column, row);
    if (column.format() == "vu") return string_viewed(column, row);
    return std::nullopt;
}

// Where the value of a row is: dictionaries (categories) are looked up.
std::pair<Column, std::int64_t> place_of(const Column& column, std::int64_t row) {
    if (column.schema->dictionary == nullptr) return {column, row};
    return {{column.schema->dictionary, column.array->dictionary}, whole_number(column, row).value_or(0)};
}

// First and last (excluded) element of a list; nothing where the column holds no lists.
std::optional<std::pair<std::int64_t, std::int64_t>> list_at(const Column& column, std::int64_t row) {
    const std::string_view format = column.format();
    if (format == "+l")
        return std::pair<std::int64_t, std::int64_t>(column.value<std::int32_t>(1, row),
                                                     column.value<std::int32_t>(1, row + 1));
    if (format == "+L")
        return std::pair(column.value<std::int64_t>(1, row), column.value<std::int64_t>(1, row + 1));
    if (format == "+vl") {
        const std::int64_t begin = column.value<std::int32_t>(1, row);
        return std::pair(begin, begin + column.value<std::int32_t>(2, row));
    }
    if (format == "+vL") {
        const auto begin = column.value<std::int64_t>(1, row);
        return std::pair(begin, begin + column.value<std::int64_t>(2, row));
    }
    if (format.starts_with("+w:")) {
        const std::int64_t size = std::stoll(std::string(format.substr(3)));
        const std::int64_t begin = (column.array->offset + row) * size;
        return std::pair(begin, begin + size);
    }
    return std::nullopt;
}

// A floating-point number, NaN included; whole ones are what pandas makes of whole numbers beside a gap.
std::optional<double> float_at(const Column& column, std::int64_t row) {
    if (column.format() == "g") return column.value<double>(1, row);
    if (column.format() == "f") return column.value<float>(1, row);
    return std::nullopt;
}
constexpr double kExactInDouble = 9007199254740992;  // 2^53: above it, not every whole number is one

// What Arrow's libraries call a type, which its interface has as a code.
std::string name_of_type(std::string_view format) {
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"n", "null"},      {"b", "bool"},      {"c", "int8"},
        {"C", "uint8"},     {"s", "int16"},     {"S", "uint16"},
        {"i", "int32"},     {"I", "uint32"},    {"l", "int64"},
        {"L", "uint64"},    {"e", "float16"},   {"f", "float32"},
        {"g", "float64"},   {"z", "binary"},    {"Z", "binary"},
        {"vz", "binary"},   {"w:", "binary"},   {"u", "string"},
        {"U", "string"},    {"vu", "string"},   {"d:", "decimal"},
        {"td", "date"},     {"tt", "time"},     {"ts", "timestamp"},
        {"tD", "duration"}, {"ti", "interval"}, {"+s", "struct"},
        {"+m", "map"},      {"+u", "union"},    {"+r", "run-end encoded"},
        {"+", "list"},
    };
    for (const auto& [code, name] : kNames)
        if (code.size() == 1 && code != "+" ? format == code : format.starts_with(code))
            return std::string(name);
    return std::string(format);
}

class TableReader {
  public:
    TableReader(const ArrowSchema& schema, const TableColumns& columns) : schema_(schema), columns_(columns) {
        if (std::string_view(schema.format) != "+s")
            throw DataError("expected a table with columns, found a single column");
        for (const std::string& name : columns.texts) texts_.push_back(find(name));
        labels_ = find(columns.labels);
    }

    // Row `row` of the piece; `number` is what messages call it.
    void read(const ArrowArray& piece, std::int64_t row, std::int64_t number, Row& out) const {
        const Column table{&schema_, &piece};
        row += piece.offset;
        out.text.clear();
        for (std::size_t i = 0; i < texts_.size(); ++i) {
            const Column column = table.child(texts_[i]);
            const auto [where, at] = place_of(column, row);
            if (column.is_null(row) || where.is_null(at)) {
                if (i == 0)
                    fail(number, columns_.texts[i], "a text",
                         "null; leave such rows out, or fill them with ''");
                continue;
            }
            const auto text = string_at(where, at);
            if (!text)
                fail(number, columns_.texts[i], "a text",
                     where.format() == "+s" ? "a struct; take a column of it"
                     : where.format().starts_with('+')
                         ? "a list; join its parts to one text"
                         : "the type " + name_of_type(where.format()) +
                               "; convert it, or name another with text_column");
            if (!out.text.empty() && !text->empty()) out.text += ' ';
            out.text += *text;
        }
        read_labels(table.child(labels_), row, number, out);
    }

    // Lists of 0 and 1 that are no lists of labels, as whoever made them from a matrix gets them. Equal lists
    // [0, 1] may be the labels 0 and 1 of each row.
    bool has_flags() const {
        return may_be_flags_ && (list_size_ > 2 || lists_differ_ ||
                                 (list_size_ == 2 && first_list_.front() == first_list_.back()));
    }

  private:
    void read_labels(const Column& column, std::int64_t row, std::int64_t number, Row& out) const {
        out.labels.clear();
        out.label_field.reset();
        out.null_label = is_null(column, row, number);
        if (out.null_label) return;
        if (const auto list = list_at(column, row)) {
            may_be_flags_ = may_be_flags_ && list->second - list->first > 1 &&
                            (list_size_ < 0 || list_size_ == list->second - list->first);
            list_size_ = list->second - list->first;
            for (std::int64_t i = list->first; i < list->second; ++i) {
                if (is_null(column.child(), i, number)) {
                    out.null_label = true;
                    may_be_flags_ = false;
                    continue;
                }
                out.labels.push_back(label_at(column.child(), i, number, true));
                may_be_flags_ = may_be_flags_ && (out.labels.back() == "0" || out.labels.back() == "1");
            }
            if (first_list_.empty()) first_list_ = out.labels;
            lists_differ_ = lists_differ_ || first_list_ != out.labels;
            return;
        }
        may_be_flags_ = false;
        const std::string label = label_at(column, row, number);
        const auto [where, at] = place_of(column, row);
        const bool is_category = column.schema->dictionary != nullptr && !columns_.cut_categories;
        if (string_at(where, at) && !is_category)
            out.label_field = label;
        else
            out.labels = {label};
    }

    bool is_null(const Column& column, std::int64_t row, std::int64_t number) const {
        const auto [where, at] = place_of(column, row);
        const bool is_gap =
            column.is_null(row) || where.is_null(at) || std::isnan(float_at(where, at).value_or(0));
        if (!is_gap) return false;
        if (!columns_.allow_null)
            fail(number, columns_.labels, "labels", "null; allow_null_labels=True takes it as no label");
        return true;
    }

    std::string label_at(const Column& column, std::int64_t row, std::int64_t number,
                         bool in_list = false) const {
        const auto [where, at] = place_of(column, row);
        if (const auto name = string_at(where, at)) return std::string(*name);
        if (where.format() == "L") return std::to_string(where.value<std::uint64_t>(1, at));
        if (const auto whole = whole_number(where, at)) return std::to_string(*whole);
        if (const auto value = float_at(where, at)) {
            if (!in_list && *value == std::floor(*value) && std::abs(*value) <= kExactInDouble)
                return std::to_string(static_cast<std::int64_t>(*value));
            fail(number, columns_.labels, "names or whole numbers",
                 in_list
                     ? "numbers that may be fractions (" + name_of_type(where.format()) +
                           "); lists of 0 and 1 are a matrix: give it as labels=numpy.array(...) beside texts"
                     : (std::isinf(*value)             ? "infinity ("
                        : *value == std::floor(*value) ? "a number beyond 2^53, which may be rounded ("
                                                       : "a fraction (") +
                           name_of_type(where.format()) + ")");
        }
        fail(number, columns_.labels, "names or whole numbers", "the type " + name_of_type(where.format()));
    }

    std::int64_t find(const std::string& name) const {
        std::string known;
        std::vector<std::string> names;
        std::int64_t found = -1, times = 0;
        for (std::int64_t i = 0; i < schema_.n_children; ++i) {
            if (name == schema_.children[i]->name && ++times == 1) found = i;
            names.emplace_back(schema_.children[i]->name);
            known += (i > 0 ? ", '" : "'") + quoted(std::string_view(schema_.children[i]->name)) + "'";
        }
        if (times > 1)
            throw DataError("expected the column '" + name + "' once, found it " + std::to_string(times) +
                            " times; rename one of them");
        if (times == 1) return found;
        throw DataError("expected a column '" + name + "'" + did_you_mean(name, names) + ", found " +
                        (known.empty() ? "none" : known) + "; name it with text_column or label_column");
    }

    [[noreturn]] static void fail(std::int64_t number, const std::string& column, const std::string& expected,
                                  const std::string& found) {
        throw DataError("row " + std::to_string(number) + ", column '" + column + "': expected " + expected +
                        ", found " + found);
    }

    // Whether all lists so far have as many entries, and these are 0 or 1.
    mutable bool may_be_flags_ = true, lists_differ_ = false;
    mutable std::vector<std::string> first_list_;
    mutable std::int64_t list_size_ = -1;
    const ArrowSchema& schema_;
    const TableColumns& columns_;
    std::vector<std::int64_t> texts_;
    std::int64_t labels_ = 0;
};

}  // namespace

std::int64_t read_arrow_stream(void* address, const TableColumns& columns, std::int64_t first,
                               const std::function<void(const Row&)>& take,
                               const std::function<void()>& between) {
    auto* stream = static_cast<ArrowArrayStream*>(address);
    const auto check = [&](int status) {
        if (status == 0) return;
        const char* why = stream->get_last_error(stream);
        throw DataError("the table could not be read: " + std::string(why == nullptr ? "" : why));
    };
    Owned<ArrowSchema> schema;
    check(stream->get_schema(stream, &schema));
    const TableReader reader(schema, columns);
    std::int64_t rows = first;
    Row row;
    for (;;) {
        Owned<ArrowArray> piece;
        check(stream->get_next(stream, &piece));
        if (piece.release == nullptr) {
            if (reader.has_flags())
                throw DataError(
                    "column '" + columns.labels +
                    "': expected labels of each row, found lists of 0 and 1 of one length, which are a "
                    "matrix; give it as labels=numpy.array(...) beside texts");
            return rows - first;
        }
        for (std::int64_t i = 0; i < piece.length; ++i) {
            reader.read(piece, i, rows++, row);
            take(row);
        }
        between();
    }
}

}  // namespace elmo::python
