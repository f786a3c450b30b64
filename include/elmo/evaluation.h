// `elmo eval`: scores and their protocol.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/context.h"
#include "elmo/fields.h"
#include "elmo/version.h"

namespace elmo {

struct Config;

struct Score {
    std::string name;  // "P@1"
    double percent = 0;
    double low = 0, high = 0;  // confidence interval; both 0 where none was computed
};

// Labels by how often they occur in training. Each group holds about a third of the training positives; if
// many labels are equally frequent, there are fewer than three groups.
struct LabelGroup {
    std::string name;  // "head", "torso", "tail"
    std::int64_t labels = 0;
    std::int64_t least = 0, most = 0;  // training rows of its labels
    std::int64_t positives = 0;        // of the rows scored
    std::vector<Score> scores;  // "P@k": the group's part of P@k; "R@k": the share of its positives found
};

template <typename Visit>
void visit_fields(const LabelGroup& group, Visit&& visit) {
    visit("labels", group.labels);
    visit("training_rows", std::array{group.least, group.most});
    visit("positives", group.positives);
    for (const Score& score : group.scores) visit(score.name, score.percent);
}

// Scores and their protocol.
struct ELMO_API Evaluation {
    std::vector<Score> scores;
    std::vector<LabelGroup> groups;
    std::string data;  // the data set
    std::string split;
    std::int64_t num_samples = 0;
    std::int64_t num_labels = 0;
    std::string labels_matched;  // how, if the labels of data and run differ; else ""
    std::string k;               // "1,3,5"
    std::string like;            // whose conventions; "" for ours
    double propensity_a = 0, propensity_b = 0;
    std::string propensity_source;     // "given", "by the data set's name ..."; "" if there are none
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

// The protocol.
template <typename Visit>
void visit_protocol(const Evaluation& e, Visit&& visit) {
    visit("elmo", version());
    visit("data", e.data);
    visit("split", e.split);
    visit("samples", e.num_samples);
    visit("labels", e.num_labels);
    visit("checkpoint", e.checkpoint);
    visit("k", e.k);
    if (e.like.empty())
        visit("like", nullptr);
    else
        visit("like", e.like);
    if (!e.labels_matched.empty()) visit("labels_matched", e.labels_matched);
    if (e.propensity_source.empty()) {
        visit("propensities", "none: the data set has no training labels");
    } else {
        visit("propensity_a", e.propensity_a);
        visit("propensity_b", e.propensity_b);
        visit("propensity_source", e.propensity_source);
        visit("propensity_counts", e.propensity_counts);
        visit("propensity_rows", e.propensity_rows);
    }
    visit("filter", e.filter);
    visit("ties", e.ties);
    if (e.bootstrap > 0) {
        visit("bootstrap", e.bootstrap);
        visit("confidence", e.confidence);
    }
}

// Scores by name, intervals, groups, and the protocol.
template <typename Visit>
void visit_fields(const Evaluation& e, Visit&& visit) {
    for (const Score& score : e.scores) visit(score.name, score.percent);
    if (e.bootstrap > 0 && !e.scores.empty())
        visit("intervals", FieldGroup{[&](auto&& of_score) {
                  for (const Score& score : e.scores) of_score(score.name, std::array{score.low, score.high});
              }});
    if (!e.groups.empty())
        visit("groups", FieldGroup{[&](auto&& of_group) {
                  for (const LabelGroup& group : e.groups) of_group(group.name, group);
              }});
    visit("protocol", FieldGroup{[&](auto&& of_protocol) { visit_protocol(e, of_protocol); }});
    if (e.texts_per_second > 0) visit("texts_per_second", e.texts_per_second);
}

// config.predictions empty: the model in `run`; otherwise the stored file, and `run` is unused. The scores
// are also appended to RUN/scores.jsonl, or to the file in config.save_scores.
ELMO_API Evaluation evaluate(const Context& context, const std::string& run, const Config& config);

}  // namespace elmo
