// The library's door: what the program and bindings call. Each function is one verb.
#pragma once

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {

std::string version();

// ---- memory ---------------------------------------------------------------------------------
struct Segment {
    std::string name;  // "head/weights", "encoder/activations/layer.3/attention", ...
    std::int64_t bytes = 0;
    bool at_peak = false;  // alive when the arena is fullest
};

// A phase of a training step, at its fullest moment.
struct MemoryPhase {
    std::string name;  // "start", "encoder forward", "head", "encoder backward"
    std::int64_t bytes = 0;
    std::vector<std::size_t> segments;  // alive then: indices into MemoryReport::segments
};

struct MemoryReport {
    std::string device;               // whose memory: "cpu", "cuda" (without the CUDA context), "reference"
    std::vector<Segment> segments;    // in the order of allocation
    std::vector<MemoryPhase> phases;  // in the order of a step; the fullest has arena_bytes
    std::int64_t arena_bytes = 0;     // peak of the arena: what elmo allocates for the model and the step
    std::int64_t mapped_bytes = 0;    // files mapped, not allocated: token cache, head at prediction
    std::int64_t program_bytes = 0;   // code, libraries and their scratch: measured once, not planned
    std::int64_t total_bytes() const { return arena_bytes + mapped_bytes + program_bytes; }
    std::int64_t max_bytes = 0;  // max_memory, 0 where none is given
    bool fits() const { return max_bytes == 0 || total_bytes() <= max_bytes; }
    std::int64_t chunks = 1;         // chosen or given
    std::string recompute = "none";  // of the encoder's layers, chosen or given
    std::string describe() const;    // a table for people
};

// The memory of a training run of this configuration, without running it. Uses the data set's cache for
// labels and lengths when `data` is set, else `labels` and full-length texts.
MemoryReport plan_memory(const Config& config);

// ---- training -------------------------------------------------------------------------------
struct Score {
    std::string name;  // "P@1"
    double percent = 0;
    double low = 0, high = 0;  // confidence interval; both 0 where none was computed
};

// Labels by how often they occur in training: each group holds about a third of the training positives. Where
// many are equally frequent there are fewer than three.
struct LabelGroup {
    std::string name;  // "head", "torso", "tail"
    std::int64_t labels = 0;
    std::int64_t least = 0, most = 0;  // training rows of its labels
    std::int64_t positives = 0;        // of the rows scored
    std::vector<Score> scores;  // "P@k": the group's part of P@k; "R@k": the share of its positives found
};

// Scores and the protocol that gave them.
struct Evaluation {
    std::vector<Score> scores;
    std::vector<LabelGroup> groups;
    std::string data;  // the data set
    std::string split;
    std::int64_t num_samples = 0;
    std::int64_t num_labels = 0;
    std::string labels_matched;  // how, where the data's labels are not the run's; else ""
    std::string k;               // "1,3,5"
    std::string like;            // whose conventions; "" for ours
    double propensity_a = 0, propensity_b = 0;
    std::string propensity_source;     // "given", "by the data set's name ..."; "" where there are none
    std::string propensity_counts;     // "training set, plain"
    std::int64_t propensity_rows = 0;  // the N of the propensities
    std::string filter;                // file and hash, or "none"
    std::string ties = "lower label number first";
    std::string checkpoint;      // folder, step and hash; or the prediction file and its hash
    std::int64_t bootstrap = 0;  // replicates behind the intervals
    double confidence = 0;       // of the intervals: 0.95
    double texts_per_second = 0;
    double get(const std::string& name) const;  // ConfigError when absent
};

// One line of JSON: scores by name, intervals, groups, and the protocol.
std::string to_json(const Evaluation& evaluation);

struct TrainResult {
    std::int64_t steps = 0;
    double epochs = 0;
    bool interrupted = false;
    double train_seconds = 0;  // inside steps only
    double texts_per_second = 0;
    double last_loss = 0;
    std::string select;     // what best means
    double best_score = 0;  // percent; of the validation set
    std::int64_t best_step = 0;
    MemoryReport planned;
    std::int64_t measured_peak_bytes = 0;  // peak resident memory of the process
    std::int64_t saturations = 0;          // weights that met the largest finite number of their format
    std::int64_t skipped_steps = 0;        // precision renee: gradients beyond FP16
};

// Trains. `stop`, when set by a signal handler, ends after the running step with everything saved.
TrainResult train(const Config& config, const std::atomic<bool>& stop);

// ---- evaluation and prediction ----------------------------------------------------------------
// config.predictions empty: the model in `run`; otherwise the stored file, and `run` is unused. The scores
// are also appended to RUN/scores.jsonl, or where config.save_scores says.
Evaluation evaluate(const std::string& run, const Config& config);

struct Prediction {
    std::int64_t label = 0;
    std::string_view name;  // of the predictor; "" where the data set had no label names
    float score = 0;        // logit
    float probability = 0;
};

// One line of JSON; `file` is left out when empty.
std::string to_json(const std::string& file, std::int64_t line, const std::vector<Prediction>& predictions);

// Which labels may be answered: files of a label a line, by name or number; "" for no restriction.
struct LabelScope {
    std::string labels = {};   // these alone: only their weights are read
    std::string without = {};  // all but these
};

class Predictor {
  public:
    // Maps the checkpoint. Options used: checkpoint, device, threads, top, threshold, probabilities,
    // batch_size, max_memory.
    Predictor(const std::string& run, const Config& config, const LabelScope& scope = {});
    ~Predictor();
    Predictor(const Predictor&) = delete;
    Predictor& operator=(const Predictor&) = delete;

    // Best labels of each text, best first, ties by lower number. At most batch_size texts a call.
    std::vector<std::vector<Prediction>> predict(const std::vector<std::string>& texts);
    std::int64_t num_labels() const;   // of the run
    std::int64_t num_answers() const;  // labels that may be answered
    bool calibrated() const;           // probabilities are
    std::string checkpoint_folder() const;
    const MemoryReport& plan() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct PredictedFiles {
    std::int64_t texts = 0;    // in config.out now
    std::int64_t resumed = 0;  // of them there before
    std::int64_t replaced_utf8 = 0;
    double seconds = 0;
};

// Answers every text of the files into config.out, a line of JSON each, with progress. Until all are done the
// lines are in OUT.partial, which config.resume continues. ConfigError when OUT exists and neither resume nor
// overwrite is set, or when what is to be continued was another call.
PredictedFiles predict_files(const std::string& run, const std::vector<std::string>& files,
                             const LabelScope& scope, const Config& config);

// Probabilities that hold: P(right) = sigmoid(a score + b), Platt's method.
struct Calibration {
    double a = 1, b = 0;
    std::int64_t rows = 0, top = 0;         // validation texts, and how many labels of each
    std::int64_t pairs = 0, right = 0;      // predictions, and those that are right
    std::int64_t positives = 0;             // true labels of the texts
    double f1_threshold = 0;                // probability from which on the micro-F1 is largest
    double log_loss_raw = 0, log_loss = 0;  // before and after, each half scored by a fit on the other
    double brier_raw = 0, brier = 0;        // mean squared error of probabilities
    double error_raw = 0, error = 0;        // expected calibration error
};

// Fits on the validation rows of the run's data and keeps the result beside the checkpoint, where prediction
// finds it.
Calibration calibrate(const std::string& run, const Config& config);

// ---- data -----------------------------------------------------------------------------------
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
DataSummary import_data(const Config& config);

// Writes the WordNet hypernym data set (XMC repository text layout) from a WordNet dict folder.
DataSummary make_wordnet(const std::string& wordnet_folder, const Config& config);

// ---- looking --------------------------------------------------------------------------------
// What a run folder or a data set holds, as ordered pairs for printing or JSON (values are JSON literals).
std::vector<std::pair<std::string, std::string>> inspect(const std::string& path, const Config& config);

// Ids of one text, special tokens included; loads config.tokenizer once.
class TextEncoder {
  public:
    explicit TextEncoder(const Config& config);
    ~TextEncoder();
    std::vector<std::int32_t> encode(std::string_view text) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
