// Plain tables: tab-separated text<TAB>labels without a header, or TSV and CSV with a header and named
// columns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/error.h"
#include "sources/row_source.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace {

struct TableShape {
    bool csv = false;
    bool has_header = false;
    std::size_t num_fields = 0;
    std::vector<std::size_t> text;  // columns
    std::size_t label = 0;
    std::string separator;

    void split(const Record& record, std::vector<std::string>& fields) const {
        csv ? split_csv(record, fields) : split_tsv(record, fields);
    }
};

class TableParser : public RowParser {
  public:
    explicit TableParser(const TableShape& shape) : shape_(shape) {}

    void text(const Record& record, std::string& text) override {
        split(record);
        text.clear();
        for (const std::size_t column : shape_.text) {
            if (!text.empty() && !fields_[column].empty()) text += ' ';
            text += fields_[column];
        }
    }
    void labels(const Record& record, RowLabels& labels, ImportCounts&) override {
        split(record);
        labels.names.clear();
        split_labels(fields_[shape_.label], shape_.separator, labels.names);
    }

  private:
    void split(const Record& record) {
        shape_.split(record, fields_);
        if (fields_.size() == shape_.num_fields) return;
        const std::string expected = shape_.has_header
                                         ? fmt::format("{} fields, as the header has", shape_.num_fields)
                                         : std::string("'text<TAB>label,label'");
        if (record.bytes.empty()) fail(record, expected, "an empty line", "remove it");
        fail(record, expected, fmt::format("{} in '{}'", fields_.size(), quoted(record.bytes)),
             shape_.csv && fields_.size() > shape_.num_fields ? "put fields that hold commas in quotes" : "");
    }

    const TableShape& shape_;
    std::vector<std::string> fields_;
};

class TableFile : public RowSource {
  public:
    TableFile(std::filesystem::path file, const Layout& layout) : file_(std::move(file)) {
        shape_.csv = layout.format == DataFormat::kCsv;
        shape_.separator = layout.label_separator;
        RecordReader reader(file_, framing());
        const auto record = reader.next();
        if (!record) throw DataError(fmt::format("{}: expected rows, found an empty file", file_.string()));
        find_columns(*record, layout);
    }
    std::unique_ptr<RecordReader> open() const override {
        auto reader = std::make_unique<RecordReader>(file_, framing());
        if (shape_.has_header) reader->next();
        return reader;
    }
    std::unique_ptr<RowParser> parser() const override { return std::make_unique<TableParser>(shape_); }

  private:
    Framing framing() const { return shape_.csv ? Framing::kCsv : Framing::kObjects; }

    // The first record is a header when it has the named columns; a TSV file may do without one.
    void find_columns(const Record& record, const Layout& layout) {
        std::vector<std::string> names;
        shape_.split(record, names);
        shape_.num_fields = names.size();
        const auto column = [&](const std::string& name) {
            return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
        };
        for (const std::string& name : layout.text_columns) shape_.text.push_back(column(name));
        shape_.label = column(layout.label_column);
        const bool labelled = !layout.label_column.empty();
        const bool all = (!labelled || shape_.label < names.size()) &&
                         std::all_of(shape_.text.begin(), shape_.text.end(),
                                     [&](std::size_t at) { return at < names.size(); });
        if (all) {
            shape_.has_header = true;
            for (std::size_t i = 0; i < names.size(); ++i)
                if (const std::size_t first = column(names[i]);
                    first < i &&
                    ((labelled && first == shape_.label) ||
                     std::find(shape_.text.begin(), shape_.text.end(), first) != shape_.text.end()))
                    fail(record, "each column once",
                         fmt::format("'{}' in columns {} and {}", quoted(names[i]), first + 1, i + 1),
                         "rename one of them");
        } else if (!shape_.csv && names.size() == 2) {
            shape_.text = {0};
            shape_.label = 1;
        } else {
            std::vector<std::string> wanted = layout.text_columns;
            if (labelled) wanted.push_back(layout.label_column);
            fail(record,
                 fmt::format("{}a header with the column{} '{}'",
                             shape_.csv ? "" : "'text<TAB>label,label' or ", wanted.size() == 1 ? "" : "s",
                             fmt::join(wanted, "' and '")),
                 fmt::format("'{}'", quoted(record.bytes)),
                 header_advice(record.bytes, names.size(), labelled));
        }
    }

    // What is most likely wrong with a first line that lacks the columns.
    std::string_view header_advice(std::string_view line, std::size_t num_names, bool labelled) const {
        if (line.find('\0') != line.npos) return "it looks like UTF-16: convert the file to UTF-8";
        if (shape_.csv && num_names == 1 && line.find(';') != line.npos)
            return "columns are separated by commas or tabs, not by semicolons: save the file so";
        return labelled ? "name the columns with --text-column and --label-column"
                        : "name the column with --text-column";
    }

    std::filesystem::path file_;
    TableShape shape_;
};

}  // namespace

std::unique_ptr<RowSource> open_table(const std::filesystem::path& file, const Layout& layout) {
    return std::make_unique<TableFile>(file, layout);
}

}  // namespace elmo
