// What single layers need of a configuration, as plain typed structs. These layers do not depend on the list
// of options, so a new option compiles only what uses it. A view is made from a Config only here;
// a caller that has a Config passes it as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace elmo {

struct Config;

// In the order of the names in options.def.
enum class EncoderPrecision { kBf16, kFp8, kFp16, kFp32 };
enum class PoolingChoice { kMean, kCls };
enum class HeadRounding { kStochastic, kNearest };
enum class HeadNoise { kAuto, kIndependent, kPaired, kShared, kSteps, kSharedSteps };
enum class TextEncoding { kUtf8, kLatin1 };
enum class LearntTokenizer { kWordPiece, kByteBpe };
enum class AugmentChoice { kAuto, kNone, kLabels, kCooccurrence };
enum class SplitChoice { kAuto, kTest, kValidation, kTrain, kAll };
enum class QuoteChoice { kAuto, kDouble, kNone };
enum class InputForm { kAuto, kText, kJsonl };
enum class DeviceChoice { kAuto, kCpu, kCuda, kReference };
enum class RecomputeChoice { kAuto, kNone, kCheap, kCompressed, kCompact, kWide, kWider, kLayers };
enum class ExchangeChoice { kAuto, kNccl, kHost };
enum class HeadMemory { kDevice, kHost };

// Of an option whose value the first rows of the data answered.
inline constexpr std::string_view kDetectedReason = "detected in the first rows of the data";

// Of data that came by standard input.
inline constexpr std::string_view kStandardInput = "standard input";

// How texts and labels are read: data sets, their cache, tokenizers, texts to answer.
struct ReadOptions {
    ReadOptions(const Config& config);

    std::string data;       // a folder or a file
    std::string data_name;  // for people: the data, what it is a copy of, or standard input
    std::string format;     // auto, or the name of a DataFormat
    bool format_given;      // by the call: a run's format is that of its data, not of texts to answer
    std::string cache;      // a folder; "": beside the data, or the user's
    TextEncoding encoding;
    bool allow_invalid_utf8, allow_repeated_labels, allow_null_labels, allow_stray_quotes;
    std::string text_column, label_column;
    std::string label_separator;  // auto, list, none, or the separator
    std::string columns;          // of a table without a header, between commas
    // Keys and values that an earlier look at the first rows of the data chose.
    std::vector<std::pair<std::string, std::string>> detected;
    std::string delimiter;  // of a table: auto, tab or a character
    QuoteChoice quotes;
    bool delimiter_given, quotes_given, label_separator_given;  // by the call
    // Nobody asked for a name, and the default names nothing in some files: what a format's own names say
    // then holds. A run's recipe says no more than a default does.
    bool text_column_open, label_column_open, label_separator_open;
    // What the run's data has; other files may have another.
    bool text_column_of_run, label_column_of_run, label_separator_of_run;
    bool run_has_header;  // the run's texts have a column with a name of its own, not the default
    bool text_column_given, label_column_given;  // by the call
    bool needs_header;                           // by the call or a recipe, one of them
    bool columns_of_run;                         // the names, which say nothing about a file with a header
    double test_share;
    bool test_share_given;      // by the call
    bool equal_texts_together;  // in training or held out; blanks around them do not count
    std::string validation;     // a share, or a file
    std::string test;           // a file of test rows that only Python reads
    std::uint64_t seed;         // chooses the validation rows
    std::string filter;         // auto, none, or a file
    // What they are copies of, for the time of a call (set_copied); "" where they are what was named.
    std::string data_original, validation_original, test_original;
    // Only the recipe of a run names it: not yet a path that the user wants to be read (known_paths.h).
    bool data_of_run, validation_of_run, test_of_run, filter_of_run;
    bool data_named_by_run;  // the same, or a copy of what a run names
    SplitChoice split;       // the rows to score, which a filter file is about
    AugmentChoice augment;
    double augment_threshold;
    InputForm input;        // of texts to answer
    std::string id_column;  // of texts to answer
    bool id_column_open;    // it need not be there
    std::int64_t max_length;
    std::int64_t windows;   // of max_length tokens, that a longer text has at most
    std::string tokenizer;  // auto, a folder or a file
    std::string encoder;    // bag, or a folder, which may hold a tokenizer
    LearntTokenizer tokenizer_kind;
    std::int64_t vocab_size;  // of a tokenizer that is learnt
};

struct EncoderOptions {
    EncoderOptions(const Config& config);

    std::string encoder;  // bag, or a folder
    std::int64_t width;   // of a bag
    EncoderPrecision precision;
    bool compensated;     // BF16 weights are updated by Kahan's sums
    bool state_in_bytes;  // of AdamW, where weights are BF16
    PoolingChoice pooling;
    double dropout;        // of the pooled text vector
    double inner_dropout;  // -1: the encoder's own
    bool frozen;
    std::int64_t accumulate;           // steps per update
    std::int64_t windows, max_length;  // of a text, and of a window where there are several
};

struct HeadOptions {
    HeadOptions(const Config& config);

    std::string precision;  // a name, or exmy:...
    HeadRounding rounding;
    HeadNoise noise;
    std::string kahan;  // a share of the labels, or auto
    double weight_dropout;
    double loss_scale, momentum;  // of renee
};

// What a run in memory computes on, and within which memory.
struct EngineOptions {
    EngineOptions(const Config& config);

    DeviceChoice device;
    std::string cpu_products;  // auto, bf16 or fp32
    std::int64_t max_bytes;    // of max_memory; 0: not given
    std::int64_t chunks;       // 0: not given
    RecomputeChoice recompute;
    bool may_compress = true;  // whether kAuto may be kCompressed or kCompact, which change digits
    std::int64_t batch_shards, label_groups;  // 1 while they are auto
    ExchangeChoice exchange;                  // of the GPUs of several ranks
    HeadMemory head_memory;                   // of a GPU
};

// The sizes of a run without a data set.
struct SizeOptions {
    SizeOptions(const Config& config);

    std::string shape;  // a name, or ""
    std::int64_t labels, batch_size, max_length, vocab_size;
    EncoderOptions encoder;
};

// How rankings are scored.
struct ScoreOptions {
    ScoreOptions(const Config& config);

    std::string data_name;              // of the original of a copy: it decides conventions
    std::string like;                   // a project whose conventions hold, or ""
    double propensity_a, propensity_b;  // -1: the data set's
    std::string propensity_counts;      // auto, plain or augmented
    std::int64_t bootstrap;             // replicates
};

}  // namespace elmo
