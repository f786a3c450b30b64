// The XMC repository text layout: one text per line, labels in a sparse matrix beside them.
#include <fmt/format.h>

#include "elmo/error.h"
#include "sources/matrices/sparse_matrix.h"
#include "sources/row_source.h"

namespace elmo {
namespace {

class TextLineParser : public RowParser {
  public:
    void text(const Record& record, std::string& text) override { text.assign(record.bytes); }
    void labels(const Record&, RowLabels&, ImportCounts&) override {
        throw Error("a file of texts has no labels");
    }
};

class TextLines : public RowSource {
  public:
    explicit TextLines(std::filesystem::path file) : file_(std::move(file)) {}
    std::unique_ptr<RecordReader> open() const override {
        return std::make_unique<RecordReader>(file_, Framing::kLines);
    }
    std::unique_ptr<RowParser> parser() const override { return std::make_unique<TextLineParser>(); }

  private:
    std::filesystem::path file_;
};

class MatrixParser : public RowParser {
  public:
    MatrixParser(std::int64_t columns, bool merge) : columns_(columns) { rules_.mend = merge; }
    void text(const Record&, std::string&) override { throw Error("a label matrix has no texts"); }
    void labels(const Record& record, RowLabels& labels, ImportCounts& counts) override {
        parse_sparse_row(record, columns_, rules_, row_, counts);
        labels.ids = row_.indices;
    }

  private:
    std::int64_t columns_;
    SparseRules rules_;
    SparseRow row_;
};

class LabelMatrixFile : public LabelMatrixSource {
  public:
    LabelMatrixFile(std::filesystem::path file, std::int64_t num_labels, bool merge)
        : file_(std::move(file)), merge_(merge) {
        RecordReader reader(file_, Framing::kLines);
        const auto record = reader.next();
        if (!record)
            throw DataError(
                fmt::format("{}: expected a header 'rows columns', found an empty file", file_.string()));
        header_ = parse_sparse_header(*record);
        if (num_labels >= 0 && header_.columns != num_labels)
            fail(*record, fmt::format("{} columns (labels), as the rest of the data set has", num_labels),
                 fmt::format("{}", header_.columns));
    }
    std::unique_ptr<RecordReader> open() const override {
        auto reader = std::make_unique<RecordReader>(file_, Framing::kLines);
        reader->next();
        return reader;
    }
    std::unique_ptr<RowParser> parser() const override {
        return std::make_unique<MatrixParser>(header_.columns, merge_);
    }
    std::int64_t promised_rows() const override { return header_.rows; }
    std::int64_t num_labels() const override { return header_.columns; }

  private:
    std::filesystem::path file_;
    bool merge_;
    SparseHeader header_;
};

}  // namespace

std::unique_ptr<RowSource> open_text_lines(const std::filesystem::path& file) {
    return std::make_unique<TextLines>(file);
}

std::unique_ptr<LabelMatrixSource> open_label_matrix(const std::filesystem::path& file,
                                                     std::int64_t num_labels, bool merge) {
    return std::make_unique<LabelMatrixFile>(file, num_labels, merge);
}

}  // namespace elmo
