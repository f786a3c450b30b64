// A data set: rows from memory, and what is in its binary cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/context.h"

namespace elmo {

struct Config;

struct DataSummary {
    std::string format;
    std::int64_t train_rows = 0, test_rows = 0, labels = 0;
    double labels_per_row = 0, rows_per_label = 0;
    double tokens_per_row = 0;
    std::int64_t longest_row_tokens = 0, cut_rows = 0;  // cut at max_length
    std::int64_t rows_without_labels = 0, labels_unseen_in_train = 0;
    std::int64_t replaced_utf8 = 0, merged_labels = 0;
    bool has_label_names = false;
    std::int64_t train_filter_pairs = 0, test_filter_pairs = 0;
    std::string cache;  // the folder of the binary cache
    bool cache_reused = false;
    double import_seconds = 0;
};

template <typename Visit>
void visit_fields(const DataSummary& summary, Visit&& visit) {
    visit("format", summary.format);
    visit("train_rows", summary.train_rows);
    visit("test_rows", summary.test_rows);
    visit("labels", summary.labels);
    visit("labels_per_row", summary.labels_per_row);
    visit("rows_per_label", summary.rows_per_label);
    visit("tokens_per_row", summary.tokens_per_row);
    visit("longest_row_tokens", summary.longest_row_tokens);
    visit("cut_rows", summary.cut_rows);
    visit("rows_without_labels", summary.rows_without_labels);
    visit("labels_unseen_in_train", summary.labels_unseen_in_train);
    visit("replaced_utf8", summary.replaced_utf8);
    visit("merged_labels", summary.merged_labels);
    visit("has_label_names", summary.has_label_names);
    visit("train_filter_pairs", summary.train_filter_pairs);
    visit("test_filter_pairs", summary.test_filter_pairs);
    visit("cache", summary.cache);
    visit("cache_reused", summary.cache_reused);
    visit("import_seconds", summary.import_seconds);
}

// Imports config.data (tokenizing when a tokenizer is known) or reuses its cache, and returns a summary.
ELMO_API DataSummary import_data(const Context& context, const Config& config);

struct Row {
    std::string text;
    std::vector<std::string> labels = {};         // by name
    bool null_label = false;                      // a null among them, as allow_null_labels allows
    std::optional<std::string> label_field = {};  // instead of labels: a field of a table, read as in a file
};

// Whether this is the path of a temporary RowFolder or of a file in it, or what a run calls rows from memory:
// a name that tells them from others and leads to no file.
ELMO_API bool is_row_folder(const std::string& path);

// Sets text_column and label_column, where nobody gave them, to the columns that a table from memory must
// mean: its first rows, names first and values as a file would have them, are looked at as those of a file
// are. The names in `text_columns` are those that text_column joins.
ELMO_API void detect_columns(Config& config, const std::vector<std::string>& text_columns,
                             const std::vector<std::vector<std::string>>& first_rows);

// A data set from memory. Every verb reads its data more than once, so rows go to a folder as they come:
// train.jsonl and test.jsonl, an object per line with the keys "text" and "labels", or those of name_columns.
// Memory does not grow. Without test rows, a share of the rows is held out as for any file (test_share).
class ELMO_API RowFolder {
  public:
    // A temporary folder, removed with this object by the process that made it.
    RowFolder();
    // This folder, made if it is missing, and kept. DataError if it already holds such files.
    explicit RowFolder(const std::string& folder);
    ~RowFolder();
    RowFolder(RowFolder&&) noexcept;
    RowFolder& operator=(RowFolder&&) noexcept;

    // The columns of the table that the rows are from, which a run remembers; before the first row. Of
    // several text columns ("title+body") the first one's key holds the joined text.
    void name_columns(const std::string& text_column, const std::string& label_column);
    // DataError for a text or a name that is not UTF-8, and when the disk is full.
    void add(const Row& row);
    void add_test(const Row& row);
    // All rows are in: sets the data set of `config` and how it is read.
    void finish(Config& config);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
