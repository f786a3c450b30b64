// JSON lines: the folder of trn.json, tst.json and lbl.json with numbered labels, and one plain file with
// labels by name.
#include "sources/row_source.h"
#include "sources/tables/json_rows.h"

namespace elmo {
namespace {

struct JsonOptions {
    std::vector<std::string> text_keys;
    std::string label_key;
    LabelCells cells;
    bool numbered = false;
    std::int64_t num_labels = 0;
    bool merge = false;
};

class JsonParser : public RowParser {
  public:
    explicit JsonParser(const JsonOptions& options) : options_(options) {}
    void text(const Record& record, std::string& text) override {
        rows_.text(record, options_.text_keys, text);
    }
    void labels(const Record& record, RowLabels& labels, ImportCounts& counts) override {
        if (options_.numbered)
            rows_.label_ids(record, options_.label_key, options_.num_labels, options_.merge, labels.ids,
                            counts);
        else
            rows_.label_names(record, options_.label_key, options_.cells, labels.names, counts);
    }

  private:
    const JsonOptions& options_;
    JsonRows rows_;
};

class JsonFile : public RowSource {
  public:
    JsonFile(std::filesystem::path file, JsonOptions options)
        : file_(std::move(file)), options_(std::move(options)) {}
    std::unique_ptr<RecordReader> open() const override {
        return std::make_unique<RecordReader>(file_, Framing::kObjects);
    }
    std::unique_ptr<RowParser> parser() const override { return std::make_unique<JsonParser>(options_); }

  private:
    std::filesystem::path file_;
    JsonOptions options_;
};

}  // namespace

std::unique_ptr<RowSource> open_json_folder_file(const std::filesystem::path& file, const Layout& layout,
                                                 std::int64_t num_labels, bool merge) {
    return std::make_unique<JsonFile>(
        file, JsonOptions{layout.text_columns, layout.label_column, {}, true, num_labels, merge});
}

std::unique_ptr<RowSource> open_plain_json(const std::filesystem::path& file, const Layout& layout) {
    return std::make_unique<JsonFile>(
        file, JsonOptions{layout.text_columns, layout.label_column, layout.cells, false, 0, false});
}

}  // namespace elmo
