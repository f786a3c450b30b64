// What a data set consists of: its format and the files of each split.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/views.h"
#include "sources/rows.h"

namespace elmo {

// Docs: docs/formats.md.
enum class DataFormat {
    kXmc,         // trn_X.txt, trn_X_Y.txt (or .npz), Y.txt
    kPecos,       // X.trn.txt, Y.trn.npz, output-items.txt
    kJsonFolder,  // trn.json, lbl.json
    kRaw,         // train_raw_texts.txt, train_labels.txt
    kSparse,      // one file of labels and bag-of-words features
    kFastText,    // __label__x text
    kTsv,
    kCsv,
    kJsonl,
};
// "xmc", as --format takes it, and back; ConfigError for another name.
std::string name_of(DataFormat format);
DataFormat format_named(const std::string& name, std::string_view option = "format");

// How the label field of a plain file is written.
struct LabelCells {
    std::string separator = ",";  // "" cuts nowhere
    bool lists = false;           // every field is a list: see label_lists.h
    bool allow_null = false;      // a word for null, or no label key at all, is a row without labels
    bool given = false;           // by the call: what separates labels is no doubt

    // As --label-separator takes it.
    std::string name() const { return lists ? "list" : separator.empty() ? "none" : separator; }
};

// An option that nobody gave and that the first rows of the data answer.
struct DetectedOption {
    std::string key, value;
    bool of_every_file = true;  // holds for other files of the same kind too: not what separates columns
};

struct SplitFiles {
    std::filesystem::path text;    // "" where the split has none
    std::filesystem::path labels;  // the same file as text where rows hold both
    std::filesystem::path filter;  // "" where there is none
    // Of its labels, where they are written otherwise than those of the training file.
    std::optional<LabelCells> cells = {};
    std::vector<DetectedOption> detected = {};  // where they are otherwise than in the training file
};

// How a table is written.
struct TableWriting {
    char delimiter = 0;                       // 0: by the header
    QuoteChoice quotes = QuoteChoice::kAuto;  // auto: by content
    bool allow_stray_quotes = false;
    bool latin1 = false;               // the bytes of its header too
    bool needs_header = false;         // columns were asked for by name
    std::vector<std::string> columns;  // the names of the columns where no header has them
};

// The share of a file's rows that are test rows, by a hash of their texts.
struct HashedShare {
    double share = 0;
    bool trimmed = true;  // blanks around a text do not count
};

struct Layout {
    DataFormat format = DataFormat::kXmc;
    std::filesystem::path data;  // the folder or file
    std::string data_name;       // for people
    SplitFiles train, test, validation;
    std::filesystem::path label_names;  // Y.txt or lbl.json; "" where there is none

    std::vector<std::string> text_columns;  // columns or keys
    std::string label_column;               // a key, a column, or with '*' at its end columns of 0 and 1
    LabelCells cells;
    TableWriting table;
    std::vector<DetectedOption> detected;
    std::vector<std::string> notes;     // lines about files that people may not expect
    std::vector<std::string> warnings;  // about those that are not used
    HashedShare test_share;             // of the training file, where it holds the test rows too

    // Labels are names, numbered by elmo; else they are numbers.
    bool names_labels() const { return format >= DataFormat::kRaw && format != DataFormat::kSparse; }
    // Texts and label matrix in two files.
    bool has_matrix() const { return format == DataFormat::kXmc || format == DataFormat::kPecos; }
    // Training and test rows in one file, split by a hash of the text.
    bool splits_by_hash() const { return test_share.share > 0; }
    const SplitFiles& files(SplitName split) const;
    std::string describe() const;                                // for people
    std::string shown(const std::filesystem::path& file) const;  // for people: its path, or standard input
};

// What the options say of a table.
TableWriting table_writing(const ReadOptions& reading);

// Looks at reading.data: names of files, then the content of the first of them. ConfigError or DataError that
// says what was looked for and what is there.
Layout find_layout(const ReadOptions& reading);

// reading.validation: a share, or a file.
struct Validation {
    double share = 0;
    std::filesystem::path file;  // "" for a share
};
Validation parse_validation(const ReadOptions& reading);
// The share; 0 for a file, which need not be there.
double validation_share(const ReadOptions& reading);

// Whether the rows of the file hold their labels, so that it is data by itself: not texts whose labels are in
// another file, nor what is of no format.
bool holds_labels(const std::filesystem::path& file);

}  // namespace elmo
