// `elmo eval`: scores and their protocol.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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

// In percent.
struct AnswerScores {
    double precision = 0, recall = 0, f1 = 0;
};

template <typename Visit>
void visit_fields(const AnswerScores& scores, Visit&& visit) {
    visit("precision", scores.precision);
    visit("recall", scores.recall);
    visit("F1", scores.f1);
}

// What is right if every label above a threshold is an answer.
struct ThresholdScores {
    double threshold = 0;
    std::string source;                  // "given, of calibrated probabilities"
    AnswerScores micro, macro, samples;  // over pairs, over labels that occur, over texts
    std::int64_t positives = 0;          // true labels of the texts
    std::int64_t answered = 0, right = 0;
    std::int64_t most_answers = 0;  // labels per text that were ranked
    std::int64_t cut_texts = 0;     // texts of which all of these were above the lowest threshold
};

template <typename Visit>
void visit_fields(const ThresholdScores& scores, Visit&& visit) {
    visit("threshold", scores.threshold);
    visit("source", scores.source);
    visit("micro", scores.micro);
    visit("macro", scores.macro);
    visit("samples", scores.samples);
    visit("positives", scores.positives);
    visit("answered", scores.answered);
    visit("right", scores.right);
    visit("most_answers", scores.most_answers);
    visit("cut_texts", scores.cut_texts);
}

// One label at a threshold.
struct LabelScores {
    std::int64_t label = 0;
    std::string name;                                     // its number if it has none
    std::int64_t positives = 0, answered = 0, right = 0;  // texts
    AnswerScores scores;
    // With config.errors: the best wrong answers to texts where it was missed, commonest first.
    struct Instead {
        std::string name;
        std::int64_t texts = 0;
    };
    std::vector<Instead> taken_for = {};
};

template <typename Visit>
void visit_fields(const LabelScores::Instead& instead, Visit&& visit) {
    visit("name", instead.name);
    visit("texts", instead.texts);
}

template <typename Visit>
void visit_fields(const LabelScores& label, Visit&& visit) {
    visit("label", label.label);
    visit("name", label.name);
    visit("positives", label.positives);
    visit("answered", label.answered);
    visit("right", label.right);
    visit_fields(label.scores, visit);
    if (!label.taken_for.empty()) visit("taken_for", label.taken_for);
}

// How many labels have an F1 above `above` and up to `up_to`, in percent; the first band holds those of 0.
struct F1Band {
    double above = 0, up_to = 0;
    std::int64_t labels = 0;
};

template <typename Visit>
void visit_fields(const F1Band& band, Visit&& visit) {
    visit("above", band.above);
    visit("up_to", band.up_to);
    visit("labels", band.labels);
}

// Ranked labels whose probability is in one tenth: where probabilities are calibrated, their mean is the
// share that is right.
struct CalibrationBin {
    double from = 0, to = 0;  // probabilities
    double mean = 0;          // of them
    double right = 0;         // share of 1
    std::int64_t pairs = 0;   // of a text and a label
};

template <typename Visit>
void visit_fields(const CalibrationBin& bin, Visit&& visit) {
    visit("from", bin.from);
    visit("to", bin.to);
    visit("mean", bin.mean);
    visit("right", bin.right);
    visit("pairs", bin.pairs);
}

// A true label that was missed in favour of another one.
struct Confusion {
    std::string expected, found;
    std::int64_t texts = 0;
};

template <typename Visit>
void visit_fields(const Confusion& confusion, Visit&& visit) {
    visit("expected", confusion.expected);
    visit("found", confusion.found);
    visit("texts", confusion.texts);
}

// A text whose answer is not its true labels.
struct WrongText {
    std::string split;
    std::int64_t row = 0;  // of the split, from 1
    std::string text;
    std::vector<std::string> expected;
    struct Found {
        std::string name;
        double probability = 0;
    };
    std::vector<Found> found;
};

template <typename Visit>
void visit_fields(const WrongText::Found& found, Visit&& visit) {
    visit("name", found.name);
    visit("probability", found.probability);
}

template <typename Visit>
void visit_fields(const WrongText& wrong, Visit&& visit) {
    visit("split", wrong.split);
    visit("row", wrong.row);
    visit("text", wrong.text);
    visit("expected", wrong.expected);
    visit("found", wrong.found);
}

// Scores and their protocol.
struct ELMO_API Evaluation {
    std::vector<Score> scores;
    std::vector<LabelGroup> groups;
    std::optional<ThresholdScores> at_threshold;  // absent without a threshold
    // With config.errors: the most frequent labels and those of lowest F1, how many labels have which F1, the
    // probabilities against what was right (not of stored predictions), the commonest confusions and the
    // worst answers.
    std::vector<LabelScores> frequent_labels, worst_labels;
    std::vector<F1Band> f1_bands;
    std::vector<CalibrationBin> calibration_curve;
    std::vector<Confusion> confusions;
    std::vector<WrongText> wrong_texts;
    std::string data;  // the data set
    std::string split;
    std::string split_reason;  // why these rows are scored
    std::int64_t num_samples = 0;
    std::int64_t num_labels = 0;
    std::int64_t unlabelled_samples = 0;  // of the samples, texts without labels, which score 0
    std::int64_t trained_samples = 0;     // of these, texts that trained the run, as far as it knows
    std::int64_t untold_samples = 0;      // others of whose words the tokenizer knows too few to tell
    std::string labels_matched;           // how, if the labels of data and run differ; else ""
    std::string k;                        // "1,3,5"
    std::string like;                     // whose conventions; "" for ours
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
    visit("split_reason", e.split_reason);
    visit("samples", e.num_samples);
    visit("labels", e.num_labels);
    visit("checkpoint", e.checkpoint);
    visit("k", e.k);
    if (e.like.empty())
        visit("like", nullptr);
    else
        visit("like", e.like);
    if (!e.labels_matched.empty()) visit("labels_matched", e.labels_matched);
    if (e.unlabelled_samples > 0) visit("unlabelled_samples", e.unlabelled_samples);
    if (e.trained_samples > 0) visit("trained_samples", e.trained_samples);
    if (e.untold_samples > 0) visit("untold_samples", e.untold_samples);
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
    if (e.at_threshold) visit("at_threshold", *e.at_threshold);
    if (!e.frequent_labels.empty()) visit("frequent_labels", e.frequent_labels);
    if (!e.worst_labels.empty()) visit("worst_labels", e.worst_labels);
    if (!e.f1_bands.empty()) visit("f1_bands", e.f1_bands);
    if (!e.calibration_curve.empty()) visit("calibration_curve", e.calibration_curve);
    if (!e.confusions.empty()) visit("confusions", e.confusions);
    if (!e.wrong_texts.empty()) visit("wrong_texts", e.wrong_texts);
    visit("protocol", FieldGroup{[&](auto&& of_protocol) { visit_protocol(e, of_protocol); }});
    if (e.texts_per_second > 0) visit("texts_per_second", e.texts_per_second);
}

// What a protocol calls rows that came from memory, or by way of it: their folder, and the split that they
// are there, say nothing. Empty: as in the configuration.
struct RowsName {
    std::string data = {}, split = {};
};

// config.predictions empty: the model in `run`; otherwise the stored file, of whose data `run`, unless it is
// "", says what config does not. A run's scores also go to RUN/scores.jsonl, or the file config.save_scores.
ELMO_API Evaluation evaluate(const Context& context, const std::string& run, const Config& config,
                             const RowsName& rows = {});

// The difference of a score between two runs that were scored on the same texts.
struct ScoreDifference {
    std::string name;          // "P@1"
    double percent = 0;        // points by which the second run is better
    double low = 0, high = 0;  // interval of the difference, from replicates that hold the same texts
};

struct Comparison {
    Evaluation first, second;
    std::vector<ScoreDifference> differences;  // of the scores that both have
};

template <typename Visit>
void visit_fields(const Comparison& comparison, Visit&& visit) {
    visit("first", comparison.first);
    visit("second", comparison.second);
    visit("difference", FieldGroup{[&](auto&& of_score) {
              for (const ScoreDifference& d : comparison.differences) of_score(d.name, d.percent);
          }});
    if (comparison.first.bootstrap > 0)
        visit("difference_intervals", FieldGroup{[&](auto&& of_score) {
                  for (const ScoreDifference& d : comparison.differences)
                      of_score(d.name, std::array{d.low, d.high});
              }});
}

// Scores two runs on the same rows of config.data (left out: the first run's own). If the data is the own
// data of one of them, its test rows are scored. DataError if the runs read other rows out of it. Where the
// data is a copy of what elmo does not read, the second run may read other columns of it:
// `copy_for_second` then has the copy, and the columns, that it reads.
ELMO_API Comparison compare(const Context& context, const std::string& first, const std::string& second,
                            const Config& config, const RowsName& rows = {},
                            const Config* copy_for_second = nullptr);

}  // namespace elmo
