// A data set in its binary cache.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

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
    std::string cache;  // where the binary cache lies
    bool cache_reused = false;
    double import_seconds = 0;
};

// Imports config.data (tokenizing when a tokenizer is known) or reuses its cache, and says what is there.
ELMO_API DataSummary import_data(const Context& context, const Config& config);

}  // namespace elmo
