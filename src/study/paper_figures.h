// What the ELMO paper (ICML 2025) reports, as data: its data sets, and the figures of its tables for Renee
// and for its own modes. A test compares them with the paper's text.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace elmo {

inline constexpr double kNotReported = std::numeric_limits<double>::quiet_NaN();

// A row of its table of data sets. The paper exchanges the last two in two of its rows (131K, 320K); here
// they are what the numbers of texts and labels give.
struct PaperSet {
    const char *shape, *title;  // the name that `--shape` and recipes know, and the paper's
    std::int64_t train_rows, labels, test_rows;
    double labels_per_row, rows_per_label;
};
const std::vector<PaperSet>& paper_sets();

// A method on a data set: tables 2, 3, 7 and 8.
struct PaperResult {
    const char *table, *shape, *mode;  // mode: renee, fp32, bf16 or fp8 (with an FP8 encoder)
    double p1, p3, p5, gib;
    const char* epoch;  // mm:ss, "" if not reported
    double psp1 = kNotReported, psp3 = kNotReported, psp5 = kNotReported;
};
const std::vector<PaperResult>& paper_results();

// Table 4, the encoder's precision beside an FP8 head, and table 5, an RTX 4060 Ti: memory in GB.
struct PaperGigabytes {
    const char *table, *shape, *encoder;
    double gb;
    const char* epoch;
};
const std::vector<PaperGigabytes>& paper_gigabytes();

// Table 6, LF-AmazonTitles-1.3M with an FP8 head: refinement, and a compensation for 20 % of the labels.
struct PaperRepair {
    const char* mode;  // fp8+refine or fp8+kahan20
    double p1, p3, p5, gib;
};
const std::vector<PaperRepair>& paper_repairs();

// Table 10, Amazon-3M in BF16.
struct PaperChunks {
    std::int64_t chunks;
    const char* epoch;
    double gib;
};
const std::vector<PaperChunks>& paper_chunks();

}  // namespace elmo
