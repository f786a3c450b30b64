// The old format of the XMC repository: one file with a header 'rows features labels', then a line
// 'label,label feature:value feature:value' for each row, all numbers from 0. A row without labels begins
// with a space. Files without a header (LIBSVM's multi-label form) are read too; their sizes are counted.
//
// The features are a bag of words: they become tokens, which the bag encoder averages. A feature's value
// says how often its token stands in the row: eight times for the row's largest value, proportionally fewer
// for smaller ones, once where all values are equal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "elmo/context.h"
#include "sources/matrices/sparse_matrix.h"
#include "sources/row_source.h"

namespace elmo {

struct SparseFileShape {
    bool has_header = false;
    std::int64_t rows = -1;  // as the header says; -1 without one
    std::int64_t features = 0, labels = 0;
};
// From the header, or by reading the whole file. DataError for a malformed file.
SparseFileShape read_sparse_shape(const Context& context, const std::filesystem::path& file);
// Sizes that hold for all of the files; DataError when their headers disagree.
SparseFileShape join_sparse_shapes(const Context& context, const std::vector<std::filesystem::path>& files);

// Both parts of a row, under the rules; nullptr leaves a part out.
void parse_sparse_record(const Record& record, const SparseFileShape& shape, const SparseRules& rules,
                         SparseRow* labels, SparseRow* features, ImportCounts& counts);

// The labels of the rows.
std::unique_ptr<RowSource> open_sparse_labels(const std::filesystem::path& file, const SparseFileShape& shape,
                                              bool merge);

// A reader at the first row.
std::unique_ptr<RecordReader> open_sparse_rows(const std::filesystem::path& file);

// A record's features as they stand, without its labels. DataError where they are none.
std::string sparse_record_features(const Record& record);
// The same as the text of a number_tokenizer.
std::string sparse_record_text(const Record& record);

// Appends a row's features as tokens.
void append_feature_tokens(const SparseRow& features, std::vector<std::int32_t>& tokens);

}  // namespace elmo
