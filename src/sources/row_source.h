// The rows of one source file, whatever its format: where they begin, their text, their labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sources/layout.h"
#include "sources/records/record_reader.h"

namespace elmo {

// Labels of one row: numbers, ascending and each once, or names in the order of the file, by format.
struct RowLabels {
    std::vector<std::uint32_t> ids;
    std::vector<std::string> names;
};

// Understands records; one object per thread. Records are valid UTF-8 already, except for numbered labels of
// the XMC format.
class RowParser {
  public:
    virtual ~RowParser() = default;
    virtual void text(const Record& record, std::string& text) = 0;
    virtual void labels(const Record& record, RowLabels& labels, ImportCounts& counts) = 0;
};

class RowSource {
  public:
    virtual ~RowSource() = default;
    // A reader at the first row, past any header.
    virtual std::unique_ptr<RecordReader> open() const = 0;
    virtual std::unique_ptr<RowParser> parser() const = 0;
    // Rows that a header promises, or -1.
    virtual std::int64_t promised_rows() const { return -1; }
};

// Texts, one a line: the XMC format's trn_X.txt.
std::unique_ptr<RowSource> open_text_lines(const std::filesystem::path& file);
// Numbered labels of the XMC format. DataError when the header is missing or its columns are not
// `num_labels` (-1 takes any).
struct LabelMatrixSource : RowSource {
    virtual std::int64_t num_labels() const = 0;
};
std::unique_ptr<LabelMatrixSource> open_label_matrix(const std::filesystem::path& file,
                                                     std::int64_t num_labels, bool merge);
// Texts and numbered labels of the JSON lines folder, or only texts with num_labels 0.
std::unique_ptr<RowSource> open_json_folder_file(const std::filesystem::path& file, const Layout& layout,
                                                 std::int64_t num_labels, bool merge);
// Texts and named labels of a plain file.
std::unique_ptr<RowSource> open_plain_json(const std::filesystem::path& file, const Layout& layout);
// A table; without a label_column in the layout only its texts.
std::unique_ptr<RowSource> open_table(const std::filesystem::path& file, const Layout& layout);
std::unique_ptr<RowSource> open_fasttext(const std::filesystem::path& file);
// The two files of a raw pair.
std::unique_ptr<RowSource> open_raw_texts(const std::filesystem::path& file);
std::unique_ptr<RowSource> open_raw_labels(const std::filesystem::path& file, const Layout& layout);

// The source of named labels by the layout's format.
std::unique_ptr<RowSource> open_named_labels(const std::filesystem::path& file, const Layout& layout);

// The source of a split's texts by the layout's format; DataError where it has none.
std::unique_ptr<RowSource> open_texts(const Layout& layout, SplitName split);

}  // namespace elmo
