// Data sets beyond importing: reports on their contents, conversion to other formats, filters, and data sets
// made from public dumps. Each function is one action of `elmo data`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/dataset.h"
#include "elmo/fields.h"

namespace elmo {

// The distribution of a number: usual and extreme values.
struct Spread {
    double mean = 0;
    std::int64_t least = 0, median = 0, p90 = 0, p99 = 0, most = 0;
};

template <typename Visit>
void visit_fields(const Spread& spread, Visit&& visit) {
    visit("mean", spread.mean);
    visit("least", spread.least);
    visit("median", spread.median);
    visit("p90", spread.p90);
    visit("p99", spread.p99);
    visit("most", spread.most);
}

struct SplitReport {
    std::string name;  // "train"
    std::int64_t rows = 0;
    std::int64_t rows_without_labels = 0;
    Spread labels_per_row;
    // Of texts, where the split has any.
    std::int64_t empty_texts = 0;
    std::int64_t repeated_texts = 0;   // beyond the first of each
    std::int64_t texts_in_train = 0;   // of another split: texts that also occur in training
    std::int64_t not_utf8 = 0;         // rows
    std::int64_t like_latin1 = 0;      // of these
    std::string first_not_utf8;        // "file:line"
    Spread tokens_per_row;             // uncut
    std::int64_t longer_than_max = 0;  // than max_length
};

// Without the name, which a list of splits adds.
template <typename Visit>
void visit_fields(const SplitReport& split, Visit&& visit) {
    visit("rows", split.rows);
    visit("rows_without_labels", split.rows_without_labels);
    visit("labels_per_row", split.labels_per_row);
    visit("tokens_per_row", split.tokens_per_row);
    visit("longer_than_max", split.longer_than_max);
    visit("empty_texts", split.empty_texts);
    visit("repeated_texts", split.repeated_texts);
    visit("texts_in_train", split.texts_in_train);
    visit("not_utf8", split.not_utf8);
    visit("like_latin1", split.like_latin1);
    visit("first_not_utf8", split.first_not_utf8);
}

// Labels by how many training rows they have.
struct LabelsByRows {
    std::string rows;  // "0", "1", "2", "3-4", "5-8", ...
    std::int64_t labels = 0;
    bool operator==(const LabelsByRows&) const = default;
};

template <typename Visit>
void visit_fields(const LabelsByRows& bar, Visit&& visit) {
    visit("rows", bar.rows);
    visit("labels", bar.labels);
}

// A row as it is read.
struct SampleRow {
    std::string text;                 // its beginning
    std::vector<std::string> labels;  // names, or numbers where there are none
};

template <typename Visit>
void visit_fields(const SampleRow& row, Visit&& visit) {
    visit("text", row.text);
    visit("labels", row.labels);
}

struct SampleLabel {
    std::string name;
    std::int64_t rows = 0;  // in training
};

template <typename Visit>
void visit_fields(const SampleLabel& label, Visit&& visit) {
    visit("name", label.name);
    visit("rows", label.rows);
}

struct DataReport {
    std::string format;
    std::vector<SplitReport> splits;
    std::int64_t labels = 0;
    bool has_label_names = false;
    std::int64_t repeated_names = 0, empty_names = 0;
    Spread rows_per_label;  // training rows
    std::vector<LabelsByRows> histogram;
    std::int64_t labels_unseen_in_train = 0;
    std::int64_t merged_labels = 0;
    std::vector<std::string> trouble;  // what a strict import stops at
    std::vector<std::string> doubts;   // likely mistakes in how it is read
    std::vector<SampleRow> samples;    // the first training rows
    std::vector<SampleLabel> commonest, strangest;
    std::string cache;
    // What a run of this configuration would cost; steps about, since which rows validate is drawn. With
    // label texts as training rows (--augment) there are more.
    std::int64_t plan_bytes = 0;
    std::int64_t steps_per_epoch = 0, steps_with_label_texts = 0;
    std::string encoder, precision;
};

template <typename Visit>
void visit_fields(const DataReport& report, Visit&& visit) {
    visit("format", report.format);
    visit("labels", report.labels);
    if (!report.splits.empty())
        visit("splits", FieldGroup{[&](auto&& of_split) {
                  for (const SplitReport& split : report.splits) of_split(split.name, split);
              }});
    visit("has_label_names", report.has_label_names);
    visit("repeated_names", report.repeated_names);
    visit("empty_names", report.empty_names);
    visit("rows_per_label", report.rows_per_label);
    visit("histogram", report.histogram);
    visit("labels_unseen_in_train", report.labels_unseen_in_train);
    visit("merged_labels", report.merged_labels);
    visit("trouble", report.trouble);
    visit("doubts", report.doubts);
    visit("samples", report.samples);
    visit("commonest_labels", report.commonest);
    visit("strangest_labels", report.strangest);
    visit("cache", report.cache);
    visit("plan", FieldGroup{[&](auto&& of_plan) {
              of_plan("encoder", report.encoder);
              of_plan("precision", report.precision);
              of_plan("total_bytes", report.plan_bytes);
              of_plan("steps_per_epoch", report.steps_per_epoch);
              of_plan("steps_with_label_texts", report.steps_with_label_texts);
          }});
}

// Reports on config.data. Errors that would stop a strict import (invalid UTF-8, repeated labels) are counted
// instead.
ELMO_API DataReport report_data(const Context& context, const Config& config);

struct Conversion {
    std::string out;  // the folder
    std::string format;
    std::int64_t train_rows = 0, test_rows = 0, labels = 0;
    std::int64_t changed_texts = 0,
                 changed_names = 0;  // characters that the format cannot represent became '_' or ' '
    std::int64_t marked_texts = 0;   // held words that fastText takes for labels
    std::vector<std::string> files;
};

template <typename Visit>
void visit_fields(const Conversion& made, Visit&& visit) {
    visit("out", made.out);
    visit("format", made.format);
    visit("train_rows", made.train_rows);
    visit("test_rows", made.test_rows);
    visit("labels", made.labels);
    visit("changed_texts", made.changed_texts);
    visit("changed_names", made.changed_names);
    visit("marked_texts", made.marked_texts);
    visit("files", made.files);
}

// Writes config.data into the folder config.out in the format `to`, a name that --format takes.
ELMO_API Conversion convert_data(const Context& context, const Config& config, const std::string& to);

struct FilterResult {
    std::int64_t train_pairs = 0, test_pairs = 0;
    std::string train_file, test_file;
};

template <typename Visit>
void visit_fields(const FilterResult& made, Visit&& visit) {
    visit("train_pairs", made.train_pairs);
    visit("test_pairs", made.test_pairs);
    visit("train_file", made.train_file);
    visit("test_file", made.test_file);
}

// Writes trn_filter_labels.txt and tst_filter_labels.txt into config.out. `own`: pairs of a row and the label
// with the same text. `reciprocal`: pairs of a test row and a label whose text is a training row that carries
// the test row's own label.
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

template <typename Visit>
void visit_fields(const PaperKeywords& made, Visit&& visit) {
    visit("papers", made.papers);
    visit("without_text", made.without_text);
    visit("without_keywords", made.without_keywords);
    visit("repeated", made.repeated);
    visit("train_rows", made.train_rows);
    visit("test_rows", made.test_rows);
    visit("labels", made.labels);
    visit("labels_unseen_in_train", made.labels_unseen_in_train);
    visit("labels_per_row", made.labels_per_row);
    visit("rows_per_label", made.rows_per_label);
}

// Writes LF-Paper2Keywords from a DBLP citation network dump (JSON array; plain, gzip, zstd or zip) into
// config.out in the XMC repository text layout.
ELMO_API PaperKeywords make_paper2keywords(const Context& context, const std::string& dump,
                                           const Config& config);

}  // namespace elmo
