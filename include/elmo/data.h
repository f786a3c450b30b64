// The door to data sets beyond importing one: what is in it, writing it in another format, filters, and
// data sets made from public dumps. Each function is one action of `elmo data`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/dataset.h"

namespace elmo {

// Numbers of one kind, ordered: what is usual and what is extreme.
struct Spread {
    double mean = 0;
    std::int64_t least = 0, median = 0, p90 = 0, p99 = 0, most = 0;
};

struct SplitReport {
    std::string name;  // "train"
    std::int64_t rows = 0;
    std::int64_t rows_without_labels = 0;
    Spread labels_per_row;
    // Of texts, where the split has any.
    std::int64_t empty_texts = 0;
    std::int64_t repeated_texts = 0;   // beyond the first of each
    std::int64_t texts_in_train = 0;   // of another split: texts that training has too
    std::int64_t not_utf8 = 0;         // rows
    std::int64_t like_latin1 = 0;      // of these
    std::string first_not_utf8;        // "file:line"
    Spread tokens_per_row;             // uncut
    std::int64_t longer_than_max = 0;  // than max_length
};

struct DataReport {
    std::string format;
    std::vector<SplitReport> splits;
    std::int64_t labels = 0;
    bool has_label_names = false;
    std::int64_t repeated_names = 0, empty_names = 0;
    Spread rows_per_label;  // training rows
    // Labels by training rows: (label, count) of "0", "1", "2", "3-4", "5-8", ...
    std::vector<std::pair<std::string, std::int64_t>> histogram;
    std::int64_t labels_unseen_in_train = 0;
    std::int64_t merged_labels = 0;
    std::vector<std::string> trouble;  // what a strict import stops at
    std::string cache;
    // What a run of this configuration would cost.
    std::int64_t plan_bytes = 0;
    std::int64_t steps_per_epoch = 0;
    std::string encoder, precision;
};

// Looks at config.data. What a strict import would stop at (invalid UTF-8, repeated labels) is counted
// instead.
ELMO_API DataReport report_data(const Context& context, const Config& config);

struct Conversion {
    std::string format;
    std::int64_t train_rows = 0, test_rows = 0, labels = 0;
    std::int64_t changed_texts = 0,
                 changed_names = 0;  // characters that the format cannot carry became '_' or ' '
    std::vector<std::string> files;
};

// Writes config.data into the folder config.out in the format `to`, a name that --format takes.
ELMO_API Conversion convert_data(const Context& context, const Config& config, const std::string& to);

struct FilterResult {
    std::int64_t train_pairs = 0, test_pairs = 0;
    std::string train_file, test_file;
};

// Writes trn_filter_labels.txt and tst_filter_labels.txt into config.out: pairs of a row and a label that is
// the row's own text (own), and, with `reciprocal`, pairs of a test row and a label whose text is a training
// row that has the test row's own label.
ELMO_API FilterResult make_filters(const Context& context, const Config& config, bool own, bool reciprocal);

// Writes the WordNet hypernym data set (XMC repository text layout) from a WordNet dict folder.
ELMO_API DataSummary make_wordnet(const Context& context, const std::string& wordnet_folder,
                                  const Config& config);

struct PaperKeywords {
    std::int64_t papers = 0;                                            // elements of the dump
    std::int64_t without_text = 0, without_keywords = 0, repeated = 0;  // left out
    std::int64_t train_rows = 0, test_rows = 0, labels = 0, labels_unseen_in_train = 0;
    double labels_per_row = 0, rows_per_label = 0;
};

// Writes LF-Paper2Keywords from a DBLP citation network dump (JSON array; plain, gzip, zstd or zip) into
// config.out in the XMC repository text layout.
ELMO_API PaperKeywords make_paper2keywords(const Context& context, const std::string& dump,
                                           const Config& config);

}  // namespace elmo
