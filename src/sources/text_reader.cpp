#include "elmo/text_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/text_util.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "io/line_reader.h"
#include "sources/detect.h"
#include "sources/detected.h"
#include "sources/foreign.h"
#include "sources/matrices/sparse_source.h"
#include "sources/row_source.h"
#include "sources/tables/guess.h"
#include "sources/tables/json_rows.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/table_shape.h"

namespace elmo {
namespace {

bool is_json_name(std::string_view name) {
    return name.ends_with(".jsonl") || name.ends_with(".json") || name.ends_with(".ndjson");
}

bool is_table_name(std::string_view name) {
    return name.ends_with(".csv") || name.ends_with(".tsv");
}

// The form of a file that is a table whatever its name: its header has the columns of the texts beside
// others, or its rows have as many fields as there are names for columns, in all of the first rows.
std::optional<DataFormat> table_lines(const std::string& path, const ReadOptions& reading) {
    constexpr std::size_t kRows = 50;
    Layout layout;
    layout.table = table_writing(reading);
    const std::vector<std::string>& given = layout.table.columns;
    const std::vector<std::string> wanted = split_columns(reading.text_column);
    // Most texts are none, and a quote in the first of them may be shut far away.
    LineReader lines(path);
    auto first = lines.next_line();
    if (first && is_separator_line(*first)) first = lines.next_line();
    const auto is_in_first = [&](const std::string& name) { return first->find(name) != first->npos; };
    if (!first || (given.empty() && !std::ranges::all_of(wanted, is_in_first))) return std::nullopt;
    for (const DataFormat format : {DataFormat::kTsv, DataFormat::kCsv}) {
        layout.format = format;
        for (const TableShape& shape : possible_shapes(path, layout)) {
            if ((format == DataFormat::kTsv) != (shape.delimiter == '\t') || shape.names.size() < 2) continue;
            const auto is_there = [&](const std::string& name) {
                return std::ranges::count(shape.names, name) > 0;
            };
            // Names of a run may be for another file, and texts have commas.
            const bool counts = !reading.columns_of_run || shape.delimiter == '\t' || shape.delimiter == '|';
            const bool named = std::ranges::all_of(wanted, is_there) ||
                               (!given.empty() && counts && given.size() == shape.names.size());
            if (!named) continue;
            const SampleRows rows = sample_rows(path, shape, kRows);
            const bool enough = !rows.empty() || (!given.empty() && !reading.columns_of_run);
            if (enough &&
                std::ranges::all_of(rows, [&](const auto& row) { return row.size() == shape.names.size(); }))
                return format;
        }
    }
    return std::nullopt;
}

// Whether the first line names the column of ids: then it is a header.
bool names_ids(const std::string& path, const Layout& layout, const ReadOptions& reading) {
    return std::ranges::any_of(possible_shapes(path, layout), [&](const TableShape& shape) {
        return shape.names.size() > 1 && std::ranges::count(shape.names, reading.id_column) > 0;
    });
}

// The texts of a table, without its header and other columns.
struct TableTexts {
    std::unique_ptr<RowSource> source;
    std::unique_ptr<RowParser> parser;
    std::unique_ptr<RecordReader> records;
    std::unique_ptr<RowSource> id_source;  // null without a column of ids
    std::unique_ptr<RowParser> id_parser;
    std::vector<DetectedOption> detected;
    std::string note;  // how it is read beside that; "" where nothing is to be said

    TableTexts(const std::string& path, bool csv, const ReadOptions& reading) {
        Layout layout;
        layout.format = csv ? DataFormat::kCsv : DataFormat::kTsv;
        layout.train.text = path;
        layout.text_columns = split_columns(reading.text_column);
        layout.table = table_writing(reading);
        settle_reading(reading, layout);
        detected = layout.detected;
        // Else the first column of a TSV of two would be read, header and all.
        layout.table.needs_header =
            layout.table.needs_header || reading.run_has_header || names_ids(path, layout, reading);
        source = open_table(path, layout);
        parser = source->parser();
        records = source->open();
        const TableShape shape = find_table_shape(path, layout);
        std::vector<std::string> names;
        if (shape.has_header || !layout.table.columns.empty())
            names = shape.names;
        else if (reading.text_column_of_run)
            note = path +
                   ": read as text<TAB>labels without a header; name the column of a file that has one with "
                   "--text-column";
        if (std::ranges::find(names, reading.id_column) != names.end()) {
            layout.text_columns = {reading.id_column};
            id_source = open_table(path, layout);
            id_parser = id_source->parser();
        } else if (!reading.id_column_open) {
            throw DataError(
                fmt::format("{}: expected the column '{}'{}, found a header without it; name the "
                            "column of ids with --id-column",
                            path, quoted(reading.id_column), did_you_mean(reading.id_column, names)));
        }
    }
};

// Rows of the sparse format: their features as they stand.
class FeatureLines : public RowParser {
  public:
    void text(const Record& record, std::string& text) override { text = sparse_record_features(record); }
    void labels(const Record&, RowLabels&, ImportCounts&) override {
        throw Error("labels are left out of texts to answer");
    }
};

// Whether a line names all these columns and others, or usual ones of texts and labels, as the header of a
// table does.
bool is_header(const Record& line, const std::vector<std::string>& columns) {
    std::vector<std::string> fields;
    const auto has = [&](const std::string& name) { return std::ranges::find(fields, name) != fields.end(); };
    for (const char delimiter : {',', ';', '\t', '|'}) {
        try {
            split_csv(line, fields, delimiter);
        } catch (const DataError&) {  // a text
            continue;
        }
        if (fields.size() > 1 && (std::ranges::all_of(columns, has) || has_usual_columns(fields)))
            return true;
    }
    return false;
}

bool is_ascii(std::string_view bytes) {
    return std::ranges::none_of(bytes, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

constexpr const char* kReadTwice = "a table is read twice: save it and name the file";

}  // namespace

struct TextReader::Impl {
    enum class Form { kUndecided, kText, kJson, kRows };

    std::optional<TableTexts> table;
    std::optional<LineReader> lines;    // where there is no table
    std::optional<std::string> held;    // the line after the first one, where that was no header
    std::unique_ptr<RowParser> parser;  // of kRows: lines with labels in them
    bool has_features = false;          // of kText: lines of a pipe are sparse rows, by the first one
    bool may_have_header = false;       // of the sparse format
    bool refuses_foreign = false;       // by the first line
    bool is_pipe = false;
    bool refuses_header = false;  // of a table, in the first line
    Form form = Form::kUndecided;
    std::vector<std::string> keys;
    bool keys_open = false;        // nobody gave them for this input: what its first object has counts
    std::string own_key;           // of the format, "" where it has none
    bool has_marks = false;        // kRows of fastText
    std::int64_t empty_lines = 0;  // before the held one: at the end of rows they are none
    bool begun = false;            // next() was called
    std::string detected;          // by the last call of it, or while the file was opened
    std::string id_key;
    bool needs_id;
    std::vector<std::string> named;  // the run's columns of a table without a header
    std::string columns_flag;        // by which the call names columns; "" where it does not
    std::vector<TextId> ids;
    TextId id;
    Encoding encoding;
    bool has_utf8 = false;  // beside an encoding that is another
    JsonRows json;
    ImportCounts counts;
    std::int64_t dropped_ids = 0;
    std::string storage;

    Impl(const std::string& path, const ReadOptions& reading)
        : keys(split_columns(reading.text_column)),
          keys_open(reading.text_column_open || reading.text_column_of_run),
          id_key(reading.id_column),
          needs_id(!reading.id_column_open),
          columns_flag(reading.input == InputForm::kText                     ? ""
                       : reading.text_column_given                           ? "--text-column"
                       : needs_id                                            ? "--id-column"
                       : !reading.columns.empty() && !reading.columns_of_run ? "--columns"
                                                                             : ""),
          encoding(encoding_of(reading)) {
        if (reading.columns_of_run) named = table_writing(reading).columns;
        const std::string name = plain_name(path);
        refuses_foreign = reading.input == InputForm::kAuto;
        if (!path.empty() && refuses_foreign) refuse_foreign_texts(path);
        std::error_code error;
        // A file may have that name, but it means standard input.
        const bool is_file = path != "-" && std::filesystem::is_regular_file(path, error);
        std::optional<DataFormat> format;
        if (reading.format_given)
            format = format_named(reading.format);
        else if (reading.input == InputForm::kAuto && is_file && is_table_name(name))
            format = name.ends_with(".csv") ? DataFormat::kCsv : DataFormat::kTsv;
        else if (reading.input == InputForm::kJsonl ||
                 (reading.input == InputForm::kAuto && is_json_name(name)))
            format = DataFormat::kJsonl;
        else if (reading.input == InputForm::kText)
            format = DataFormat::kXmc;
        else if (is_file)
            format = labelled_lines(path);
        const bool is_open = !format && is_file;
        if (is_open) format = table_lines(path, reading);
        if (format == DataFormat::kCsv || format == DataFormat::kTsv) {
            if (!is_file)
                throw DataError(fmt::format("{}: expected a file, found none; {}",
                                            path.empty() || path == "-" ? "standard input" : path,
                                            kReadTwice));
            table.emplace(path, format == DataFormat::kCsv, reading);
            if (is_open) table->detected.insert(table->detected.begin(), {"format", name_of(*format)});
            detected = detected_line(path, table->detected);
            if (!table->note.empty()) note(table->note);
            return;
        }
        is_pipe = !is_file;
        refuses_header = is_pipe && reading.input == InputForm::kAuto;
        lines.emplace(path.empty() ? "-" : path);
        if (format) take_lines_of(*format, path);
    }

    void take_lines_of(DataFormat format, const std::string& path) {
        form = Form::kRows;
        switch (format) {
            case DataFormat::kXmc:
            case DataFormat::kPecos:
                form = Form::kText;
                return;
            case DataFormat::kJsonFolder:
                own_key = "title";
                [[fallthrough]];
            case DataFormat::kJsonl:
                form = Form::kJson;
                return;
            case DataFormat::kRaw:
                parser = open_raw_texts(path)->parser();
                return;
            case DataFormat::kFastText:
                parser = open_fasttext(path)->parser();
                has_marks = true;
                return;
            default:
                parser = std::make_unique<FeatureLines>();
                may_have_header = true;
        }
    }

    // A row of a table with the run's columns, but no header. Texts have commas, semicolons and bars, as
    // titles of pages do.
    void look_for_columns(const Record& line) {
        std::vector<std::string> fields;
        for (const char delimiter : {'\t', '|', ',', ';'}) {
            try {
                split_csv(line, fields, delimiter);
            } catch (const DataError&) {  // a text
                continue;
            }
            if (fields.size() != named.size()) continue;
            const std::string columns = fmt::format("{}", fmt::join(named, ", "));
            if (delimiter == '\t')
                fail(line, "lines of text, or JSON lines",
                     fmt::format("a row of a table with the run's columns ({}): '{}'", columns,
                                 quoted(line.bytes)),
                     fmt::format("{}, or give --input text to answer line by line", kReadTwice));
            note(fmt::format(
                "{}: answered line by line, though its first line may be a row of a table with the "
                "run's columns ({}): then save it as .csv and name the file",
                line.file, columns));
            return;
        }
    }

    void note(const std::string& line) { detected += (detected.empty() ? "" : "\n") + line; }

    std::string text_of(Record record) {
        const std::string_view bytes = valid_utf8(record, encoding, storage, counts);
        if (encoding.latin1 && !has_utf8 && bytes.data() == record.bytes.data() && !is_ascii(bytes)) {
            has_utf8 = true;
            note(utf8_line(std::string(record.file)));
        }
        record.bytes = bytes;
        std::string text;
        id = {};
        if (table) {
            table->parser->text(record, text);
            if (table->id_parser) table->id_parser->text(record, id.text);
            return text;
        }
        if (form == Form::kUndecided) {
            form = record.bytes.starts_with('{') && record.bytes.ends_with('}') ? Form::kJson : Form::kText;
            if (record.bytes.starts_with("__label__")) {
                form = Form::kRows;
                parser = open_fasttext({})->parser();
                has_marks = true;
            }
            has_features = is_pipe && form == Form::kText && is_sparse_row(record.bytes);
            if (form == Form::kText && refuses_header && !named.empty()) look_for_columns(record);
            if (form == Form::kText && refuses_header &&
                (is_separator_line(record.bytes) || (!keys.empty() && is_header(record, keys))))
                fail(record, "lines of text, or JSON lines",
                     fmt::format("the header of a table: '{}'", quoted(record.bytes)),
                     fmt::format("{}, or give --input text to answer line by line", kReadTwice));
            if (form == Form::kText && named.empty() && std::ranges::count(record.bytes, '\t') == 1)
                note(fmt::format(
                    "{}: answered line by line, its tab and what follows too; {}give --format tsv{} to "
                    "answer the texts before tabs, or --input text if lines are texts",
                    record.file, is_pipe ? "save it to a file and " : "",
                    keys.size() == 1 && keys[0] != Config().text_column
                        ? fmt::format(" --columns {}", shell_word(keys[0] + ",labels"))
                        : std::string()));
        }
        if (form != Form::kJson && !columns_flag.empty() && is_pipe)
            fail(record, fmt::format("JSON lines, as {} asks for", columns_flag),
                 fmt::format("'{}'", quoted(record.bytes)),
                 fmt::format("{}; of lines of text leave {} out", kReadTwice, columns_flag));
        if (form != Form::kJson && !columns_flag.empty())
            fail(record, fmt::format("a table or JSON lines, as {} asks for", columns_flag),
                 fmt::format("'{}'", quoted(record.bytes)),
                 fmt::format("leave {} out, or say with --format what the file is", columns_flag));
        if (form == Form::kRows) {
            parser->text(record, text);
            return text;
        }
        if (form == Form::kText)
            return has_features && is_sparse_row(record.bytes) ? sparse_record_features(record)
                                                               : std::string(record.bytes);
        if (keys_open && !json.has(record, keys[0])) {
            const std::string key = !own_key.empty() ? own_key : usual_text_column(json.keys(record));
            if (!key.empty()) keys = {key};
            if (!key.empty() && own_key.empty()) note(detected_line(lines->name(), {{"text_column", key}}));
        }
        keys_open = false;
        json.text(record, keys, text);
        const JsonRows::Scalar kind = json.scalar(record, id_key, needs_id, id.text);
        id.is_number = kind == JsonRows::Scalar::kNumber;
        dropped_ids += kind == JsonRows::Scalar::kNone;
        return text;
    }

    // False at the end, and before a wait that nobody wants.
    bool next(std::string& text, bool may_wait) {
        if (table) {
            const auto record = table->records->next();
            if (record) text = text_of(*record);
            return record.has_value();
        }
        if (held && empty_lines > 0) {
            text = text_of({"", lines->line_number() - empty_lines--, lines->name()});
            return true;
        }
        if (held) {
            std::string line = *std::exchange(held, std::nullopt);
            line.reserve(line.size() + LineReader::kPadding);
            text = text_of({line, lines->line_number(), lines->name()});
            return true;
        }
        auto line = lines->next_line();
        while (line && line->empty() && (form == Form::kJson || has_marks)) {
            ++empty_lines;
            if (!may_wait && !lines->ready()) return false;
            line = lines->next_line();
        }
        if (empty_lines > 0 && line) {
            held = *line;
            return next(text, may_wait);
        }
        empty_lines = 0;
        if (line && refuses_foreign) refuse_foreign_line(*line, lines->name());
        refuses_foreign = false;
        if (line && may_have_header && is_sparse_header(*line)) line = lines->next_line();
        may_have_header = false;
        // Three numbers are a header if a row follows. A line that has none behind it may be one that
        // somebody waits for.
        if (line && form == Form::kUndecided && is_sparse_header(*line) && lines->ready()) {
            const std::string first(*line);
            line = lines->next_line();
            if (line && !is_sparse_row(*line)) held = *line;
            if (!line || held) {
                text = text_of({first, 1, lines->name()});
                return true;
            }
        }
        if (line) text = text_of({*line, lines->line_number(), lines->name()});
        return line.has_value();
    }
};

TextReader::TextReader(const std::string& path, const Config& config)
    : impl_(std::make_unique<Impl>(path, config)) {}
TextReader::~TextReader() = default;

std::vector<std::string> TextReader::next(std::int64_t limit) {
    std::vector<std::string> texts;
    std::string text;
    impl_->ids.clear();
    if (std::exchange(impl_->begun, true)) impl_->detected.clear();
    while (static_cast<std::int64_t>(texts.size()) < limit &&
           (texts.empty() || !impl_->lines || impl_->lines->ready()) && impl_->next(text, texts.empty())) {
        texts.push_back(std::move(text));
        impl_->ids.push_back(std::move(impl_->id));
    }
    return texts;
}

const std::vector<TextId>& TextReader::ids() const {
    return impl_->ids;
}

const std::string& TextReader::detected() const {
    return impl_->detected;
}

std::int64_t TextReader::bytes_read() const {
    return impl_->table ? impl_->table->records->bytes_read() : impl_->lines->bytes_read();
}
std::int64_t TextReader::total_bytes() const {
    return impl_->table ? impl_->table->records->total_bytes() : impl_->lines->total_bytes();
}

std::int64_t TextReader::replaced_utf8() const {
    return impl_->counts.replaced_utf8;
}
std::int64_t TextReader::dropped_ids() const {
    return impl_->dropped_ids;
}

}  // namespace elmo
