// Plain tables: tab-separated text<TAB>labels without a header, or tables with named columns, whatever
// separates them.
#include <fmt/format.h>

#include "base/text_util.h"
#include "sources/row_source.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/table_shape.h"

namespace elmo {
namespace {

class TableParser : public RowParser {
  public:
    TableParser(const TableShape& shape, const LabelCells& cells) : shape_(shape), cells_(cells) {}

    void text(const Record& record, std::string& text) override {
        split(record, nullptr);
        text.clear();
        for (const std::size_t column : shape_.text) {
            if (!text.empty() && !fields_[column].empty()) text += ' ';
            text += fields_[column];
        }
    }
    void labels(const Record& record, RowLabels& labels, ImportCounts& counts) override {
        split(record, &counts.stray_quotes);
        labels.names.clear();
        if (!shape_.one_hot)
            return read_label_field(record, fields_[shape_.labels[0]], cells_, labels.names, counts);
        for (const std::size_t column : shape_.labels) {
            if (!is_flag(fields_[column], shape_.flags)) {
                const char* expected =
                    shape_.flags == FlagWriting::kDigits ? "0 or 1" : "yes, no, x or nothing";
                fail(record, fmt::format("{} in the column '{}'", expected, quoted(shape_.names[column])),
                     fmt::format("'{}'", quoted(fields_[column])),
                     fmt::format(
                         "write {} there, or remove the column if it is no label; where the names of labels "
                         "begin alike, --label-column 'genre_*' takes those columns only",
                         expected));
            }
            if (is_set_flag(fields_[column], shape_.flags)) labels.names.push_back(shape_.names[column]);
        }
    }

  private:
    void split(const Record& record, std::int64_t* stray) {
        shape_.split(record, fields_, stray);
        const std::size_t wanted = shape_.names.size();
        if (fields_.size() == wanted) return;
        const std::string expected = shape_.has_header ? fmt::format("{} fields, as the header has", wanted)
                                     : wanted == 2 && shape_.delimiter == '\t'
                                         ? std::string("'text<TAB>label,label'")
                                         : fmt::format("{} fields, as --columns names", wanted);
        if (record.bytes.empty()) fail(record, expected, "an empty line", "remove it");
        fail(record, expected,
             fmt::format("{} in '{}'", counted(std::ssize(fields_), "field"), quoted(record.bytes)),
             advice(record.bytes));
    }

    std::string_view advice(std::string_view line) const {
        if (!shape_.quotes && line.find('"') != line.npos)
            return "where fields stand in quotes, say so with --quotes double";
        if (fields_.size() == 1 && shape_.names.size() == 2 && shape_.delimiter == '\t')
            return "a text without labels ends in a tab";
        if (fields_.size() < shape_.names.size()) return "fields without anything need their delimiters, too";
        if (!shape_.quotes)
            return shape_.delimiter == '\t'
                       ? "write a tab inside a field as a blank, or put such fields in quotes "
                         "with --quotes double"
                       : "put fields that hold the delimiter in quotes, with --quotes double";
        return shape_.delimiter == ',' ? "put fields that hold commas in quotes"
                                       : "put fields that hold the delimiter in quotes";
    }

    const TableShape& shape_;
    const LabelCells& cells_;
    std::vector<std::string> fields_;
};

class TableFile : public RowSource {
  public:
    TableFile(std::filesystem::path file, const Layout& layout)
        : file_(std::move(file)), shape_(find_table_shape(file_, layout)), cells_(layout.cells) {}

    std::unique_ptr<RecordReader> open() const override { return shape_.open(file_); }
    std::unique_ptr<RowParser> parser() const override {
        return std::make_unique<TableParser>(shape_, cells_);
    }

  private:
    std::filesystem::path file_;
    TableShape shape_;
    LabelCells cells_;
};

}  // namespace

std::unique_ptr<RowSource> open_table(const std::filesystem::path& file, const Layout& layout) {
    return std::make_unique<TableFile>(file, layout);
}

}  // namespace elmo
