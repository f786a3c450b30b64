// `elmo eval`: scores and the protocol that gave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

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
struct ELMO_API Evaluation {
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
ELMO_API std::string to_json(const Evaluation& evaluation);

// config.predictions empty: the model in `run`; otherwise the stored file, and `run` is unused. The scores
// are also appended to RUN/scores.jsonl, or where config.save_scores says.
ELMO_API Evaluation evaluate(const Context& context, const std::string& run, const Config& config);

}  // namespace elmo
