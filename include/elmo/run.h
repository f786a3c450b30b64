// What a run folder holds besides its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// Thresholds of single labels: with enough validation rows each gets the one with its largest F1.
struct LabelThresholds {
    std::vector<std::int64_t> labels;  // ascending; all others take the common threshold
    std::vector<double> thresholds;    // probabilities
    // F1 in percent with one threshold and with these, each half of the texts judged by a fit on the other.
    double micro_f1_common = 0, micro_f1 = 0;
    double macro_f1_common = 0, macro_f1 = 0;
};

// Calibrated probabilities: P(right) = sigmoid(a score + b), Platt's method.
struct Calibration {
    double a = 1, b = 0;
    std::int64_t rows = 0, top = 0;         // validation texts, and how many labels of each
    std::int64_t pairs = 0, right = 0;      // predictions, and those that are right
    std::int64_t positives = 0;             // true labels of the texts
    double f1_threshold = 0;                // probability threshold with the largest micro-F1
    double log_loss_raw = 0, log_loss = 0;  // before and after, each half scored by a fit on the other
    double brier_raw = 0, brier = 0;        // mean squared error of probabilities
    double error_raw = 0, error = 0;        // expected calibration error
    std::optional<LabelThresholds> label_thresholds;  // where they were asked for
};

template <typename AnyThresholds, typename Visit>
void visit_f1(AnyThresholds& t, Visit&& visit) {
    visit("micro_f1_common", t.micro_f1_common);
    visit("micro_f1", t.micro_f1);
    visit("macro_f1_common", t.macro_f1_common);
    visit("macro_f1", t.macro_f1);
}

template <typename Visit>
void visit_fields(const LabelThresholds& t, Visit&& visit) {
    visit("labels", t.labels);
    visit("thresholds", t.thresholds);
    visit_f1(t, visit);
}

// Its numbers by name, to read or to set.
template <typename AnyCalibration, typename Visit>
void visit_numbers(AnyCalibration& c, Visit&& visit) {
    visit("a", c.a);
    visit("b", c.b);
    visit("rows", c.rows);
    visit("top", c.top);
    visit("pairs", c.pairs);
    visit("right", c.right);
    visit("positives", c.positives);
    visit("f1_threshold", c.f1_threshold);
    visit("log_loss_raw", c.log_loss_raw);
    visit("log_loss", c.log_loss);
    visit("brier_raw", c.brier_raw);
    visit("brier", c.brier);
    visit("error_raw", c.error_raw);
    visit("error", c.error);
}

template <typename Visit>
void visit_fields(const Calibration& c, Visit&& visit) {
    visit("method", "platt");
    visit_numbers(c, visit);
    if (c.label_thresholds) visit("label_thresholds", *c.label_thresholds);
}

// One fact about a run or a data set.
struct Fact {
    std::string name;   // key in JSON: "head_bytes"
    std::string text;   // for people: "1.2 GiB"
    std::string json;   // a JSON literal
    std::string title;  // for people: "head"
};

// What a run folder or a data set holds.
ELMO_API std::vector<Fact> inspect(const Context& context, const std::string& path, const Config& config);
// The ranks of this launch, their machines and devices, and how fast they exchange: a collective.
ELMO_API std::vector<Fact> inspect_ranks(const Context& context, const Config& config);
// One line of JSON: values by name.
ELMO_API std::string to_json(const std::vector<Fact>& facts);

}  // namespace elmo
